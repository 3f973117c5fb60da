//! S3's errors: codes, statuses, and the XML document that tells a client what went wrong.
//!
//! Programs branch on the code, and some on extra elements such as `<Region>`; people read the
//! message. Codes and statuses are those of the S3 API reference, "Error responses". The
//! operations and everything below them return an [`S3Failure`]; the service makes a response of
//! it, since only it knows the request's resource and identifier.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

use super::xml::XmlDocument;

/// Declares the codes, each with its status and the message that it has when nothing more is known.
macro_rules! codes {
    ($($name:ident $status:ident $message:literal)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum S3ErrorCode {
            $($name,)*
        }

        impl S3ErrorCode {
            /// The code as clients compare it.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)*
                }
            }

            /// The message of a failure that has none of its own.
            pub(crate) fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                }
            }
        }
    };
}

codes! {
    AccessControlListNotSupported BAD_REQUEST "The bucket does not allow ACLs"
    AccessDenied FORBIDDEN "Access Denied"
    AuthorizationHeaderMalformed BAD_REQUEST "The authorization header is malformed."
    AuthorizationQueryParametersError BAD_REQUEST "The authorization query parameters are not valid."
    BadDigest BAD_REQUEST "The digest or checksum you specified did not match the one of the body that was received."
    BadRequest BAD_REQUEST "The request is not valid."
    BucketAlreadyExists CONFLICT "The requested bucket name is not available."
    BucketAlreadyOwnedByYou CONFLICT "The bucket exists already, and you own it."
    BucketNotEmpty CONFLICT "The bucket you tried to delete is not empty."
    EntityTooLarge BAD_REQUEST "Your proposed upload exceeds the maximum allowed size."
    EntityTooSmall BAD_REQUEST "Your proposed upload is smaller than the minimum allowed size."
    IllegalLocationConstraintException BAD_REQUEST "The location constraint is incompatible with the region of this endpoint."
    IncompleteBody BAD_REQUEST "The request body ended before it was complete."
    InternalError INTERNAL_SERVER_ERROR "The server met an internal error: see its log, and try again."
    InvalidAccessKeyId FORBIDDEN "The access key ID you provided does not exist in our records."
    InvalidArgument BAD_REQUEST "An argument is not valid."
    InvalidBucketName BAD_REQUEST "The specified bucket is not valid."
    InvalidBucketState CONFLICT "The request is not valid with the current state of the bucket."
    InvalidChunkSizeError FORBIDDEN "Only the last chunk is allowed to have a size less than 8192 bytes"
    InvalidDigest BAD_REQUEST "The Content-MD5 you specified is not valid."
    InvalidPart BAD_REQUEST "One or more of the specified parts could not be found. The part may not have been uploaded, or its entity tag or checksum may not match."
    InvalidPartNumber RANGE_NOT_SATISFIABLE "The requested part number is not satisfiable."
    InvalidPartOrder BAD_REQUEST "The list of parts was not in ascending order: parts must be ordered by part number."
    InvalidRange RANGE_NOT_SATISFIABLE "The requested range is not satisfiable."
    InvalidRequest BAD_REQUEST "The request is not valid."
    InvalidTag BAD_REQUEST "The tags are not valid."
    InvalidToken BAD_REQUEST "The provided token is malformed or otherwise not valid."
    InvalidURI BAD_REQUEST "The specified URI could not be parsed."
    KeyTooLongError BAD_REQUEST "Your key is too long."
    MalformedTrailerError BAD_REQUEST "The request contained trailing data that was not well-formed or did not match the fields announced in x-amz-trailer."
    MalformedXML BAD_REQUEST "The XML you provided was not well-formed or did not match the published schema."
    MaxMessageLengthExceeded BAD_REQUEST "Your request was too large."
    MetadataTooLarge BAD_REQUEST "Your metadata headers exceed the maximum allowed metadata size."
    MethodNotAllowed METHOD_NOT_ALLOWED "The specified method is not allowed against this resource."
    MissingContentLength LENGTH_REQUIRED "You must provide the length of the body."
    NoSuchBucket NOT_FOUND "The specified bucket does not exist."
    NoSuchBucketPolicy NOT_FOUND "The bucket has no policy."
    NoSuchCORSConfiguration NOT_FOUND "The bucket has no CORS configuration."
    NoSuchKey NOT_FOUND "The specified key does not exist."
    NoSuchLifecycleConfiguration NOT_FOUND "The bucket has no lifecycle configuration."
    NoSuchPublicAccessBlockConfiguration NOT_FOUND "The bucket has no public access block configuration."
    NoSuchTagSet NOT_FOUND "There is no tag set."
    NoSuchUpload NOT_FOUND "The specified upload does not exist. The upload ID may not be valid, or the upload may have been aborted or completed."
    NoSuchVersion NOT_FOUND "The specified version does not exist."
    NoSuchWebsiteConfiguration NOT_FOUND "The bucket has no website configuration."
    NotImplemented NOT_IMPLEMENTED "The request asks for something that this server does not implement."
    ObjectLockConfigurationNotFoundError NOT_FOUND "The bucket has no object lock configuration."
    OwnershipControlsNotFoundError NOT_FOUND "The bucket has no ownership controls."
    PreconditionFailed PRECONDITION_FAILED "At least one of the preconditions you specified did not hold."
    ReplicationConfigurationNotFoundError NOT_FOUND "The bucket has no replication configuration."
    RequestTimeTooSkewed FORBIDDEN "The difference between the request time and the server's time is too large."
    RequestTimeout BAD_REQUEST "The body arrived too slowly or not at all, and the server has stopped waiting."
    ServerSideEncryptionConfigurationNotFoundError NOT_FOUND "The bucket has no server side encryption configuration."
    ServiceUnavailable SERVICE_UNAVAILABLE "The server cannot handle the request now. Try again."
    SignatureDoesNotMatch FORBIDDEN "The request signature that the server calculated does not match the signature you provided. Check your secret access key and signing method."
    XAmzContentSHA256Mismatch BAD_REQUEST "The provided 'x-amz-content-sha256' header does not match what was computed."
}

impl fmt::Display for S3ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a request failed, for its client. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct S3Failure {
    /// What programs branch on.
    pub code: S3ErrorCode,
    /// A message that says more than the code's.
    pub message: Option<Cow<'static, str>>,
    /// Further elements of the document, names and texts in order.
    pub elements: Vec<(&'static str, String)>,
}

/// A response's identifiers, in its header and in the document of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct S3ResponseIds<'a> {
    /// `x-amz-request-id`.
    pub request_id: &'a str,
    /// `x-amz-id-2`.
    pub host_id: &'a str,
}

impl S3Failure {
    /// A failure with its code's message.
    pub(crate) fn new(code: S3ErrorCode) -> Self {
        Self {
            code,
            message: None,
            elements: Vec::new(),
        }
    }

    /// A failure with a message of its own.
    pub(crate) fn with_message(code: S3ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: Some(message.into()),
            ..Self::new(code)
        }
    }

    /// `InvalidArgument` about one argument, named as S3 names it.
    pub(crate) fn invalid_argument(
        name: &'static str,
        value: impl Into<String>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::with_message(S3ErrorCode::InvalidArgument, message)
            .element("ArgumentName", name)
            .element("ArgumentValue", value)
    }

    /// The same failure with one more element.
    pub(crate) fn element(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.elements.push((name, text.into()));
        self
    }

    pub(crate) fn message(&self) -> &str {
        let own = self.message.as_deref();
        own.unwrap_or_else(|| self.code.message())
    }

    /// The document; `resource` is the path of the request as it was sent.
    pub(crate) fn document(&self, resource: &str, ids: S3ResponseIds<'_>) -> String {
        let mut document = XmlDocument::without_namespace("Error");
        document.text("Code", self.code.as_str());
        document.text("Message", self.message());
        for (name, text) in &self.elements {
            document.text(name, text);
        }
        document.text("Resource", resource);
        document.text("RequestId", ids.request_id);
        document.text("HostId", ids.host_id);
        document.finish()
    }
}

impl From<S3ErrorCode> for S3Failure {
    fn from(code: S3ErrorCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for S3Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message())
    }
}

impl std::error::Error for S3Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: S3ResponseIds<'_> = S3ResponseIds {
        request_id: "4442587FB7D0A2F9",
        host_id: "abc=",
    };

    #[test]
    fn the_document_has_the_elements_of_s3_in_their_order() {
        let failure = S3Failure::with_message(
            S3ErrorCode::AuthorizationHeaderMalformed,
            "the region 'a<b' is wrong",
        )
        .element("Region", "us-east-1");
        assert_eq!(
            failure.document("/b/k&", IDS),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>\
             <Code>AuthorizationHeaderMalformed</Code>\
             <Message>the region 'a&lt;b' is wrong</Message><Region>us-east-1</Region>\
             <Resource>/b/k&amp;</Resource><RequestId>4442587FB7D0A2F9</RequestId>\
             <HostId>abc=</HostId></Error>"
        );
    }
}

//! Why an operation failed: what S3 said, or what happened to the request.

use std::fmt;
use std::time::Duration;

use haul_net::{Kind, RequestSecrets};
use haul_plan::{Remedy, RetryAfterText, TransferTimeLimit};
use http::StatusCode;

use crate::address::{S3Address, S3AddressError};
use crate::xml::{XmlNode, XmlReadError};

/// The most characters of a message of S3's that an error repeats.
const MAX_MESSAGE: usize = 300;

/// The most characters of a code.
const MAX_CODE: usize = 100;

/// The operation that begins an upload in parts.
pub(crate) const CREATE_MULTIPART_UPLOAD: &str = "CreateMultipartUpload";

/// A failed operation.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation}{}: {kind}", self.place())]
pub struct S3Error {
    /// The operation, as AWS names it.
    pub operation: &'static str,
    /// What it was about.
    pub address: Box<S3Address>,
    /// The endpoint, if it is not AWS.
    pub endpoint: Option<String>,
    /// What went wrong.
    #[source]
    pub kind: S3ErrorKind,
}

/// What went wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum S3ErrorKind {
    /// S3 refused, or reported an error in a response that began with 200.
    #[error("{0}")]
    Service(Box<ServiceError>),
    /// There was no response, or it broke off.
    #[error(transparent)]
    Network(#[from] haul_net::Error),
    /// The response is not what S3 sends.
    #[error("the response of the store cannot be understood: {0}")]
    Response(String),
    /// A list does not advance, or is cut: it would have no end, or look complete.
    #[error("the list of the store does not advance: {0}")]
    StuckList(&'static str),
    /// No request can name the key.
    #[error(transparent)]
    Address(#[from] S3AddressError),
}

/// An error of S3's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    pub status: StatusCode,
    /// The code, such as `NoSuchKey`; empty where the response had none, as for HEAD.
    pub code: String,
    pub message: String,
    /// What names the request in the service's logs.
    pub request_id: Option<String>,
    /// The time that the response asks to wait.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code.is_empty() {
            write!(f, "the store responded with {}", self.status)?
        } else {
            write!(f, "{} ({})", self.code, self.status.as_u16())?
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        write!(f, "{}", RetryAfterText(self.retry_after))
    }
}

impl ServiceError {
    /// An error from the body of a response.
    pub(crate) fn from_xml(status: StatusCode, root: &XmlNode, secrets: &RequestSecrets) -> Self {
        let shown = |name, limit| {
            let text = secrets.redact(root.text_of(name));
            let characters = text.chars().filter(|character| !character.is_control());
            characters.take(limit).collect::<String>()
        };
        Self {
            status,
            code: shown("Code", MAX_CODE),
            message: shown("Message", MAX_MESSAGE),
            request_id: Some(secrets.redact(root.text_of("RequestId"))).filter(|id| !id.is_empty()),
            retry_after: None,
        }
    }

    /// Whether the same request may succeed later. A code counts more than the status: an error may come in a response that began
    /// with 200 (row F1).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.code.as_str() {
            "InternalError"
            | "SlowDown"
            | "ServiceUnavailable"
            | "RequestTimeout"
            | "RequestTimeTooSkewed"
            | "OperationAborted"
            | "ConditionalRequestConflict"
            | "Throttling"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "TooManyRequests"
            | "BadDigest"
            | "IncompleteBody" => true,
            _ => {
                self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED
                    || matches!(self.status.as_u16(), 408 | 429)
                    || self.status == StatusCode::FORBIDDEN && self.retry_after.is_some()
            }
        }
    }

    /// Whether the service has too much to do, so that fewer requests should be under way (row F3).
    #[must_use]
    pub fn is_throttling(&self) -> bool {
        matches!(
            self.code.as_str(),
            "SlowDown"
                | "Throttling"
                | "ThrottlingException"
                | "RequestLimitExceeded"
                | "TooManyRequests"
        ) || matches!(self.status.as_u16(), 429 | 503)
            || self.status == StatusCode::FORBIDDEN && self.retry_after.is_some()
    }
}

/// Code and message of an error document, for messages about requests that were not an operation of this crate's.
#[must_use]
pub fn error_text(document: &[u8], secrets: &RequestSecrets) -> Option<String> {
    let root = XmlNode::parse(document).ok()?;
    let error = ServiceError::from_xml(StatusCode::OK, &root, secrets);
    match (error.code.is_empty(), error.message.is_empty()) {
        (true, _) => None,
        (false, true) => Some(error.code),
        (false, false) => Some(format!("{}: {}", error.code, error.message)),
    }
}

/// For a store that does not allow a request.
#[must_use]
pub fn access_remedies() -> Vec<Remedy> {
    vec![
        Remedy::advice("the credentials do not allow it"),
        Remedy::PayForRequests,
    ]
}

impl S3Error {
    pub(crate) fn new(
        operation: &'static str,
        address: &S3Address,
        kind: impl Into<S3ErrorKind>,
    ) -> Self {
        Self {
            operation,
            address: Box::new(address.clone()),
            endpoint: None,
            kind: kind.into(),
        }
    }

    /// A list of objects that does not advance, for whoever puts its pages together.
    #[must_use]
    pub fn stuck_list(bucket: &str, reason: &'static str) -> Self {
        let address = S3Address::new(bucket, "");
        Self::new("ListObjectsV2", &address, S3ErrorKind::StuckList(reason))
    }

    /// What it was about, and where.
    fn place(&self) -> String {
        let address = if self.address.bucket.is_empty() {
            String::new()
        } else {
            format!(" {}", self.address)
        };
        match &self.endpoint {
            Some(endpoint) => format!("{address} at {endpoint}"),
            None => address,
        }
    }

    /// S3's own error, if it is one.
    #[must_use]
    pub fn service(&self) -> Option<&ServiceError> {
        match &self.kind {
            S3ErrorKind::Service(error) => Some(error),
            _ => None,
        }
    }

    /// S3's code; empty for other errors.
    #[must_use]
    pub fn code(&self) -> &str {
        self.service().map_or("", |error| error.code.as_str())
    }

    /// The status of S3's response.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.service().map(|error| error.status)
    }

    /// What the user can do about it.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        match &self.kind {
            S3ErrorKind::Network(error) => {
                let mut remedies = error.remedies();
                if matches!(error.kind(), Kind::Connect(_) | Kind::NoSuchHost(_)) {
                    remedies.push(Remedy::ChangeEndpoint);
                }
                remedies
            }
            S3ErrorKind::Service(error) => match error.code.as_str() {
                "NoSuchBucket" => vec![Remedy::ListBuckets],
                "AccessDenied" => access_remedies(),
                "InvalidAccessKeyId" | "SignatureDoesNotMatch" => vec![
                    Remedy::advice("check the access key and its secret"),
                    Remedy::ChangeStoreCredentials,
                ],
                _ if error.retry_after.is_some_and(|wait| !wait.is_zero()) => {
                    vec![Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait)]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Whether the same operation may succeed later. A response that cannot be understood may be cut short.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            S3ErrorKind::Service(error) => error.is_transient(),
            S3ErrorKind::Network(error) => error.is_transient(),
            S3ErrorKind::Response(_) => true,
            // Each answer would be the same (row F36).
            S3ErrorKind::StuckList(_) | S3ErrorKind::Address(_) => false,
        }
    }

    /// Whether the store has ever sent a response to this client.
    #[must_use]
    pub fn has_responded(&self) -> bool {
        match &self.kind {
            S3ErrorKind::Network(error) => !error.is_first_contact(),
            _ => true,
        }
    }

    /// Whether the store does not let an upload in parts begin.
    #[must_use]
    pub fn is_refused_begin(&self) -> bool {
        let is_refused = |status: StatusCode| status.is_client_error();
        self.operation == CREATE_MULTIPART_UPLOAD
            && self.status().is_some_and(is_refused)
            && !self.is_transient()
    }

    /// Whether the object, bucket or upload does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }
}

impl From<XmlReadError> for S3ErrorKind {
    fn from(error: XmlReadError) -> Self {
        Self::Response(error.to_string())
    }
}

impl From<ServiceError> for S3ErrorKind {
    fn from(error: ServiceError) -> Self {
        Self::Service(Box::new(error))
    }
}

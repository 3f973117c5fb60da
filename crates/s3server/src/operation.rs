//! Which operation a request asks for, by its method, its target and the parameters of its query.

use haul_serve::access::AccessRight;
use http::{HeaderMap, Method};

use super::{S3ErrorCode, S3Failure, S3Query, S3Target};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum S3Operation {
    ListBuckets,
    CreateBucket,
    DeleteBucket,
    HeadBucket,
    GetBucketLocation,
    GetBucketSetting(BucketSetting),
    ListObjects,
    ListObjectsV2,
    DeleteObjects,
    GetObject,
    HeadObject,
    GetObjectAttributes,
    PutObject,
    CopyObject,
    DeleteObject,
    GetObjectTagging,
    PutObjectTagging,
    DeleteObjectTagging,
    GetAcl,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListParts,
    ListMultipartUploads,
}

/// A setting that no bucket has, and whose right answer says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketSetting {
    /// The answer is a document that is empty or names the default.
    Document(&'static str, &'static str, &'static str),
    /// The answer is that there is none.
    Missing(S3ErrorCode),
}

use BucketSetting::{Document, Missing};
use S3ErrorCode as Code;

/// Settings of buckets: the parameter and the answer.
const BUCKET_SETTINGS: [(&str, BucketSetting); 17] = [
    ("accelerate", Document("AccelerateConfiguration", "", "")),
    ("cors", Missing(Code::NoSuchCORSConfiguration)),
    (
        "encryption",
        Missing(Code::ServerSideEncryptionConfigurationNotFoundError),
    ),
    ("lifecycle", Missing(Code::NoSuchLifecycleConfiguration)),
    ("logging", Document("BucketLoggingStatus", "", "")),
    (
        "notification",
        Document("NotificationConfiguration", "", ""),
    ),
    (
        "object-lock",
        Missing(Code::ObjectLockConfigurationNotFoundError),
    ),
    (
        "ownershipControls",
        Missing(Code::OwnershipControlsNotFoundError),
    ),
    ("policy", Missing(Code::NoSuchBucketPolicy)),
    ("policyStatus", Missing(Code::NoSuchBucketPolicy)),
    (
        "publicAccessBlock",
        Missing(Code::NoSuchPublicAccessBlockConfiguration),
    ),
    (
        "replication",
        Missing(Code::ReplicationConfigurationNotFoundError),
    ),
    (
        "requestPayment",
        Document("RequestPaymentConfiguration", "Payer", "BucketOwner"),
    ),
    ("tagging", Missing(Code::NoSuchTagSet)),
    ("versioning", Document("VersioningConfiguration", "", "")),
    ("website", Missing(Code::NoSuchWebsiteConfiguration)),
    (
        "analytics",
        Document(
            "ListBucketAnalyticsConfigurationResult",
            "IsTruncated",
            "false",
        ),
    ),
];

/// Parameters that name an operation. A request with another of them than those of an operation
/// here asks for something that this server does not have.
const OPERATION_PARAMETERS: [&str; 16] = [
    "acl",
    "append",
    "attributes",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "metrics",
    "renameObject",
    "restore",
    "retention",
    "select",
    "session",
    "torrent",
    "uploadId",
    "uploads",
    "versions",
];

impl S3Operation {
    /// The operation of a request.
    ///
    /// # Errors
    /// `NotImplemented`, `MethodNotAllowed`; `NoSuchVersion` for a version, which no object has.
    pub(crate) fn parse(
        method: &Method,
        target: &S3Target,
        query: &S3Query,
        headers: &HeaderMap,
    ) -> Result<Self, S3Failure> {
        match (&target.bucket, &target.key) {
            (None, _) if *method == Method::GET => Ok(Self::ListBuckets),
            (None, _) => Err(Code::MethodNotAllowed.into()),
            (Some(_), None) => Self::of_bucket(method, query),
            (Some(_), Some(_)) => Self::of_object(method, query, headers),
        }
    }

    /// The right to the bucket that it needs; `None` if each bucket is judged alone.
    pub(crate) fn needed_right(self) -> Option<AccessRight> {
        match self {
            Self::ListBuckets => None,
            Self::CreateBucket
            | Self::DeleteBucket
            | Self::DeleteObjects
            | Self::PutObject
            | Self::CopyObject
            | Self::DeleteObject
            | Self::PutObjectTagging
            | Self::DeleteObjectTagging
            | Self::CreateMultipartUpload
            | Self::UploadPart
            | Self::UploadPartCopy
            | Self::CompleteMultipartUpload
            | Self::AbortMultipartUpload => Some(AccessRight::Write),
            _ => Some(AccessRight::Read),
        }
    }

    /// Whether an upload in parts to a plain URL needs it.
    pub(crate) fn is_of_http_upload(self) -> bool {
        matches!(
            self,
            Self::CreateMultipartUpload
                | Self::UploadPart
                | Self::CompleteMultipartUpload
                | Self::AbortMultipartUpload
                | Self::ListParts
                | Self::HeadObject
        )
    }

    fn of_bucket(method: &Method, query: &S3Query) -> Result<Self, S3Failure> {
        let has = |name: &str| query.contains(name);
        let setting = BUCKET_SETTINGS.iter().find(|(name, _)| has(name));
        match *method {
            Method::GET if has("location") => Ok(Self::GetBucketLocation),
            Method::GET if has("acl") => Ok(Self::GetAcl),
            Method::POST if has("delete") => Ok(Self::DeleteObjects),
            _ if is_unknown(query, &["uploads"]) => Err(Code::NotImplemented.into()),
            Method::GET if has("uploads") => Ok(Self::ListMultipartUploads),
            Method::GET => Ok(match setting {
                Some((_, setting)) => Self::GetBucketSetting(*setting),
                None if query.get("list-type") == Some("2") => Self::ListObjectsV2,
                None => Self::ListObjects,
            }),
            _ if setting.is_some() => Err(Code::NotImplemented.into()),
            Method::HEAD => Ok(Self::HeadBucket),
            Method::PUT => Ok(Self::CreateBucket),
            Method::DELETE => Ok(Self::DeleteBucket),
            _ => Err(Code::MethodNotAllowed.into()),
        }
    }

    fn of_object(method: &Method, query: &S3Query, headers: &HeaderMap) -> Result<Self, S3Failure> {
        let has = |name: &str| query.contains(name);
        if query
            .get("versionId")
            .is_some_and(|version| version != "null")
        {
            return Err(Code::NoSuchVersion.into());
        }
        match *method {
            Method::GET if has("attributes") => Ok(Self::GetObjectAttributes),
            Method::GET if has("tagging") => Ok(Self::GetObjectTagging),
            Method::GET if has("acl") => Ok(Self::GetAcl),
            Method::PUT if has("tagging") => Ok(Self::PutObjectTagging),
            Method::DELETE if has("tagging") => Ok(Self::DeleteObjectTagging),
            _ if is_unknown(query, &["uploads", "uploadId"]) => Err(Code::NotImplemented.into()),
            _ if has("uploads") || has("uploadId") => Self::of_upload(method, query, headers),
            Method::GET => Ok(Self::GetObject),
            Method::HEAD => Ok(Self::HeadObject),
            Method::PUT if headers.contains_key("x-amz-copy-source") => Ok(Self::CopyObject),
            Method::PUT => Ok(Self::PutObject),
            Method::DELETE => Ok(Self::DeleteObject),
            _ => Err(Code::MethodNotAllowed.into()),
        }
    }

    fn of_upload(method: &Method, query: &S3Query, headers: &HeaderMap) -> Result<Self, S3Failure> {
        let has = |name: &str| query.contains(name);
        let is_copy = headers.contains_key("x-amz-copy-source");
        match *method {
            Method::POST if has("uploads") => Ok(Self::CreateMultipartUpload),
            Method::POST if has("uploadId") => Ok(Self::CompleteMultipartUpload),
            Method::PUT if has("uploadId") && is_copy => Ok(Self::UploadPartCopy),
            Method::PUT if has("uploadId") => Ok(Self::UploadPart),
            Method::DELETE if has("uploadId") => Ok(Self::AbortMultipartUpload),
            Method::GET if has("uploadId") => Ok(Self::ListParts),
            _ => Err(Code::MethodNotAllowed.into()),
        }
    }
}

/// Whether the query names another operation than those in `known`.
fn is_unknown(query: &S3Query, known: &[&str]) -> bool {
    let mut names = OPERATION_PARAMETERS.iter();
    names.any(|name| query.contains(name) && !known.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, path: &str) -> Result<S3Operation, S3ErrorCode> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let target = S3Target {
            bucket: text(bucket),
            key: text(key),
        };
        let query = S3Query::parse(Some(query)).expect("a query");
        let method = method.parse().expect("a method");
        S3Operation::parse(&method, &target, &query, &HeaderMap::new())
            .map_err(|failure| failure.code)
    }

    #[test]
    fn operations_are_found_by_method_and_parameters() {
        for (method, path, expected) in [
            ("GET", "", S3Operation::ListBuckets),
            ("GET", "b", S3Operation::ListObjects),
            ("GET", "b?list-type=2&prefix=x", S3Operation::ListObjectsV2),
            ("GET", "b?location", S3Operation::GetBucketLocation),
            ("POST", "b?delete", S3Operation::DeleteObjects),
            ("PUT", "b", S3Operation::CreateBucket),
            ("GET", "b/k?versionId=null", S3Operation::GetObject),
            ("GET", "b/k?attributes", S3Operation::GetObjectAttributes),
            ("PUT", "b/k?tagging", S3Operation::PutObjectTagging),
            ("GET", "b?uploads", S3Operation::ListMultipartUploads),
            ("POST", "b/k?uploads", S3Operation::CreateMultipartUpload),
            (
                "PUT",
                "b/k?partNumber=1&uploadId=x",
                S3Operation::UploadPart,
            ),
            (
                "POST",
                "b/k?uploadId=x",
                S3Operation::CompleteMultipartUpload,
            ),
            ("GET", "b/k?uploadId=x", S3Operation::ListParts),
            (
                "DELETE",
                "b/k?uploadId=x",
                S3Operation::AbortMultipartUpload,
            ),
        ] {
            assert_eq!(parse(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn g18_what_is_not_there_is_never_a_listing() {
        for (method, path, expected) in [
            ("GET", "b?versions", S3ErrorCode::NotImplemented),
            ("GET", "b?uploads&inventory", S3ErrorCode::NotImplemented),
            ("PUT", "b/k?uploads", S3ErrorCode::MethodNotAllowed),
            ("PUT", "b?versioning", S3ErrorCode::NotImplemented),
            ("DELETE", "b?policy", S3ErrorCode::NotImplemented),
            ("GET", "b/k?retention", S3ErrorCode::NotImplemented),
            ("GET", "b/k?versionId=1", S3ErrorCode::NoSuchVersion),
            ("POST", "b/k", S3ErrorCode::MethodNotAllowed),
            ("PUT", "", S3ErrorCode::MethodNotAllowed),
        ] {
            assert_eq!(parse(method, path), Err(expected), "{method} {path}");
        }
        for (name, setting) in BUCKET_SETTINGS {
            let expected = Ok(S3Operation::GetBucketSetting(setting));
            assert_eq!(parse("GET", &format!("b?{name}")), expected);
        }
    }
}

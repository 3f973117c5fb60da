//! Fields that ask for a protection of the object which this server does not have. To ignore them would be to
//! promise it.

use http::HeaderMap;

use super::{S3ErrorCode, S3Failure, S3Operation};

/// Refuses requests for encryption at rest, for locks, and for rights of others.
///
/// # Errors
/// `NotImplemented`; `AccessControlListNotSupported`, as of buckets without ACLs; `InvalidRequest` for a lock in a bucket without locks, which all are; `InvalidArgument` for a
/// lock that S3 does not have.
pub(crate) fn check_supported(
    operation: S3Operation,
    headers: &HeaderMap,
) -> Result<(), S3Failure> {
    let is_encryption = |name: &str| {
        let prefixes = ["x-amz-copy-source-", "x-amz-"];
        let mut names = prefixes
            .iter()
            .filter_map(|prefix| name.strip_prefix(prefix));
        names.any(|name| name.starts_with("server-side-encryption"))
    };
    if let Some(name) = headers.keys().find(|name| is_encryption(name.as_str())) {
        let message = format!(
            "Objects are plain files here: {name} asks for an encryption that this server does not implement."
        );
        return Err(S3Failure::with_message(
            S3ErrorCode::NotImplemented,
            message,
        ));
    }
    let is_locked_bucket = text(headers, "x-amz-bucket-object-lock-enabled")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if operation == S3Operation::CreateBucket && is_locked_bucket {
        let message = "Locks of objects are not implemented.";
        return Err(S3Failure::with_message(
            S3ErrorCode::NotImplemented,
            message,
        ));
    }
    match operation {
        S3Operation::PutObject | S3Operation::CopyObject | S3Operation::CreateMultipartUpload => {
            check_acl(headers)?;
            check_locks(headers)
        }
        S3Operation::CreateBucket => check_acl(headers),
        _ => Ok(()),
    }
}

/// Refuses to open an object to others, as a bucket does whose ACLs are disabled.
fn check_acl(headers: &HeaderMap) -> Result<(), S3Failure> {
    let is_closed = match text(headers, "x-amz-acl") {
        None => true,
        Some(acl) => ["private", "bucket-owner-full-control", "bucket-owner-read"].contains(&acl),
    };
    let has_grant = headers
        .keys()
        .any(|name| name.as_str().starts_with("x-amz-grant-"));
    if is_closed && !has_grant {
        Ok(())
    } else {
        Err(S3ErrorCode::AccessControlListNotSupported.into())
    }
}

fn check_locks(headers: &HeaderMap) -> Result<(), S3Failure> {
    let mut has_lock = false;
    for (name, known) in [
        ("x-amz-object-lock-mode", &["GOVERNANCE", "COMPLIANCE"][..]),
        ("x-amz-object-lock-legal-hold", &["ON", "OFF"]),
        ("x-amz-object-lock-retain-until-date", &[]),
    ] {
        let Some(value) = text(headers, name) else {
            continue;
        };
        if !known.is_empty() && !known.contains(&value) {
            let message = format!("The value must be one of {}.", known.join(", "));
            return Err(S3Failure::invalid_argument(name, value, message));
        }
        has_lock = true;
    }
    if !has_lock {
        return Ok(());
    }
    let message = "Bucket is missing Object Lock Configuration";
    Err(S3Failure::with_message(
        S3ErrorCode::InvalidRequest,
        message,
    ))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn check(
        operation: S3Operation,
        name: &'static str,
        value: &'static str,
    ) -> Result<(), S3ErrorCode> {
        let field = (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        let headers: HeaderMap = [field].into_iter().collect();
        check_supported(operation, &headers).map_err(|failure| failure.code)
    }

    #[test]
    fn what_opens_an_object_to_others_is_refused() {
        use S3Operation::{CreateBucket, PutObject};
        let refused = Err(S3ErrorCode::AccessControlListNotSupported);
        assert_eq!(check(PutObject, "x-amz-acl", "public-read"), refused);
        assert_eq!(check(CreateBucket, "x-amz-grant-read", "id=1"), refused);
        assert_eq!(check(PutObject, "x-amz-acl", "private"), Ok(()));
    }

    #[test]
    fn encryption_and_locks_are_refused_and_not_ignored() {
        use S3ErrorCode::{InvalidArgument, InvalidRequest, NotImplemented};
        use S3Operation::{CopyObject, CreateBucket, GetObject, PutObject, UploadPart};
        let lock = "x-amz-object-lock-mode";
        for (operation, name, value, expected) in [
            (
                PutObject,
                "x-amz-server-side-encryption",
                "AES256",
                NotImplemented,
            ),
            (
                UploadPart,
                "x-amz-server-side-encryption-customer-key",
                "k",
                NotImplemented,
            ),
            (
                CopyObject,
                "x-amz-copy-source-server-side-encryption-customer-key",
                "k",
                NotImplemented,
            ),
            (
                CreateBucket,
                "x-amz-bucket-object-lock-enabled",
                "true",
                NotImplemented,
            ),
            (PutObject, lock, "COMPLIANCE", InvalidRequest),
            (PutObject, lock, "x", InvalidArgument),
            (
                PutObject,
                "x-amz-object-lock-legal-hold",
                "OFF",
                InvalidRequest,
            ),
        ] {
            assert_eq!(check(operation, name, value), Err(expected), "{name}");
        }
        assert_eq!(check(GetObject, lock, "COMPLIANCE"), Ok(()));
        let unlocked = check(CreateBucket, "x-amz-bucket-object-lock-enabled", "false");
        assert_eq!(unlocked, Ok(()));
    }
}

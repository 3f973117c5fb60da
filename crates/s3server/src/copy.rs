//! What CopyObject and UploadPartCopy copy: the source, its range, and what the copy keeps of it.

use haul_plan::DigestAlgorithm;
use haul_serve::store::ObjectAttributes;
use http::HeaderMap;

use super::{S3ErrorCode, S3Failure, checksum_algorithm_of_name, decode_path, requested_algorithm};

/// Fields that change an object which is copied to itself.
const CHANGES: [&str; 2] = ["x-amz-storage-class", "x-amz-website-redirect-location"];

/// The bucket and the key in `x-amz-copy-source`.
///
/// # Errors
/// `InvalidArgument`; `NoSuchVersion` for a version, which no object has.
pub(crate) fn parse_copy_source(headers: &HeaderMap) -> Result<(String, String), S3Failure> {
    let value = text(headers, "x-amz-copy-source").unwrap_or_default();
    let invalid = || {
        let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
        S3Failure::invalid_argument("x-amz-copy-source", value, message)
    };
    let (path, version) = value.split_once('?').unwrap_or((value, ""));
    let version = version.strip_prefix("versionId=").unwrap_or(version);
    if !matches!(version, "" | "null") {
        return Err(S3ErrorCode::NoSuchVersion.into());
    }
    let path = decode_path(path)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (bucket, key) = path.split_once('/').ok_or_else(invalid)?;
    if bucket.is_empty() || key.is_empty() {
        Err(invalid())
    } else {
        Ok((bucket.to_owned(), key.to_owned()))
    }
}

/// The range of a source of `len` bytes: `bytes=FIRST-LAST`, both within it.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn copied_range(text: &str, len: u64) -> Result<std::ops::Range<u64>, S3Failure> {
    let invalid = |message| {
        Err(S3Failure::invalid_argument(
            "x-amz-copy-source-range",
            text,
            message,
        ))
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    let range = text
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
        .and_then(|(first, last)| Some((number(first)?, number(last)?)));
    match range {
        Some((first, last)) if first <= last && last < len => Ok(first..last + 1),
        Some((first, last)) if first <= last => invalid(format!(
            "Range specified is not valid for source object of size: {len}"
        )),
        _ => invalid(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
             zero-based offsets of the first and last bytes to copy"
                .to_owned(),
        ),
    }
}

/// Whether the directive of a kind (`metadata`, `tagging`) says that the request replaces what the source has.
///
/// # Errors
/// `InvalidArgument` for a directive that is neither `COPY` nor `REPLACE`.
pub(crate) fn replaces(headers: &HeaderMap, kind: &str) -> Result<bool, S3Failure> {
    match text(headers, &format!("x-amz-{kind}-directive")) {
        None => Ok(false),
        Some(directive) if directive.eq_ignore_ascii_case("COPY") => Ok(false),
        Some(directive) if directive.eq_ignore_ascii_case("REPLACE") => Ok(true),
        Some(other) => {
            let message = format!("Unknown {kind} directive.");
            let failure = S3Failure::with_message(S3ErrorCode::InvalidArgument, message);
            Err(failure.element("ArgumentValue", other))
        }
    }
}

/// Refuses a copy of an object to itself that changes nothing.
///
/// # Errors
/// `InvalidRequest`.
pub(crate) fn check_copy_to_itself(headers: &HeaderMap) -> Result<(), S3Failure> {
    if CHANGES.iter().any(|name| headers.contains_key(*name)) {
        return Ok(());
    }
    let message = "This copy request is illegal because it is trying to copy an object to itself without changing \
        the object's metadata, storage class, website redirect location or encryption attributes.";
    Err(S3Failure::with_message(
        S3ErrorCode::InvalidRequest,
        message,
    ))
}

/// The algorithm of the copy's checksum: the one that the request names, or the source's.
///
/// # Errors
/// `InvalidRequest` for an algorithm that S3 does not have.
pub(crate) fn copied_algorithm(
    headers: &HeaderMap,
    source: Option<&ObjectAttributes>,
) -> Result<DigestAlgorithm, S3Failure> {
    let of_source = || {
        let checksum = source?.checksum.as_ref()?;
        checksum_algorithm_of_name(&checksum.algorithm)
    };
    let algorithm = requested_algorithm(headers)?.or_else(of_source);
    Ok(algorithm.unwrap_or(DigestAlgorithm::Crc64Nvme))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use haul_serve::store::ObjectChecksum;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let field = (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        [field].into_iter().collect()
    }

    fn code<T>(result: Result<T, S3Failure>) -> Result<T, S3ErrorCode> {
        result.map_err(|failure| failure.code)
    }

    #[test]
    fn g17_a_source_is_decoded_once() {
        let parse = |value| code(parse_copy_source(&headers("x-amz-copy-source", value)));
        let source = |bucket: &str, key: &str| Ok((bucket.to_owned(), key.to_owned()));
        assert_eq!(parse("b/a%2520b"), source("b", "a%20b"));
        assert_eq!(parse("/b/k?versionId=null"), source("b", "k"));
        assert_eq!(parse("b/k%3FversionId"), source("b", "k?versionId"));
        assert_eq!(parse("b/k?versionId=1"), Err(S3ErrorCode::NoSuchVersion));
        for wrong in ["", "b", "b/", "/k"] {
            assert_eq!(parse(wrong), Err(S3ErrorCode::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn a_range_of_a_source_has_both_ends_within_it() {
        assert_eq!(code(copied_range("bytes=2-9", 10)), Ok(2..10));
        for wrong in [
            "bytes=2-10",
            "bytes=3-2",
            "bytes=2-",
            "bytes=-2",
            "bytes=+1-2",
            "2-3",
        ] {
            let found = code(copied_range(wrong, 10));
            assert_eq!(found, Err(S3ErrorCode::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn a_directive_is_copy_or_replace() {
        let found = |value| {
            code(replaces(
                &headers("x-amz-tagging-directive", value),
                "tagging",
            ))
        };
        assert_eq!(found("REPLACE"), Ok(true));
        assert_eq!(found("COPY"), Ok(false));
        assert_eq!(found("SOMETHING"), Err(S3ErrorCode::InvalidArgument));
        let other = headers("x-amz-metadata-directive", "REPLACE");
        assert_eq!(code(replaces(&other, "tagging")), Ok(false));
    }

    #[test]
    fn g17_a_copy_to_itself_changes_something() {
        let refused = code(check_copy_to_itself(&HeaderMap::new()));
        assert_eq!(refused, Err(S3ErrorCode::InvalidRequest));
        let changed = headers("x-amz-storage-class", "STANDARD");
        assert_eq!(code(check_copy_to_itself(&changed)), Ok(()));
    }

    #[test]
    fn a_copy_has_the_checksum_of_its_source_unless_another_is_asked_for() {
        let source = ObjectAttributes {
            checksum: Some(ObjectChecksum {
                algorithm: "SHA256".to_owned(),
                value: String::new(),
                is_composite: true,
            }),
            ..ObjectAttributes::default()
        };
        let found = |headers: &HeaderMap, source| code(copied_algorithm(headers, source));
        let none = HeaderMap::new();
        assert_eq!(found(&none, None), Ok(DigestAlgorithm::Crc64Nvme));
        assert_eq!(found(&none, Some(&source)), Ok(DigestAlgorithm::Sha256));
        let asked = |value| headers("x-amz-checksum-algorithm", value);
        let crc = found(&asked("CRC32C"), Some(&source));
        assert_eq!(crc, Ok(DigestAlgorithm::Crc32c));
        let unknown = found(&asked("CRC16"), None);
        assert_eq!(unknown, Err(S3ErrorCode::InvalidRequest));
    }
}

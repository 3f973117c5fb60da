//! Which checksum a request wants an object to have, and which one it says that the object has.

use haul_plan::DigestAlgorithm;
use haul_serve::store::{ObjectAttributes, StoredUploadInfo};
use http::HeaderMap;

use super::body::checksum_in_header;
use super::{S3ErrorCode, S3Failure, checksum_algorithm_of_name, checksum_name};

const ALGORITHM: &str = "x-amz-checksum-algorithm";
const TYPE: &str = "x-amz-checksum-type";

/// The checksum of the object that an upload in parts makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UploadChecksum {
    pub algorithm: DigestAlgorithm,
    /// Whether it is the checksum of the parts' checksums.
    pub is_composite: bool,
    /// Whether the client named no algorithm.
    pub is_default: bool,
}

/// S3's name of a type of checksums.
pub(crate) fn checksum_type(is_composite: bool) -> &'static str {
    if is_composite {
        "COMPOSITE"
    } else {
        "FULL_OBJECT"
    }
}

/// The algorithm that a request names for the checksum of its object.
///
/// # Errors
/// `InvalidRequest` for one that S3 does not have.
pub(crate) fn requested_algorithm(
    headers: &HeaderMap,
) -> Result<Option<DigestAlgorithm>, S3Failure> {
    let Some(name) = text(headers, ALGORITHM) else {
        return Ok(None);
    };
    let algorithm = checksum_algorithm_of_name(name);
    algorithm.map(Some).ok_or_else(|| {
        invalid(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
             [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]",
        )
    })
}

/// Whether the checksum that a request is about is composite, if it says so.
fn requested_type(headers: &HeaderMap) -> Result<Option<bool>, S3Failure> {
    match text(headers, TYPE) {
        None => Ok(None),
        Some("COMPOSITE") => Ok(Some(true)),
        Some("FULL_OBJECT") => Ok(Some(false)),
        Some(_) => Err(invalid("Value for x-amz-checksum-type header is invalid.")),
    }
}

/// The checksum that a new upload in parts asks for.
///
/// # Errors
/// `InvalidRequest` for one that S3 does not have.
pub(crate) fn upload_checksum(headers: &HeaderMap) -> Result<UploadChecksum, S3Failure> {
    let (requested, kind) = (requested_algorithm(headers)?, requested_type(headers)?);
    if requested.is_none() && kind.is_some() {
        let message = "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.";
        return Err(invalid(message));
    }
    let algorithm = requested.unwrap_or(DigestAlgorithm::Crc64Nvme);
    let is_composite = kind.unwrap_or(algorithm != DigestAlgorithm::Crc64Nvme);
    // CRC64NVME has no composite form, and hashes of parts make no hash of the whole.
    let exists = match algorithm {
        DigestAlgorithm::Crc64Nvme => !is_composite,
        DigestAlgorithm::Sha1 | DigestAlgorithm::Sha256 => is_composite,
        _ => true,
    };
    if !exists {
        let message = format!(
            "The {} checksum type cannot be used with the {} checksum algorithm.",
            checksum_type(is_composite),
            checksum_name(algorithm).unwrap_or_default().to_lowercase(),
        );
        return Err(invalid(message));
    }
    Ok(UploadChecksum {
        algorithm,
        is_composite,
        is_default: requested.is_none(),
    })
}

/// Refuses a part whose checksum has another algorithm than the one that its upload was begun with.
///
/// # Errors
/// `InvalidRequest`.
pub(crate) fn check_part_algorithm(
    announced: Option<DigestAlgorithm>,
    upload: &StoredUploadInfo,
) -> Result<(), S3Failure> {
    let name = announced.and_then(checksum_name);
    match name {
        Some(name) if !upload.has_default_checksum && name != upload.algorithm => {
            Err(invalid(format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                upload.algorithm.to_lowercase(),
                name.to_lowercase(),
            )))
        }
        _ => Ok(()),
    }
}

/// Compares what the client that completes an upload says of the object with what its parts make.
///
/// # Errors
/// `InvalidRequest` for another type or size, or a field that cannot be read; `BadDigest`.
pub(crate) fn check_object(
    headers: &HeaderMap,
    upload: &StoredUploadInfo,
    found: &ObjectAttributes,
) -> Result<(), S3Failure> {
    if let Some(is_composite) = requested_type(headers)?
        && !upload.has_default_checksum
        && is_composite != upload.is_composite
    {
        return Err(invalid(format!(
            "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
            checksum_type(upload.is_composite),
        )));
    }
    let len: u64 = found.parts.iter().map(|part| part.len).sum();
    check_object_size(headers, len)?;
    let Some((algorithm, value)) = checksum_of_object(headers)? else {
        return Ok(());
    };
    match &found.checksum {
        Some(checksum)
            if checksum_algorithm_of_name(&checksum.algorithm) == Some(algorithm)
                && value != checksum.value
                && value != without_parts(&checksum.value) =>
        {
            let message = format!(
                "The {} you specified did not match the calculated checksum.",
                checksum.algorithm
            );
            Err(S3Failure::with_message(S3ErrorCode::BadDigest, message))
        }
        _ => Ok(()),
    }
}

/// The checksum of the object that a request to complete an upload names.
///
/// # Errors
/// `InvalidRequest` for several, or one that is none.
pub(crate) fn checksum_of_object(
    headers: &HeaderMap,
) -> Result<Option<(DigestAlgorithm, &str)>, S3Failure> {
    match checksum_in_header(headers)? {
        None => Ok(None),
        Some((_, algorithm, value)) if algorithm.decode_base64(without_parts(value)).is_some() => {
            Ok(Some((algorithm, value)))
        }
        Some((field, ..)) => Err(invalid(format!("Value for {field} header is invalid."))),
    }
}

/// A composite checksum without the number of parts, as some clients write it.
fn without_parts(value: &str) -> &str {
    value.split('-').next().unwrap_or_default()
}

/// Compares the size that the client expects of the object.
fn check_object_size(headers: &HeaderMap, len: u64) -> Result<(), S3Failure> {
    let field = "x-amz-mp-object-size";
    let Some(value) = headers.get(field) else {
        return Ok(());
    };
    let value = value.to_str().unwrap_or_default();
    match value.parse::<u64>() {
        Ok(expected) if expected == len => Ok(()),
        Ok(expected) => Err(invalid(format!(
            "The provided '{field}' header value {expected} does not match what was computed: {len}"
        ))),
        Err(_) => Err(invalid(format!("Value for {field} header is invalid."))),
    }
}

fn invalid(message: impl Into<String>) -> S3Failure {
    S3Failure::with_message(S3ErrorCode::InvalidRequest, message.into())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use haul_serve::store::{ObjectChecksum, ObjectPart};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        fields.collect()
    }

    fn upload(algorithm: &str, is_composite: bool, has_default_checksum: bool) -> StoredUploadInfo {
        StoredUploadInfo {
            bucket: String::new(),
            key: String::new(),
            initiated: 0,
            attributes: ObjectAttributes::default(),
            algorithm: algorithm.to_owned(),
            is_composite,
            has_default_checksum,
        }
    }

    #[test]
    fn an_upload_has_a_checksum_that_s3_has() {
        use DigestAlgorithm::{Crc32, Crc64Nvme, Sha256};
        let found = |fields: &[(&'static str, &'static str)]| {
            upload_checksum(&headers(fields))
                .map(|found| (found.algorithm, found.is_composite, found.is_default))
                .map_err(|failure| failure.code)
        };
        assert_eq!(found(&[]), Ok((Crc64Nvme, false, true)));
        assert_eq!(
            found(&[(ALGORITHM, "crc64nvme")]),
            Ok((Crc64Nvme, false, false))
        );
        assert_eq!(found(&[(ALGORITHM, "SHA256")]), Ok((Sha256, true, false)));
        assert_eq!(
            found(&[(ALGORITHM, "CRC32"), (TYPE, "FULL_OBJECT")]),
            Ok((Crc32, false, false))
        );
        for wrong in [
            &[(ALGORITHM, "CRC16")][..],
            &[(TYPE, "FULL_OBJECT")],
            &[(ALGORITHM, "CRC32"), (TYPE, "composite")],
            &[(ALGORITHM, "SHA1"), (TYPE, "FULL_OBJECT")],
            &[(ALGORITHM, "CRC64NVME"), (TYPE, "COMPOSITE")],
        ] {
            assert_eq!(found(wrong), Err(S3ErrorCode::InvalidRequest), "{wrong:?}");
        }
    }

    #[test]
    fn parts_have_the_algorithm_that_the_upload_was_begun_with() {
        let check = |announced, upload| check_part_algorithm(announced, &upload).is_ok();
        let (crc, sha) = (Some(DigestAlgorithm::Crc32), Some(DigestAlgorithm::Sha256));
        assert!(check(crc, upload("CRC32", true, false)));
        assert!(check(None, upload("CRC32", true, false)));
        assert!(!check(sha, upload("CRC32", true, false)));
        assert!(check(sha, upload("CRC64NVME", false, true)));
    }

    #[test]
    fn g7_what_a_client_says_of_the_object_is_compared() {
        let part = ObjectPart {
            number: 1,
            len: 10,
            checksum: None,
        };
        let object = ObjectAttributes {
            checksum: Some(ObjectChecksum {
                algorithm: "CRC32".to_owned(),
                value: "NSRBwg==-1".to_owned(),
                is_composite: true,
            }),
            parts: vec![part],
            ..ObjectAttributes::default()
        };
        let check = |fields: &[(&'static str, &'static str)]| {
            check_object(&headers(fields), &upload("CRC32", true, false), &object)
                .map_err(|failure| failure.code)
        };
        let crc = "x-amz-checksum-crc32";
        for right in [
            &[][..],
            &[(crc, "NSRBwg==-1"), (TYPE, "COMPOSITE")],
            &[(crc, "NSRBwg==")],
            &[("x-amz-mp-object-size", "10")],
        ] {
            assert_eq!(check(right), Ok(()), "{right:?}");
        }
        assert_eq!(check(&[(crc, "AAAAAA==-1")]), Err(S3ErrorCode::BadDigest));
        for wrong in [
            &[(crc, "x")][..],
            &[(crc, "NSRBwg==-1"), ("x-amz-checksum-sha1", "x")],
            &[(TYPE, "FULL_OBJECT")],
            &[(TYPE, "x")],
            &[("x-amz-mp-object-size", "11")],
            &[("x-amz-mp-object-size", "-1")],
        ] {
            assert_eq!(check(wrong), Err(S3ErrorCode::InvalidRequest), "{wrong:?}");
        }
    }
}

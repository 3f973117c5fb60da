//! Checksums in S3's header fields and elements: base64 of the digest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_plan::{Checksum, DigestAlgorithm};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::xml::XmlNode;

/// Algorithm, field, element, and the name in `x-amz-checksum-algorithm`.
const ALGORITHMS: [(DigestAlgorithm, &str, &str, &str); 5] = [
    (
        DigestAlgorithm::Crc64Nvme,
        "x-amz-checksum-crc64nvme",
        "ChecksumCRC64NVME",
        "CRC64NVME",
    ),
    (
        DigestAlgorithm::Crc32c,
        "x-amz-checksum-crc32c",
        "ChecksumCRC32C",
        "CRC32C",
    ),
    (
        DigestAlgorithm::Crc32,
        "x-amz-checksum-crc32",
        "ChecksumCRC32",
        "CRC32",
    ),
    (
        DigestAlgorithm::Sha256,
        "x-amz-checksum-sha256",
        "ChecksumSHA256",
        "SHA256",
    ),
    (
        DigestAlgorithm::Sha1,
        "x-amz-checksum-sha1",
        "ChecksumSHA1",
        "SHA1",
    ),
];

/// S3's name of an algorithm; `None` for one that S3 does not have.
#[must_use]
pub fn checksum_algorithm_name(algorithm: DigestAlgorithm) -> Option<&'static str> {
    let found = ALGORITHMS.iter().find(|(known, ..)| *known == algorithm);
    found.map(|(.., name)| *name)
}

/// The field that sends a checksum along. MD5 has a field of its own, which is older.
#[must_use]
pub fn checksum_field(checksum: &Checksum) -> Option<(HeaderName, HeaderValue)> {
    let text = STANDARD.encode(checksum.digest.as_ref()?);
    let name = match checksum.algorithm {
        DigestAlgorithm::Md5 => "content-md5",
        algorithm => ALGORITHMS.iter().find(|(known, ..)| *known == algorithm)?.1,
    };
    Some((
        HeaderName::from_static(name),
        HeaderValue::try_from(text).ok()?,
    ))
}

/// Name and content of the element that names a checksum in the list of parts.
pub(crate) fn checksum_element(checksum: &Checksum) -> Option<(&'static str, String)> {
    let found = ALGORITHMS
        .iter()
        .find(|(known, ..)| *known == checksum.algorithm);
    let text = STANDARD.encode(checksum.digest.as_ref()?);
    found.map(|(_, _, element, _)| (*element, text))
}

/// The checksums in a response's header. A composite one (`...-3`) is a checksum of checksums and left out.
pub(crate) fn checksums_in_headers(headers: &HeaderMap) -> Vec<Checksum> {
    let in_field = |field: &str| headers.get(field).and_then(|value| value.to_str().ok());
    ALGORITHMS
        .iter()
        .filter_map(|(algorithm, field, ..)| decode(*algorithm, in_field(field)?))
        .collect()
}

/// The checksums among an element's children.
pub(crate) fn checksums_in_element(element: &XmlNode) -> Vec<Checksum> {
    ALGORITHMS
        .iter()
        .filter_map(|(algorithm, _, name, _)| decode(*algorithm, element.text_of(name)))
        .collect()
}

fn decode(algorithm: DigestAlgorithm, text: &str) -> Option<Checksum> {
    let digest = STANDARD.decode(text.trim()).ok()?;
    (digest.len() == algorithm.digest_len()).then_some(Checksum {
        algorithm,
        digest: Some(digest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_as_they_were_written() {
        for (algorithm, field, ..) in ALGORITHMS {
            let digest = Some(vec![7; algorithm.digest_len()]);
            let checksum = Checksum { algorithm, digest };
            let (name, value) = checksum_field(&checksum).unwrap();
            assert_eq!(name, field);
            let headers = [(name, value)].into_iter().collect();
            assert_eq!(checksums_in_headers(&headers), [checksum]);
        }
    }

    #[test]
    fn f9_a_composite_checksum_is_not_taken_for_one_of_the_bytes() {
        let value = format!("{}-3", STANDARD.encode([7; 8]));
        let value = HeaderValue::try_from(value).unwrap();
        let name = HeaderName::from_static("x-amz-checksum-crc64nvme");
        assert!(checksums_in_headers(&[(name, value)].into_iter().collect()).is_empty());
    }
}

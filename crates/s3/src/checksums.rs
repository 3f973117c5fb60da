//! Checksums in S3's header fields and elements: base64 of the digest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_plan::{Checksum, DigestAlgorithm, S3ChecksumNames};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::xml::XmlNode;

/// The algorithms that S3 has, and what it calls them. Its default comes first.
fn algorithms() -> impl Iterator<Item = (DigestAlgorithm, S3ChecksumNames)> {
    let all = DigestAlgorithm::ALL.into_iter().rev();
    all.filter_map(|algorithm| Some((algorithm, algorithm.s3()?)))
}

/// The field that sends a checksum along. MD5 has a field of its own, which is older.
#[must_use]
pub fn checksum_field(checksum: &Checksum) -> Option<(HeaderName, HeaderValue)> {
    let text = STANDARD.encode(checksum.digest.as_ref()?);
    let name = match checksum.algorithm {
        DigestAlgorithm::Md5 => "content-md5",
        algorithm => algorithm.s3()?.field,
    };
    Some((
        HeaderName::from_static(name),
        HeaderValue::try_from(text).ok()?,
    ))
}

/// Name and content of the element that names a checksum in the list of parts.
pub(crate) fn checksum_element(checksum: &Checksum) -> Option<(&'static str, String)> {
    let text = STANDARD.encode(checksum.digest.as_ref()?);
    Some((checksum.algorithm.s3()?.element, text))
}

/// The checksums in a response's header. A composite one (`...-3`) is a checksum of checksums and left out.
pub(crate) fn checksums_in_headers(headers: &HeaderMap) -> Vec<Checksum> {
    let in_field = |field: &str| headers.get(field).and_then(|value| value.to_str().ok());
    algorithms()
        .filter_map(|(algorithm, names)| decode(algorithm, in_field(names.field)?))
        .collect()
}

/// The checksums among an element's children.
pub(crate) fn checksums_in_element(element: &XmlNode) -> Vec<Checksum> {
    algorithms()
        .filter_map(|(algorithm, names)| decode(algorithm, element.text_of(names.element)))
        .collect()
}

fn decode(algorithm: DigestAlgorithm, text: &str) -> Option<Checksum> {
    Some(Checksum {
        algorithm,
        digest: Some(algorithm.decode_base64(text)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_as_they_were_written() {
        for (algorithm, names) in algorithms() {
            let digest = Some(vec![7; algorithm.digest_len()]);
            let checksum = Checksum { algorithm, digest };
            let (name, value) = checksum_field(&checksum).unwrap();
            assert_eq!(name, names.field);
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

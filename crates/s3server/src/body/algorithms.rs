//! S3's names of checksum algorithms: in header fields, in elements, and in parameters.

use haul_plan::DigestAlgorithm;

/// The name of an algorithm; `None` for one that S3 does not have.
pub(crate) fn checksum_name(algorithm: DigestAlgorithm) -> Option<&'static str> {
    algorithm.s3().map(|names| names.name)
}

/// The header field of an algorithm's checksum.
pub(crate) fn checksum_field(algorithm: DigestAlgorithm) -> Option<&'static str> {
    algorithm.s3().map(|names| names.field)
}

/// The element of an algorithm's checksum.
pub(crate) fn checksum_element(algorithm: DigestAlgorithm) -> Option<&'static str> {
    algorithm.s3().map(|names| names.element)
}

/// The algorithm of a name, in either case.
pub(crate) fn checksum_algorithm_of_name(name: &str) -> Option<DigestAlgorithm> {
    let is_name = |known: &str| known.eq_ignore_ascii_case(name);
    DigestAlgorithm::ALL
        .into_iter()
        .find(|algorithm| checksum_name(*algorithm).is_some_and(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_field_and_element_is_of_its_algorithm() {
        for name in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] {
            let algorithm = checksum_algorithm_of_name(name).unwrap();
            let lower = name.to_ascii_lowercase();
            assert_eq!(checksum_algorithm_of_name(&lower), Some(algorithm));
            assert_eq!(lower, algorithm.name());
            let field = format!("x-amz-checksum-{lower}");
            assert_eq!(checksum_field(algorithm), Some(field.as_str()));
            let element = format!("Checksum{name}");
            assert_eq!(checksum_element(algorithm), Some(element.as_str()));
            assert_eq!(checksum_name(algorithm), Some(name));
        }
        assert_eq!(checksum_name(DigestAlgorithm::Blake3), None);
        assert_eq!(checksum_algorithm_of_name("MD5"), None);
    }
}

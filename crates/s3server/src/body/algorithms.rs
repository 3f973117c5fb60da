//! S3's names of checksum algorithms: in header fields, in elements, and in parameters.

use haul_plan::DigestAlgorithm;

/// The name, the header field and the element of an algorithm.
const ALGORITHMS: [(DigestAlgorithm, &str, &str, &str); 5] = [
    (
        DigestAlgorithm::Crc32,
        "CRC32",
        "x-amz-checksum-crc32",
        "ChecksumCRC32",
    ),
    (
        DigestAlgorithm::Crc32c,
        "CRC32C",
        "x-amz-checksum-crc32c",
        "ChecksumCRC32C",
    ),
    (
        DigestAlgorithm::Crc64Nvme,
        "CRC64NVME",
        "x-amz-checksum-crc64nvme",
        "ChecksumCRC64NVME",
    ),
    (
        DigestAlgorithm::Sha1,
        "SHA1",
        "x-amz-checksum-sha1",
        "ChecksumSHA1",
    ),
    (
        DigestAlgorithm::Sha256,
        "SHA256",
        "x-amz-checksum-sha256",
        "ChecksumSHA256",
    ),
];

/// The name of an algorithm; `None` for one that S3 does not have.
pub(crate) fn checksum_name(algorithm: DigestAlgorithm) -> Option<&'static str> {
    row(algorithm).map(|(_, name, ..)| *name)
}

/// The header field of an algorithm's checksum.
pub(crate) fn checksum_field(algorithm: DigestAlgorithm) -> Option<&'static str> {
    row(algorithm).map(|(_, _, field, _)| *field)
}

/// The element of an algorithm's checksum.
pub(crate) fn checksum_element(algorithm: DigestAlgorithm) -> Option<&'static str> {
    row(algorithm).map(|(.., element)| *element)
}

/// The algorithm of a name, in either case.
pub(crate) fn checksum_algorithm_of_name(name: &str) -> Option<DigestAlgorithm> {
    let mut rows = ALGORITHMS.iter();
    let found = rows.find(|(_, known, ..)| known.eq_ignore_ascii_case(name));
    found.map(|(algorithm, ..)| *algorithm)
}

fn row(
    algorithm: DigestAlgorithm,
) -> Option<&'static (DigestAlgorithm, &'static str, &'static str, &'static str)> {
    ALGORITHMS.iter().find(|(known, ..)| *known == algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_field_and_element_is_of_its_algorithm() {
        for (algorithm, name, ..) in ALGORITHMS {
            assert_eq!(checksum_algorithm_of_name(name), Some(algorithm));
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

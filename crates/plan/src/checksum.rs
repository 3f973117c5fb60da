//! Digest algorithms by name, and checksums as a user writes them: `sha256:HEX` or a bare `HEX` to verify, `sha256` to
//! report.
//!
//! [`DigestAlgorithm`] is the only place that has their names: columns and keys of lists, types of Metalink, header fields, messages and
//! help follow from it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The characters of a wrong algorithm that its error repeats: a whole digest fits.
const LONGEST_SHOWN: usize = 140;

/// The bytes of the shortest digest that needs no algorithm: a CRC could be a name.
const SHORTEST_BARE: usize = 16;

/// What S3 calls the checksum of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct S3ChecksumNames {
    /// The algorithm, as in `x-amz-checksum-algorithm`.
    pub name: &'static str,
    /// The header field.
    pub field: &'static str,
    /// The element in XML.
    pub element: &'static str,
}

/// Declares the algorithms. A further one is an entry here, and a hasher in `digest`.
macro_rules! digest_algorithms {
    ($($(#[$doc:meta])* $algorithm:ident = $name:literal, $digest_len:literal bytes $(, registered $registered:literal)? $(, s3 $s3:literal)?;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum DigestAlgorithm {
            $($(#[$doc])* $algorithm,)*
        }

        impl DigestAlgorithm {
            /// All of them, in the order in which a message names them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$algorithm),*];

            /// The name in flags and messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$algorithm => $name),* }
            }

            /// Bytes in a digest.
            #[must_use]
            pub fn digest_len(self) -> usize {
                match self { $(Self::$algorithm => $digest_len),* }
            }

            /// The name in RFC 9530's registry, for the digest fields of HTTP; `None` where it has none.
            #[must_use]
            pub fn registered_name(self) -> Option<&'static str> {
                match self { $(Self::$algorithm => optional!($($registered)?)),* }
            }

            /// What S3 calls the algorithm's checksum; `None` for one that S3 does not have.
            #[must_use]
            pub fn s3(self) -> Option<S3ChecksumNames> {
                match self {
                    $(Self::$algorithm => optional!($(S3ChecksumNames {
                        name: $s3,
                        field: concat!("x-amz-checksum-", $name),
                        element: concat!("Checksum", $s3),
                    })?)),*
                }
            }
        }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

digest_algorithms! {
    /// SHA-256, FIPS 180-4.
    Sha256 = "sha256", 32 bytes, registered "sha-256", s3 "SHA256";
    /// SHA-512, FIPS 180-4.
    Sha512 = "sha512", 64 bytes, registered "sha-512";
    /// SHA-1: no protection against an attacker, still widely published.
    Sha1 = "sha1", 20 bytes, registered "sha", s3 "SHA1";
    /// MD5: no protection against an attacker, either.
    Md5 = "md5", 16 bytes, registered "md5";
    /// BLAKE3.
    Blake3 = "blake3", 32 bytes;
    /// CRC-32C, RFC 3720 B.4: detects accidents only.
    Crc32c = "crc32c", 4 bytes, registered "crc32c", s3 "CRC32C";
    /// CRC-32 of zip and Ethernet. S3 stores it.
    Crc32 = "crc32", 4 bytes, s3 "CRC32";
    /// CRC-64/NVME. S3 computes it of every object by default.
    Crc64Nvme = "crc64nvme", 8 bytes, s3 "CRC64NVME";
}

impl DigestAlgorithm {
    /// The names of all of them, for a message.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The algorithm of a name as tools write it: `SHA-256`, `sha256`, `SHA2-256` (OpenSSL), `sha256sum`.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        let name = plain_name(text);
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// A digest in base64, as fields and elements have it; `None` unless it has the right length.
    #[must_use]
    pub fn decode_base64(self, text: &str) -> Option<Vec<u8>> {
        let digest = STANDARD.decode(text.trim()).ok()?;
        (digest.len() == self.digest_len()).then_some(digest)
    }

    /// The algorithm of a registered name, in either case, as older fields have it.
    #[must_use]
    pub fn from_registered_name(name: &str) -> Option<Self> {
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.registered_name().is_some_and(is_name))
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DigestAlgorithm {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        Self::from_name(text)
            .ok_or_else(|| ChecksumError::Algorithm(text.chars().take(LONGEST_SHOWN).collect()))
    }
}

/// A name without what tools add to it: case, dashes, the family's number, the word `sum`.
fn plain_name(text: &str) -> String {
    let name = text.trim().to_ascii_lowercase();
    let name = match name.strip_prefix("sha2-") {
        Some(bits) => format!("sha{bits}"),
        None => name,
    };
    let name = name.replace(['-', '_', '/'], "");
    match name.strip_suffix("sum") {
        Some("b3") => "blake3".to_owned(),
        Some(bare) => bare.to_owned(),
        None => name,
    }
}

/// Families of digests whose members differ by a number.
const NUMBERED_FAMILIES: [&str; 15] = [
    "sha", "sha512t", "shake", "keccak", "md", "crc", "blake", "blake2b", "blake2s", "ripemd",
    "rmd", "adler", "streebog", "xxh", "xxhash",
];

/// Digests whose names follow no pattern.
const OTHER_DIGESTS: [&str; 9] = [
    "blake2b",
    "blake2s",
    "crc32b",
    "crc64ecma",
    "crc64iso",
    "ripemd",
    "sm3",
    "whirlpool",
    "xxhash",
];

/// Whether a text is the name of a digest, also of one that haul does not know. A list that has such a column wants it compared.
#[must_use]
pub fn is_digest_name(text: &str) -> bool {
    let name = plain_name(text);
    let is_numbered = |family: &str| {
        let number = name.strip_prefix(family).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    DigestAlgorithm::from_name(text).is_some()
        || NUMBERED_FAMILIES.iter().any(|family| is_numbered(family))
        || OTHER_DIGESTS.contains(&name.as_str())
}

/// A checksum to verify; without a digest, one to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    pub algorithm: DigestAlgorithm,
    /// The expected digest, most significant byte first.
    pub digest: Option<Vec<u8>>,
}

/// Why a text is not a [`Checksum`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    #[error("{0:?} is not one of {names}", names = DigestAlgorithm::names())]
    Algorithm(String),
    /// Not hexadecimal, or not as long as the algorithm's digests.
    #[error("a {algorithm} digest has {} hexadecimal digits", .algorithm.digest_len() * 2)]
    Digest { algorithm: DigestAlgorithm },
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    /// `ALGO:HEX`, `ALGO=HEX` (as aria2 has it), `ALGO`, or `HEX`, whose length selects the algorithm.
    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        let Some((name, hex)) = text.split_once([':', '=']) else {
            return match Self::from_hex(text.trim()) {
                Some(checksum) => Ok(checksum),
                None => Ok(Self {
                    algorithm: text.trim().parse()?,
                    digest: None,
                }),
            };
        };
        let algorithm: DigestAlgorithm = name.trim().parse()?;
        let digest = decode_hex(hex.trim()).filter(|digest| digest.len() == algorithm.digest_len());
        Ok(Self {
            algorithm,
            digest: Some(digest.ok_or(ChecksumError::Digest { algorithm })?),
        })
    }
}

impl Checksum {
    /// A digest without its algorithm, which its length selects: the first of that length. BLAKE3's have the length of SHA-256's, which are
    /// far more common.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digest = decode_hex(hex)?;
        let length = Some(digest.len()).filter(|length| *length >= SHORTEST_BARE)?;
        let algorithm = DigestAlgorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.digest_len() == length)?;
        Some(Self {
            algorithm,
            digest: Some(digest),
        })
    }
}

/// Bytes as lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Decodes hexadecimal digits of either case.
#[must_use]
pub fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits?;
    (digits.len() % 2 == 0).then(|| {
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn checksums_as_users_write_them() {
        let crc = |digest: Option<Vec<u8>>| Checksum {
            algorithm: DigestAlgorithm::Crc32c,
            digest,
        };
        assert_eq!(
            "crc32c:DEADbeef".parse(),
            Ok(crc(Some(vec![0xde, 0xad, 0xbe, 0xef])))
        );
        assert_eq!(
            "CRC32C=deadbeef".parse(),
            Ok(crc(Some(vec![0xde, 0xad, 0xbe, 0xef])))
        );
        assert_eq!("crc32c".parse(), Ok(crc(None)));
        assert_eq!(
            "SHA-256".parse::<DigestAlgorithm>(),
            Ok(DigestAlgorithm::Sha256)
        );
        assert_eq!(
            "crc32c:dead".parse::<Checksum>(),
            Err(ChecksumError::Digest {
                algorithm: DigestAlgorithm::Crc32c
            })
        );
        assert!("sha256:zz".parse::<Checksum>().is_err());
        assert_eq!(
            "crc".parse::<Checksum>(),
            Err(ChecksumError::Algorithm("crc".into()))
        );
    }

    #[test]
    fn a_bare_digest_tells_its_algorithm_by_its_length() {
        for (algorithm, digits) in [("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128)] {
            let hex = "0aB9".repeat(digits / 4);
            assert_eq!(
                hex.parse::<Checksum>(),
                format!("{algorithm}:{hex}").parse()
            );
        }
        let wrong = "0".repeat(63);
        let error = wrong.parse::<Checksum>().unwrap_err().to_string();
        assert!(error.contains(&wrong), "{error}");
    }

    #[test]
    fn f38_a_digest_has_several_spellings() {
        for (name, algorithm) in [
            ("SHA-256", DigestAlgorithm::Sha256),
            ("SHA2-256", DigestAlgorithm::Sha256),
            ("sha2-512", DigestAlgorithm::Sha512),
            ("sha512sum", DigestAlgorithm::Sha512),
            ("b3sum", DigestAlgorithm::Blake3),
            (" Sha1 ", DigestAlgorithm::Sha1),
            ("CRC-64/NVME", DigestAlgorithm::Crc64Nvme),
            ("crc_32c", DigestAlgorithm::Crc32c),
        ] {
            assert_eq!(DigestAlgorithm::from_name(name), Some(algorithm), "{name}");
        }
        assert!(
            DigestAlgorithm::ALL
                .iter()
                .all(|known| is_digest_name(known.name()))
        );
    }

    #[test]
    fn f38_names_of_digests_are_told_from_other_names() {
        for unknown in [
            "sha384",
            "SHA-224",
            "sha3-256",
            "SHA2-512/256",
            "sha512t256",
            "md4",
            "crc64",
            "crc16",
            "blake2b",
            "BLAKE2b-256",
            "blake2s",
            "RIPEMD-160",
            "rmd160",
            "xxh3",
            "xxh64",
            "xxhash",
            "whirlpool",
            "adler32",
            "sm3",
            "sha224sum",
            "keccak256",
            "shake128",
        ] {
            assert_eq!(DigestAlgorithm::from_name(unknown), None, "{unknown}");
            assert!(is_digest_name(unknown), "{unknown}");
        }
        for other in [
            "",
            "hash",
            "etag",
            "label",
            "checksum",
            "cksum",
            "sum",
            "sha",
            "md",
            "crc",
            "phash",
            "url_md5",
            "md5_of_url",
            "shape",
            "blake",
            "size",
            "256",
            "sha256_ok",
            "tiger",
        ] {
            assert!(!is_digest_name(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_digest_is_read_as_it_is_written(which in 0..DigestAlgorithm::ALL.len(), seed: [u8; 64]) {
            let algorithm = DigestAlgorithm::ALL[which];
            let digest = seed[..algorithm.digest_len()].to_vec();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let read: Checksum = format!("{algorithm}:{hex}").parse().unwrap();
            prop_assert_eq!(read, Checksum { algorithm, digest: Some(digest) });
        }

        #[test]
        fn nothing_makes_it_panic(text: String) {
            let _ = (text.parse::<Checksum>(), is_digest_name(&text));
        }
    }
}

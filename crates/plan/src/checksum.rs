//! Digest algorithms by name, and checksums as a user writes them: `sha256:HEX` to verify, `sha256` to
//! report.

use std::fmt;
use std::str::FromStr;

/// A digest algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// SHA-256, FIPS 180-4.
    Sha256,
    /// SHA-512, FIPS 180-4.
    Sha512,
    /// SHA-1: no protection against an attacker, still widely published.
    Sha1,
    /// MD5: no protection against an attacker, either.
    Md5,
    /// BLAKE3.
    Blake3,
    /// CRC-32C, RFC 3720 B.4: detects accidents only.
    Crc32c,
}

impl DigestAlgorithm {
    /// All of them, in the order in which a message names them.
    pub const ALL: [Self; 6] = [
        Self::Sha256,
        Self::Sha512,
        Self::Sha1,
        Self::Md5,
        Self::Blake3,
        Self::Crc32c,
    ];

    /// The name in flags and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
            Self::Blake3 => "blake3",
            Self::Crc32c => "crc32c",
        }
    }

    /// Bytes in a digest.
    #[must_use]
    pub fn digest_len(self) -> usize {
        match self {
            Self::Sha256 | Self::Blake3 => 32,
            Self::Sha512 => 64,
            Self::Sha1 => 20,
            Self::Md5 => 16,
            Self::Crc32c => 4,
        }
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DigestAlgorithm {
    type Err = ChecksumError;

    /// Case and dashes do not matter: `SHA-256` is `sha256`.
    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        let name = text.to_ascii_lowercase().replace('-', "");
        let found = Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name);
        found.ok_or_else(|| ChecksumError::Algorithm(text.chars().take(40).collect()))
    }
}

/// A checksum to verify; without a digest, one to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: DigestAlgorithm,
    /// The expected digest, most significant byte first.
    pub digest: Option<Vec<u8>>,
}

/// Why a text is not a [`Checksum`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// An unknown algorithm.
    #[error("{0:?} is not one of sha256, sha512, sha1, md5, blake3, crc32c")]
    Algorithm(String),
    /// Not hexadecimal, or not as long as the algorithm's digests.
    #[error("a {algorithm} digest has {} hexadecimal digits", .algorithm.digest_len() * 2)]
    Digest {
        /// The algorithm.
        algorithm: DigestAlgorithm,
    },
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    /// `ALGO:HEX`, `ALGO=HEX` (as aria2 has it) or `ALGO`.
    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        let Some((name, hex)) = text.split_once([':', '=']) else {
            return Ok(Self {
                algorithm: text.trim().parse()?,
                digest: None,
            });
        };
        let algorithm: DigestAlgorithm = name.trim().parse()?;
        let digest = decode_hex(hex.trim()).filter(|digest| digest.len() == algorithm.digest_len());
        Ok(Self {
            algorithm,
            digest: Some(digest.ok_or(ChecksumError::Digest { algorithm })?),
        })
    }
}

/// Decodes hexadecimal digits of either case.
fn decode_hex(hex: &str) -> Option<Vec<u8>> {
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

    proptest! {
        #[test]
        fn every_digest_is_read_as_it_is_written(which in 0usize..6, seed: [u8; 64]) {
            let algorithm = DigestAlgorithm::ALL[which];
            let digest = seed[..algorithm.digest_len()].to_vec();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let read: Checksum = format!("{algorithm}:{hex}").parse().unwrap();
            prop_assert_eq!(read, Checksum { algorithm, digest: Some(digest) });
        }

        #[test]
        fn nothing_makes_it_panic(text: String) {
            let _ = text.parse::<Checksum>();
        }
    }
}

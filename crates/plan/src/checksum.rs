//! Digest algorithms by name, and checksums as a user writes them: `sha256:HEX` or a bare `HEX` to verify, `sha256` to
//! report, and the lines of a file that `sha256sum` and similar tools write.

use std::fmt;
use std::str::FromStr;

/// The characters of a wrong algorithm that its error repeats: a whole digest fits.
const LONGEST_SHOWN: usize = 140;

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
    /// CRC-32 of zip and Ethernet. S3 stores it.
    Crc32,
    /// CRC-64/NVME. S3 computes it of every object by default.
    Crc64Nvme,
}

impl DigestAlgorithm {
    /// All of them, in the order in which a message names them.
    pub const ALL: [Self; 8] = [
        Self::Sha256,
        Self::Sha512,
        Self::Sha1,
        Self::Md5,
        Self::Blake3,
        Self::Crc32c,
        Self::Crc32,
        Self::Crc64Nvme,
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
            Self::Crc32 => "crc32",
            Self::Crc64Nvme => "crc64nvme",
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
            Self::Crc32c | Self::Crc32 => 4,
            Self::Crc64Nvme => 8,
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
        found.ok_or_else(|| ChecksumError::Algorithm(text.chars().take(LONGEST_SHOWN).collect()))
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
    #[error("{0:?} is not one of sha256, sha512, sha1, md5, blake3, crc32c, crc32, crc64nvme")]
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
    /// A digest without its algorithm, which its length selects: MD5, SHA-1, SHA-256 or SHA-512. BLAKE3's have the length of SHA-256's, which are
    /// far more common; CRC-32C's could be a name.
    fn from_hex(hex: &str) -> Option<Self> {
        let digest = decode_hex(hex)?;
        let algorithm = match digest.len() {
            16 => DigestAlgorithm::Md5,
            20 => DigestAlgorithm::Sha1,
            32 => DigestAlgorithm::Sha256,
            64 => DigestAlgorithm::Sha512,
            _ => return None,
        };
        Some(Self {
            algorithm,
            digest: Some(digest),
        })
    }

    /// The checksum of a file in a list that `sha256sum` and similar tools write: lines `HEX  NAME`, or `ALGO (NAME) = HEX` with `--tag`. A line with
    /// exactly this name counts first, then one with a path that ends in it.
    #[must_use]
    pub fn find_in_list(list: &str, name: &str) -> Option<Self> {
        let lines = || list.lines().filter_map(list_line);
        let is_path_of = |path: &str| path.rsplit('/').next() == Some(name);
        lines()
            .find(|(path, _)| path.strip_prefix("./").unwrap_or(path) == name)
            .or_else(|| lines().find(|(path, _)| is_path_of(path)))
            .map(|(_, checksum)| checksum)
    }
}

/// The name and the checksum of a line.
fn list_line(line: &str) -> Option<(&str, Checksum)> {
    let line = line.trim_end();
    if let Some((left, hex)) = line.rsplit_once(") = ")
        && let Some((algorithm, name)) = left.split_once(" (")
    {
        return Some((name, format!("{algorithm}:{hex}").parse().ok()?));
    }
    let (hex, name) = line.split_once(' ')?;
    // A second blank for text mode, an asterisk for binary mode.
    let name = name.strip_prefix([' ', '*'])?;
    Some((name, Checksum::from_hex(hex)?))
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
    fn a_file_is_found_in_a_list_of_digests() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let list = format!(
            "# made by hand\n{a}  dir/f.iso\n{b} *./f.iso\nSHA512 (g) = {a}{b}\n{a}  with blank \n"
        );
        let find = |name| Checksum::find_in_list(&list, name);
        assert_eq!(find("f.iso"), b.parse().ok());
        assert_eq!(find("dir/f.iso"), a.parse().ok());
        assert_eq!(find("g"), format!("sha512:{a}{b}").parse().ok());
        assert_eq!(find("iso"), None);
        assert_eq!(find("made"), None);
        assert_eq!(
            Checksum::find_in_list(&format!("{a}  dir/h"), "h"),
            a.parse().ok()
        );
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(list: String, name: String) {
            let _ = Checksum::find_in_list(&list, &name);
        }

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

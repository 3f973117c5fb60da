//! Bodies that contain their own identity.

use super::BodyVersion;
use crate::ResourceContent;

/// The first bytes of each body.
const MAGIC: &[u8; 8] = b"stamped\n";

/// Bytes of magic, key, version and length.
const HEADER_BYTES: usize = 32;

/// The identity of a body: all its bytes follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedBody {
    /// The number of the key that it was written to.
    pub key: u64,
    /// The write.
    pub version: BodyVersion,
    /// The number of bytes, including the header.
    pub length: u64,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyCorruption {
    /// The header is missing.
    #[error("{0} bytes without a stamp")]
    NotStamped(usize),
    /// The length differs from that of the stamp.
    #[error("{found} bytes of {stamp:?}")]
    WrongLength {
        stamp: StampedBody,
        /// The actual number of bytes.
        found: usize,
    },
    /// A byte differs from the one that was written.
    #[error("byte {offset} is not that of {stamp:?}")]
    WrongByte {
        stamp: StampedBody,
        /// The first wrong byte.
        offset: usize,
    },
}

impl StampedBody {
    pub const MIN_LENGTH: u64 = HEADER_BYTES as u64;

    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in [self.key, self.version.0, self.length] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.payload()
            .append(0..self.length.saturating_sub(Self::MIN_LENGTH), &mut bytes);
        bytes
    }

    /// The identity of a body, from its first bytes. `None` if it has no stamp.
    #[must_use]
    pub fn from_prefix(bytes: &[u8]) -> Option<Self> {
        let numbers = bytes.get(..HEADER_BYTES)?.strip_prefix(MAGIC)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let [key, version, length] = numbers else {
            return None;
        };
        Some(Self {
            key: u64::from_le_bytes(*key),
            version: BodyVersion(u64::from_le_bytes(*version)),
            length: u64::from_le_bytes(*length),
        })
    }

    /// The identity of a complete body, after every byte was compared.
    ///
    /// # Errors
    /// When it is not a complete body that was written.
    pub fn verify(bytes: &[u8]) -> Result<Self, BodyCorruption> {
        let stamp = Self::from_prefix(bytes).ok_or(BodyCorruption::NotStamped(bytes.len()))?;
        if bytes.len() as u64 != stamp.length {
            return Err(BodyCorruption::WrongLength {
                stamp,
                found: bytes.len(),
            });
        }
        let rest = stamp.payload().to_vec();
        match rest
            .iter()
            .zip(&bytes[HEADER_BYTES..])
            .position(|(ours, theirs)| ours != theirs)
        {
            None => Ok(stamp),
            Some(at) => Err(BodyCorruption::WrongByte {
                stamp,
                offset: HEADER_BYTES + at,
            }),
        }
    }

    /// The bytes after the header. They differ from the first byte on for each key and version.
    fn payload(self) -> ResourceContent {
        let seed = crate::content::mix(self.key, self.version.0);
        ResourceContent::random(seed, self.length.saturating_sub(Self::MIN_LENGTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(version: u64, length: u64) -> StampedBody {
        StampedBody {
            key: 3,
            version: BodyVersion(version),
            length,
        }
    }

    #[test]
    fn a_complete_body_is_verified() {
        for length in [32, 33, 47, 1000, 100_000] {
            let body = stamped(9, length);
            assert_eq!(body.to_vec().len() as u64, length);
            assert_eq!(StampedBody::verify(&body.to_vec()), Ok(body));
            assert_eq!(StampedBody::from_prefix(&body.to_vec()[..32]), Some(body));
        }
    }

    #[test]
    fn a_truncated_body_is_detected_at_every_length() {
        let bytes = stamped(9, 200).to_vec();
        for end in 0..bytes.len() {
            assert!(StampedBody::verify(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_body_with_bytes_of_another_is_detected_at_every_offset() {
        let (ours, theirs) = (stamped(9, 200).to_vec(), stamped(10, 200).to_vec());
        for at in 40..200 {
            let mixed = [&ours[..at], &theirs[at..]].concat();
            // A single byte of both may be the same by chance.
            if mixed != ours {
                assert!(
                    matches!(
                        StampedBody::verify(&mixed),
                        Err(BodyCorruption::WrongByte { .. })
                    ),
                    "{at}"
                );
            }
        }
    }
}

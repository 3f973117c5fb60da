//! Bodies that say what they are.

use super::BodyVersion;
use crate::ResourceContent;

/// Begins each of them.
const MAGIC: &[u8; 8] = b"stamped\n";

/// Bytes of magic, key, version and length.
const HEADER_BYTES: usize = 32;

/// The identity of a body: all its bytes follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedBody {
    /// Which key it was written to, by a number.
    pub key: u64,
    /// Which write it was.
    pub version: BodyVersion,
    /// Its bytes, the head's among them.
    pub length: u64,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyCorruption {
    /// It does not begin as it must.
    #[error("{0} bytes that nobody wrote")]
    NotStamped(usize),
    /// It has another length than it says.
    #[error("{found} bytes of {stamp:?}")]
    WrongLength {
        /// What it says.
        stamp: StampedBody,
        /// Its bytes.
        found: usize,
    },
    /// A byte is not the one that was written.
    #[error("byte {offset} is not that of {stamp:?}")]
    WrongByte {
        /// What it says.
        stamp: StampedBody,
        /// The first wrong byte.
        offset: usize,
    },
}

impl StampedBody {
    /// The shortest.
    pub const MIN_LENGTH: u64 = HEADER_BYTES as u64;

    /// Its bytes.
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

    /// What a body says that it is, from its first bytes. `None` if it is none of these.
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

    /// What a whole body is, every byte of it compared.
    ///
    /// # Errors
    /// When it is not one whole body that was written.
    pub fn verify(bytes: &[u8]) -> Result<Self, BodyCorruption> {
        let whole = Self::from_prefix(bytes).ok_or(BodyCorruption::NotStamped(bytes.len()))?;
        if bytes.len() as u64 != whole.length {
            return Err(BodyCorruption::WrongLength {
                stamp: whole,
                found: bytes.len(),
            });
        }
        let rest = whole.payload().to_vec();
        match rest
            .iter()
            .zip(&bytes[HEADER_BYTES..])
            .position(|(ours, theirs)| ours != theirs)
        {
            None => Ok(whole),
            Some(at) => Err(BodyCorruption::WrongByte {
                stamp: whole,
                offset: HEADER_BYTES + at,
            }),
        }
    }

    /// The bytes after the head: other ones for each key and each version, and for no two beginning alike.
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
    fn a_whole_body_is_what_it_says() {
        for length in [32, 33, 47, 1000, 100_000] {
            let body = stamped(9, length);
            assert_eq!(body.to_vec().len() as u64, length);
            assert_eq!(StampedBody::verify(&body.to_vec()), Ok(body));
            assert_eq!(StampedBody::from_prefix(&body.to_vec()[..32]), Some(body));
        }
    }

    #[test]
    fn one_cut_off_at_any_byte_is_torn() {
        let bytes = stamped(9, 200).to_vec();
        for end in 0..bytes.len() {
            assert!(StampedBody::verify(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn one_with_the_bytes_of_another_is_mixed_wherever_they_begin() {
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

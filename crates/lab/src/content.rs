//! What an origin serves: bytes that need no memory, since each is computed from its position.

use std::ops::Range;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The bytes of a resource.
#[derive(Debug, Clone)]
pub enum Content {
    /// Pseudo-random, from a seed: any part of it can be made at any time.
    Random {
        /// Tells contents apart.
        seed: u64,
        /// Bytes.
        length: u64,
    },
    /// As given.
    Fixed(Bytes),
}

impl Content {
    /// Pseudo-random bytes.
    #[must_use]
    pub fn random(seed: u64, length: u64) -> Self {
        Self::Random { seed, length }
    }

    /// Given bytes.
    #[must_use]
    pub fn fixed(bytes: impl Into<Bytes>) -> Self {
        Self::Fixed(bytes.into())
    }

    /// How many there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Random { length, .. } => *length,
            Self::Fixed(bytes) => bytes.len() as u64,
        }
    }

    /// Some of them, as far as they exist.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Vec<u8> {
        let range = range.start.min(self.length())..range.end.min(self.length());
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match self {
            Self::Fixed(bytes) => bytes[index(range.start)..index(range.end)].to_vec(),
            Self::Random { seed, .. } => {
                // Whole words from the one that holds the first byte, then cut.
                let first = range.start / 8;
                let words = (first..range.end.div_ceil(8))
                    .flat_map(|word| mixed(*seed, word).to_le_bytes());
                let skip = index(range.start - first * 8);
                let mut bytes: Vec<u8> = words.collect();
                bytes.drain(..skip);
                bytes.truncate(index(range.end.saturating_sub(range.start)));
                bytes
            }
        }
    }

    /// All of them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slice(0..self.length())
    }

    /// Their SHA-256 in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < self.length() {
            let end = (at + (1 << 20)).min(self.length());
            hash.update(self.slice(at..end));
            at = end;
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// SplitMix64 of a word's position: Steele, Lea and Flood 2014.
fn mixed(seed: u64, word: u64) -> u64 {
    let mut z = seed.wrapping_add(word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_the_part_of_the_whole() {
        let content = Content::random(7, 1000);
        let whole = content.to_vec();
        assert_eq!(whole.len(), 1000);
        for range in [0..1, 3..17, 8..16, 991..1000, 999..2000, 500..500] {
            let end = range.end.min(1000);
            let part = &whole[usize::try_from(range.start).unwrap()..usize::try_from(end).unwrap()];
            assert_eq!(content.slice(range), part);
        }
        assert_ne!(whole, Content::random(8, 1000).to_vec());
    }
}

//! The content of resources: bytes that need no memory, since each is computed from its position.
//!
//! The generator is counter-based: word *n* depends on the seed and on *n* alone, so that any range of a file of any length
//! can be made at once, by any number of connections, at several GiB/s.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Bytes in a word of the generator.
const WORD_BYTES: u64 = 8;

#[derive(Debug, Clone)]
pub enum ResourceContent {
    /// Pseudo-random bytes from a seed: any range can be computed at any time.
    Random {
        /// Different seeds give different bytes.
        seed: u64,
        /// The number of bytes.
        length: u64,
    },
    Fixed(Bytes),
}

impl ResourceContent {
    /// Pseudo-random bytes. With the same seed a shorter content is a prefix of a longer one.
    #[must_use]
    pub fn random(seed: u64, length: u64) -> Self {
        Self::Random { seed, length }
    }

    #[must_use]
    pub fn fixed(bytes: impl Into<Bytes>) -> Self {
        Self::Fixed(bytes.into())
    }

    /// The number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Random { length, .. } => *length,
            Self::Fixed(bytes) => bytes.len() as u64,
        }
    }

    /// The bytes of a range, as far as they exist.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append(range, &mut bytes);
        bytes
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slice(0..self.length())
    }

    /// The SHA-256 in hexadecimal, computed in constant memory.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        let mut piece = Vec::new();
        let mut at = 0;
        while at < self.length() {
            let end = (at + (1 << 18)).min(self.length());
            piece.clear();
            self.append(at..end, &mut piece);
            hash.update(&piece);
            at = end;
        }
        hexadecimal(&hash.finalize())
    }

    /// Appends the bytes of a range to a buffer, as far as they exist.
    pub(crate) fn append(&self, range: Range<u64>, buffer: &mut Vec<u8>) {
        let range = range.start.min(self.length())..range.end.min(self.length());
        if range.is_empty() {
            return;
        }
        match self {
            Self::Fixed(bytes) => {
                buffer.extend_from_slice(&bytes[index(range.start)..index(range.end)]);
            }
            Self::Random { seed, .. } => append_words(*seed, range, buffer),
        }
    }
}

/// Appends whole words directly, and the bytes at the ends of the range from words of their own.
fn append_words(seed: u64, range: Range<u64>, buffer: &mut Vec<u8>) {
    let whole = range.start.div_ceil(WORD_BYTES)..range.end / WORD_BYTES;
    if whole.start > whole.end {
        return append_within_word(seed, range, buffer);
    }
    append_within_word(seed, range.start..whole.start * WORD_BYTES, buffer);
    let base = buffer.len();
    buffer.resize(base + index((whole.end - whole.start) * WORD_BYTES), 0);
    let (words, _) = buffer[base..].as_chunks_mut::<8>();
    for (bytes, word) in words.iter_mut().zip(whole.clone()) {
        *bytes = mix(seed, word).to_le_bytes();
    }
    append_within_word(seed, whole.end * WORD_BYTES..range.end, buffer);
}

fn append_within_word(seed: u64, range: Range<u64>, buffer: &mut Vec<u8>) {
    let word = range.start / WORD_BYTES;
    let within = index(range.start - word * WORD_BYTES)..index(range.end - word * WORD_BYTES);
    buffer.extend_from_slice(&mix(seed, word).to_le_bytes()[within]);
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// SplitMix64 of a word's position: Steele, Lea and Flood 2014.
pub(crate) fn mix(seed: u64, word: u64) -> u64 {
    let mut z = seed.wrapping_add(word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_the_part_of_the_whole() {
        let content = ResourceContent::random(7, 1003);
        let whole = content.to_vec();
        assert_eq!(whole.len(), 1003);
        for start in 0..40 {
            for end in start..40 {
                let part = &whole[index(start)..index(end)];
                assert_eq!(content.slice(start..end), part, "{start}..{end}");
            }
        }
        for range in [991..1003, 999..2000, 500..500, 2000..3000] {
            let part = &whole[index(range.start.min(1003))..index(range.end.min(1003))];
            assert_eq!(content.slice(range), part);
        }
    }

    #[test]
    fn seeds_give_different_contents_and_a_longer_one_begins_like_a_shorter() {
        let content = ResourceContent::random(7, 1000);
        assert_ne!(content.to_vec(), ResourceContent::random(8, 1000).to_vec());
        assert_eq!(
            ResourceContent::random(7, 2000).slice(0..1000),
            content.slice(0..1000)
        );
    }

    #[test]
    fn the_digest_is_that_of_the_bytes() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            ResourceContent::fixed("abc").sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let content = ResourceContent::random(1, 600_001);
        assert_eq!(
            content.sha256(),
            ResourceContent::fixed(content.to_vec()).sha256()
        );
    }
}

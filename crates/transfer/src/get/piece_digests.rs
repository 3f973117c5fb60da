//! Digests of a file's pieces, as Metalink files list them: which bytes a piece is, and which pieces can be
//! checked by now.
//!
//! [`PieceDigests`] is the list, [`PieceChecks`] the state of the checks in one download. The caller computes
//! digests: [`PieceChecks::take_ready`] names pieces whose every byte is in the file,
//! [`PieceChecks::on_checked`] takes the results. A piece whose digest was wrong is named again when its
//! bytes have been fetched again.

use std::collections::BTreeMap;
use std::ops::Range;

use haul_plan::DigestAlgorithm;

use crate::range_set::RangeSet;

/// The digests of a file's pieces. All pieces have one length; the last one may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceDigests {
    algorithm: DigestAlgorithm,
    /// Bytes in each piece but perhaps the last.
    length: u64,
    /// All digests, one after the other: a list of lists would take twice the memory.
    digests: Vec<u8>,
}

/// Why a list of digests cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PieceDigestsError {
    /// A length of zero, or no digests.
    #[error("pieces without a length or without digests")]
    Empty,
    /// A digest that is not as long as those of its algorithm.
    #[error("a {algorithm} digest of a piece has {} bytes", .algorithm.digest_len())]
    Digest { algorithm: DigestAlgorithm },
}

impl PieceDigests {
    pub(crate) fn memory(&self) -> usize {
        self.digests.len()
    }

    /// Digests of pieces of `length` bytes, in order.
    ///
    /// # Errors
    /// [`PieceDigestsError`].
    pub fn new<D: AsRef<[u8]>>(
        algorithm: DigestAlgorithm,
        length: u64,
        digests: impl IntoIterator<Item = D>,
    ) -> Result<Self, PieceDigestsError> {
        let mut all = Vec::new();
        for digest in digests {
            let digest = digest.as_ref();
            if digest.len() != algorithm.digest_len() {
                return Err(PieceDigestsError::Digest { algorithm });
            }
            all.extend_from_slice(digest);
        }
        if length == 0 || all.is_empty() {
            return Err(PieceDigestsError::Empty);
        }
        Ok(Self {
            algorithm,
            length,
            digests: all,
        })
    }

    #[must_use]
    pub fn algorithm(&self) -> DigestAlgorithm {
        self.algorithm
    }

    /// Bytes in each piece but perhaps the last.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many pieces there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.digests.len() / self.algorithm.digest_len()) as u64
    }

    /// The digest of a piece; `None` past the last.
    #[must_use]
    pub fn digest(&self, piece: u64) -> Option<&[u8]> {
        let length = self.algorithm.digest_len();
        let at = usize::try_from(piece).ok()?.checked_mul(length)?;
        self.digests.get(at..at.checked_add(length)?)
    }

    /// Whether a file of `total` bytes has this many pieces.
    #[must_use]
    pub fn matches_length(&self, total: u64) -> bool {
        total.div_ceil(self.length) == self.count()
    }

    /// The bytes of a piece in a file of `total` bytes.
    #[must_use]
    pub fn range(&self, piece: u64, total: u64) -> Range<u64> {
        let start = piece.saturating_mul(self.length).min(total);
        start..start.saturating_add(self.length).min(total)
    }

    /// The pieces of which a range has every byte, in a file of `total` bytes.
    fn contained_in(&self, range: &Range<u64>, total: u64) -> Range<u64> {
        let first = range.start.div_ceil(self.length);
        let end = if range.end >= total {
            self.count()
        } else {
            range.end / self.length
        };
        first..end.max(first)
    }
}

/// Which pieces of a file in download have been checked.
#[derive(Debug)]
pub(crate) struct PieceChecks {
    pieces: PieceDigests,
    /// Bytes in the file.
    total: u64,
    /// Pieces that were handed out for a check, or are verified.
    handed_out: RangeSet,
    /// Pieces whose digest is right.
    verified: RangeSet,
    /// How often the digest of a piece was wrong, for the pieces for which it ever was.
    failures: BTreeMap<u64, u32>,
}

impl PieceChecks {
    /// Checks of which none is done; `None` when the digests are those of a file of another length.
    #[must_use]
    pub(crate) fn new(pieces: PieceDigests, total: u64) -> Option<Self> {
        pieces.matches_length(total).then(|| Self {
            pieces,
            total,
            handed_out: RangeSet::new(),
            verified: RangeSet::new(),
            failures: BTreeMap::new(),
        })
    }

    #[must_use]
    pub(crate) fn pieces(&self) -> &PieceDigests {
        &self.pieces
    }

    #[must_use]
    pub(crate) fn range(&self, piece: u64) -> Range<u64> {
        self.pieces.range(piece, self.total)
    }

    /// Up to `limit` pieces whose every byte is `done` and that were not handed out since.
    pub(crate) fn take_ready(&mut self, done: &RangeSet, limit: usize) -> Vec<u64> {
        let mut ready = Vec::new();
        for range in done.iter() {
            let within = self.pieces.contained_in(&range, self.total);
            ready.extend(
                self.handed_out
                    .gaps(within)
                    .flatten()
                    .take(limit - ready.len()),
            );
            if ready.len() >= limit {
                break;
            }
        }
        for piece in &ready {
            self.handed_out.insert(*piece..piece + 1);
        }
        ready
    }

    /// Records a check. Returns how often the digest of the piece has been wrong, this time included; 0 if it
    /// is right.
    pub(crate) fn on_checked(&mut self, piece: u64, is_right: bool) -> u32 {
        if is_right {
            self.verified.insert(piece..piece + 1);
            return 0;
        }
        self.handed_out.remove(piece..piece + 1);
        self.verified.remove(piece..piece + 1);
        let times = self.failures.entry(piece).or_default();
        *times += 1;
        *times
    }

    /// Whether every piece is verified.
    #[must_use]
    pub(crate) fn is_complete(&self) -> bool {
        self.verified.covers(&(0..self.pieces.count()))
    }

    /// Where the verified pieces at the beginning of the file end.
    #[must_use]
    pub(crate) fn verified_prefix(&self) -> u64 {
        self.range(self.verified.prefix_end()).start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(length: u64, count: usize) -> PieceDigests {
        let digests = (0..count).map(|n| [u8::try_from(n % 256).unwrap(); 16]);
        PieceDigests::new(DigestAlgorithm::Md5, length, digests).unwrap()
    }

    #[test]
    fn malformed_digests_are_refused() {
        let new =
            |length, digests: &[&[u8]]| PieceDigests::new(DigestAlgorithm::Md5, length, digests);
        assert_eq!(new(0, &[&[0; 16]]), Err(PieceDigestsError::Empty));
        assert_eq!(new(7, &[]), Err(PieceDigestsError::Empty));
        let algorithm = DigestAlgorithm::Md5;
        assert_eq!(
            new(7, &[&[0; 15]]),
            Err(PieceDigestsError::Digest { algorithm })
        );
    }

    #[test]
    fn the_count_of_pieces_must_match_the_length_of_the_file() {
        let pieces = pieces(10, 3);
        let fit = |total| pieces.matches_length(total);
        assert!(!fit(20) && fit(21) && fit(30) && !fit(31));
        assert_eq!(pieces.range(2, 21), 20..21);
        assert_eq!(pieces.digest(2), Some(&[2u8; 16][..]));
        assert_eq!(pieces.digest(3), None);
        assert_eq!(pieces.digest(u64::MAX), None);
        assert!(PieceChecks::new(pieces, 31).is_none());
    }

    #[test]
    fn a_wrong_piece_is_handed_out_again_and_counted() {
        let mut book = PieceChecks::new(pieces(10, 3), 25).unwrap();
        let mut done: RangeSet = std::iter::once(0..20).collect();
        assert_eq!(book.take_ready(&done, 9), [0, 1]);
        assert!(book.take_ready(&done, 9).is_empty());
        assert_eq!(book.on_checked(0, false), 1);
        assert_eq!(book.on_checked(1, true), 0);
        assert_eq!(book.verified_prefix(), 0);
        done.insert(20..25);
        assert_eq!(book.take_ready(&done, 1), [0]);
        assert_eq!(book.take_ready(&done, 9), [2]);
        assert_eq!(book.on_checked(0, false), 2);
        assert_eq!(book.take_ready(&done, 9), [0]);
        book.on_checked(0, true);
        assert_eq!(book.verified_prefix(), 20);
        assert!(!book.is_complete());
        book.on_checked(2, true);
        assert!(book.is_complete());
        assert_eq!(book.verified_prefix(), 25);
    }

    proptest! {
        #[test]
        fn each_piece_is_ready_once_and_only_when_every_byte_is_done(
            length in 1u64..9, total in 1u64..100,
            writes in prop::collection::vec((0u64..100, 0u64..30), 0..30),
        ) {
            let count = usize::try_from(total.div_ceil(length)).unwrap();
            let mut book = PieceChecks::new(pieces(length, count), total).unwrap();
            let (mut done, mut seen) = (RangeSet::new(), Vec::new());
            for (start, bytes) in writes {
                done.insert(start.min(total)..(start + bytes).min(total));
                for piece in book.take_ready(&done, 5) {
                    prop_assert!(done.covers(&book.range(piece)));
                    prop_assert!(!seen.contains(&piece));
                    seen.push(piece);
                }
            }
            done.insert(0..total);
            while let [first, rest @ ..] = &book.take_ready(&done, 3)[..] {
                seen.push(*first);
                seen.extend(rest);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..count as u64).collect::<Vec<_>>());
        }
    }
}

//! What has been written but not yet journalled.
//!
//! Workers add a piece for each write, with its CRC; a checkpoint takes all of them, and only after a sync are they
//! claimed on disk. Adding is a push, since it happens under the lock that all workers share; sorting and joining is
//! left to the checkpoint's thread.

use bytes::Bytes;

use crate::checksum::{Crc32c, combine_crc32c};
use crate::journal::SavedRange;

/// Pieces written since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct UnsyncedRanges {
    /// In the order of the writes.
    ranges: Vec<SavedRange>,
    /// How much they are together.
    bytes: u64,
}

impl UnsyncedRanges {
    /// Adds a piece that is in the file.
    pub(super) fn add(&mut self, piece: SavedRange) {
        self.bytes += piece.end - piece.start;
        self.ranges.push(piece);
    }

    /// How many bytes no checkpoint has claimed yet.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands over the pieces and begins anew.
    pub(super) fn take(&mut self) -> Vec<SavedRange> {
        self.bytes = 0;
        std::mem::take(&mut self.ranges)
    }
}

/// What was written from `at` on, cut where pieces with digests begin: one that turns out to be bad is taken back, and with it
/// every record that has bytes of it.
pub(super) fn written_ranges(at: u64, written: &[Bytes], cut: Option<u64>) -> Vec<SavedRange> {
    let (mut spans, mut crc) = (Vec::new(), Crc32c::new());
    let (mut start, mut end) = (at, at);
    for bytes in written {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let room = cut.map_or(u64::MAX, |cut| cut - end % cut);
            let take = usize::try_from(room).map_or(rest.len(), |room| room.min(rest.len()));
            crc.update(&rest[..take]);
            (rest, end) = (&rest[take..], end + take as u64);
            if take as u64 == room {
                let crc = std::mem::replace(&mut crc, Crc32c::new()).finish();
                spans.push(SavedRange { start, end, crc });
                start = end;
            }
        }
    }
    if start < end {
        let crc = crc.finish();
        spans.push(SavedRange { start, end, crc });
    }
    spans
}

/// Merges adjacent ranges, so that the journal has one record for many writes; but not across a multiple of `piece_length`.
pub(super) fn merge_adjacent(
    mut pieces: Vec<SavedRange>,
    piece_length: Option<u64>,
) -> Vec<SavedRange> {
    pieces.sort_unstable_by_key(|piece| piece.start);
    let mut spans: Vec<SavedRange> = Vec::new();
    for piece in pieces {
        match spans.last_mut() {
            Some(last)
                if last.end == piece.start
                    && piece_length.is_none_or(|length| piece.start % length != 0) =>
            {
                last.crc = combine_crc32c(last.crc, piece.crc, piece.end - piece.start);
                last.end = piece.end;
            }
            _ => spans.push(piece),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_in_any_order_merge_to_one_with_its_crc(text in prop::collection::vec(any::<u8>(), 1..200), seed: u64) {
            let mut unsynced = UnsyncedRanges::default();
            let mut cuts: Vec<usize> = (0..=text.len()).filter(|i| (seed >> (i % 61)) & 1 == 1).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            cuts.dedup();
            let mut ranges: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
            let by = usize::try_from(seed % 7).unwrap() % ranges.len();
            ranges.rotate_left(by);
            for (start, end) in ranges {
                unsynced.add(SavedRange { start: start as u64, end: end as u64, crc: crc32c(&text[start..end]) });
            }
            let whole = SavedRange { start: 0, end: text.len() as u64, crc: crc32c(&text) };
            prop_assert_eq!(unsynced.bytes(), text.len() as u64);
            prop_assert_eq!(merge_adjacent(unsynced.take(), None), vec![whole]);
            prop_assert_eq!(unsynced.bytes(), 0);
            prop_assert_eq!(unsynced.take(), vec![]);
        }
    }

    proptest! {
        /// However writes fall, what is reported of them is a span for each piece, cut where the pieces are.
        #[test]
        fn writes_join_to_pieces_and_not_beyond(text in prop::collection::vec(any::<u8>(), 1..200), sizes in prop::collection::vec(1usize..40, 1..9), cut in 1u64..50, at in 0u64..50) {
            let (mut reported, mut rest, mut end) = (Vec::new(), &text[..], at);
            for size in sizes.iter().cycle() {
                let (now, later) = rest.split_at((*size).min(rest.len()));
                let halves = now.split_at(now.len() / 2);
                let written = [halves.0, halves.1].map(Bytes::copy_from_slice);
                reported.extend(written_ranges(end, &written, Some(cut)));
                (rest, end) = (later, end + now.len() as u64);
                if rest.is_empty() {
                    break;
                }
            }
            let joined = merge_adjacent(reported, Some(cut));
            let mut next = at;
            for span in joined {
                prop_assert_eq!(span.start, next);
                prop_assert!(span.end == end || span.end % cut == 0);
                prop_assert!(span.end - span.start <= cut);
                let within = |at: u64| usize::try_from(at).unwrap();
                prop_assert_eq!(span.crc, crc32c(&text[within(span.start - at)..within(span.end - at)]));
                next = span.end;
            }
            prop_assert_eq!(next, end);
        }
    }

    #[test]
    fn stretches_with_a_gap_between_stay_apart() {
        let a = SavedRange {
            start: 0,
            end: 1,
            crc: 7,
        };
        let b = SavedRange {
            start: 2,
            end: 3,
            crc: 8,
        };
        assert_eq!(merge_adjacent(vec![b.clone(), a.clone()], None), vec![a, b]);
    }
}

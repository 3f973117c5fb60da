//! Pieces of a body on their way to the disk.
//!
//! They are as long as the peer makes them: a chunk, or a frame of HTTP/2, may have one byte. As a piece of its own that byte costs thirty times as
//! much, and keeps alive whatever it was read with: a buffer of hyper's, of which all the rest may have been something else. A
//! bound of bytes would then bound little. So short pieces are copied together, and only long ones, or a single one, stay what they were.

use bytes::{Bytes, BytesMut};

/// Bytes from which a piece is kept as it is: what it costs beside them is little, and a copy would be more.
const LONG: usize = 4 << 10;

/// Pieces, in order.
#[derive(Debug, Default)]
pub(super) struct CoalescedChunks {
    /// Those that are done.
    pieces: Vec<Bytes>,
    /// Short ones after them.
    short: ShortChunks,
    /// Bytes of all.
    bytes: usize,
}

/// Short pieces next to each other.
#[derive(Debug, Default)]
enum ShortChunks {
    #[default]
    None,
    /// Mostly there is one: a small body, or the end of a long one.
    One(Bytes),
    /// Copied together.
    Many(BytesMut),
}

impl CoalescedChunks {
    /// One more.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() >= LONG {
            self.seal();
            self.pieces.push(piece);
            return;
        }
        self.short = match std::mem::take(&mut self.short) {
            ShortChunks::None => ShortChunks::One(piece),
            ShortChunks::One(first) => {
                let mut many = BytesMut::with_capacity(LONG.max(first.len() + piece.len()));
                many.extend_from_slice(&first);
                many.extend_from_slice(&piece);
                ShortChunks::Many(many)
            }
            ShortChunks::Many(mut many) => {
                many.extend_from_slice(&piece);
                ShortChunks::Many(many)
            }
        };
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them.
    pub(super) fn into_pieces(mut self) -> Vec<Bytes> {
        self.seal();
        self.pieces
    }

    fn seal(&mut self) {
        match std::mem::take(&mut self.short) {
            ShortChunks::None => {}
            ShortChunks::One(piece) => self.pieces.push(piece),
            ShortChunks::Many(many) => self.pieces.push(many.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gathered(pieces: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
        let mut gathered = CoalescedChunks::default();
        pieces.into_iter().for_each(|piece| gathered.push(piece));
        gathered.into_pieces()
    }

    #[test]
    fn what_is_long_or_alone_is_not_copied() {
        let (one, long) = (Bytes::from(vec![1; 10]), Bytes::from(vec![2; LONG]));
        for given in [vec![one.clone()], vec![long.clone(), one, long]] {
            let came = gathered(given.clone());
            let places = |all: &[Bytes]| all.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>();
            assert_eq!(places(&came), places(&given));
        }
    }

    #[test]
    fn a_byte_keeps_no_buffer_alive() {
        let large = Bytes::from(vec![0; 1 << 20]);
        let came = gathered((0..1000).map(|at| large.slice(at..=at)));
        assert_eq!(came.len(), 1);
        assert!(large.is_unique(), "nobody else has it");
    }

    proptest! {
        #[test]
        fn bytes_stay_in_order_and_pieces_are_few(
            lengths in prop::collection::vec(prop_oneof![0_usize..10, 4000_usize..4200], 0..60),
        ) {
            let mut next = 0_u8;
            let pieces: Vec<Bytes> = lengths.iter().map(|length| {
                (0..*length).map(|_| { next = next.wrapping_add(7); next }).collect()
            }).collect();
            let mut all = CoalescedChunks::default();
            pieces.iter().for_each(|piece| all.push(piece.clone()));
            prop_assert_eq!(all.bytes(), lengths.iter().sum::<usize>());
            let came = all.into_pieces();
            prop_assert_eq!(came.concat(), pieces.concat());
            // Of two neighbours one is long.
            prop_assert!(came.windows(2).all(|two| two[0].len() >= LONG || two[1].len() >= LONG));
        }
    }
}

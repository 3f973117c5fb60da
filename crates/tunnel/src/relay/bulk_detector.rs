//! How the bytes of one direction of a relay are copied.
//!
//! A read and a write are two calls and two copies. Through a pipe (splice(2)) there are two calls and no
//! copy of the bytes, but pages are handed over one by one, and a pipe is needed. For small exchanges the
//! copy is cheaper; once a direction keeps filling its buffer the pipe is. A direction whose exchanges are
//! small again for a while goes back to the copy.
//!
//! Once much has gone through the pipe, the reader is no longer woken for every few bytes: a low-water mark
//! lets some gather. That delays the last bytes of a stream that pauses, by a moment that the tunnel bounds;
//! by then the stream has lasted many times as long.

/// How bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CopyMethod {
    /// Read into a buffer, and written from it.
    #[default]
    Copy,
    /// Through a pipe, without entering the process.
    Splice,
}

/// Reads in a row that fill the buffer, after which a pipe is taken.
const FULL_READS: u8 = 2;

/// Small moves in a row after which the pipe is given back.
const SMALL_MOVES: u8 = 8;

/// Bytes below which a move through a pipe is small.
const SMALL_MOVE: usize = 16 << 10;

/// Bytes that have gone through a pipe before the low-water mark is set: a fast link takes some ten
/// milliseconds for them.
const BYTES_BEFORE_LOW_WATER: u64 = 16 << 20;

/// The low-water mark then, in bytes. A socket's buffer has room for twice as many and more.
const LOW_WATER: u32 = 512 << 10;

/// The state of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct BulkDetector {
    method: CopyMethod,
    /// In a row: reads that filled the buffer (copy), or small moves (splice).
    streak: u8,
    /// Bytes that have gone through the pipe without a pause.
    spliced: u64,
}

impl BulkDetector {
    /// The method for the next bytes.
    #[must_use]
    pub(super) fn method(&self) -> CopyMethod {
        self.method
    }

    /// How many bytes must come before the reader is woken; 1 without a mark.
    #[must_use]
    pub(super) fn low_water(&self) -> u32 {
        if self.spliced >= BYTES_BEFORE_LOW_WATER {
            LOW_WATER
        } else {
            1
        }
    }

    /// Waiting for more bytes was in vain: the stream pauses.
    pub(super) fn record_pause(&mut self) {
        self.spliced = 0;
    }

    /// Bytes were moved, of as many as there was room for.
    pub(super) fn record_move(&mut self, bytes: usize, room: usize) {
        let (counts, limit, other) = match self.method {
            CopyMethod::Copy => (bytes >= room, FULL_READS, CopyMethod::Splice),
            CopyMethod::Splice => (bytes < SMALL_MOVE, SMALL_MOVES, CopyMethod::Copy),
        };
        self.streak = if counts { self.streak + 1 } else { 0 };
        if self.method == CopyMethod::Splice {
            self.spliced = self.spliced.saturating_add(bytes as u64);
        }
        if self.streak >= limit {
            *self = Self {
                method: other,
                ..Self::default()
            };
        }
    }

    /// There is no pipe to be had, or these ends cannot use one.
    pub(super) fn fall_back_to_copy(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOM: usize = 64 << 10;

    #[test]
    fn a_direction_that_keeps_filling_its_buffer_is_spliced() {
        let mut bulk = BulkDetector::default();
        bulk.record_move(ROOM, ROOM);
        bulk.record_move(ROOM - 1, ROOM);
        bulk.record_move(ROOM, ROOM);
        assert_eq!(bulk.method(), CopyMethod::Copy, "not in a row");
        bulk.record_move(ROOM, ROOM);
        assert_eq!(bulk.method(), CopyMethod::Splice);
    }

    #[test]
    fn several_small_moves_go_back_to_the_copy_and_one_does_not() {
        let mut bulk = BulkDetector {
            method: CopyMethod::Splice,
            ..BulkDetector::default()
        };
        for _ in 0..100 {
            for _ in 1..SMALL_MOVES {
                bulk.record_move(1, ROOM);
            }
            bulk.record_move(SMALL_MOVE, ROOM);
        }
        assert_eq!(bulk.method(), CopyMethod::Splice);
        for _ in 0..SMALL_MOVES {
            bulk.record_move(SMALL_MOVE - 1, ROOM);
        }
        assert_eq!(bulk.method(), CopyMethod::Copy);
    }

    #[test]
    fn a_bulk_stream_has_a_low_water_mark_until_it_pauses() {
        let mut bulk = BulkDetector {
            method: CopyMethod::Splice,
            ..BulkDetector::default()
        };
        let moves = BYTES_BEFORE_LOW_WATER / ROOM as u64;
        for _ in 1..moves {
            bulk.record_move(ROOM, ROOM);
            assert_eq!(bulk.low_water(), 1);
        }
        bulk.record_move(ROOM, ROOM);
        assert_eq!(bulk.low_water(), LOW_WATER);
        bulk.record_pause();
        assert_eq!((bulk.low_water(), bulk.method()), (1, CopyMethod::Splice));
    }

    #[test]
    fn without_a_pipe_the_detection_starts_again() {
        let mut bulk = BulkDetector {
            method: CopyMethod::Splice,
            streak: 3,
            spliced: BYTES_BEFORE_LOW_WATER,
        };
        bulk.fall_back_to_copy();
        assert_eq!(
            (bulk.method(), bulk.streak, bulk.low_water()),
            (CopyMethod::Copy, 0, 1)
        );
    }

    proptest! {
        /// A direction that never fills its buffer never takes a pipe.
        #[test]
        fn small_moves_are_copied(sizes in prop::collection::vec(0usize..ROOM, 0..200)) {
            let mut bulk = BulkDetector::default();
            for size in sizes {
                bulk.record_move(size, ROOM);
                prop_assert_eq!(bulk.method(), CopyMethod::Copy);
            }
        }
    }
}

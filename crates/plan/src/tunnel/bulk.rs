//! By which road the bytes of one direction of a relay go on.
//!
//! To read and to write is two calls and two copies. Through a pipe (splice(2)) it is two calls and no copy of the bytes, but pages are
//! handed about one by one, and a pipe has to be had. For small exchanges the copy is cheaper; once a direction keeps filling its buffer
//! the pipe is. What is small again for a while goes back.
//!
//! Once much has gone that way, the reader is no longer woken for each little that comes: a low-water mark lets some gather. It costs the
//! last bytes of a stream that pauses some patience, a moment that the tunnel bounds; by then the stream has lasted many times as long.

/// How bytes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMethod {
    /// Read into a buffer, and written from it.
    #[default]
    Copy,
    /// Through a pipe, without a look at them.
    Splice,
}

/// Fills in a row after which a pipe is taken.
const FULL: u8 = 2;

/// Small moves in a row after which it is given back.
const SMALL: u8 = 8;

/// Bytes below which a move through a pipe is small.
const LITTLE: usize = 16 << 10;

/// Bytes that have gone through a pipe before any are left to gather: a fast link takes some ten milliseconds for them.
const MUCH: u64 = 16 << 20;

/// Bytes that are left to gather then. Twice that and more has room in a socket's buffer.
const GATHERED: u32 = 512 << 10;

/// What is known of one direction.
#[derive(Debug, Clone, Default)]
pub struct BulkDetector {
    /// The road that it is on.
    road: CopyMethod,
    /// In a row: fills of the buffer on the one road, small moves on the other.
    row: u8,
    /// Bytes that have gone through the pipe without a pause.
    gone: u64,
}

impl BulkDetector {
    /// The road for the next bytes.
    #[must_use]
    pub fn road(&self) -> CopyMethod {
        self.road
    }

    /// How many bytes are to gather before it is worth being woken for them; 1 is none.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        if self.gone >= MUCH { GATHERED } else { 1 }
    }

    /// Patience was in vain: what had come was all for now.
    pub fn paused(&mut self) {
        self.gone = 0;
    }

    /// So many bytes came, of as many as there was room for.
    pub fn moved(&mut self, bytes: usize, room: usize) {
        let (counts, limit, other) = match self.road {
            CopyMethod::Copy => (bytes >= room, FULL, CopyMethod::Splice),
            CopyMethod::Splice => (bytes < LITTLE, SMALL, CopyMethod::Copy),
        };
        self.row = if counts { self.row + 1 } else { 0 };
        if self.road == CopyMethod::Splice {
            self.gone = self.gone.saturating_add(bytes as u64);
        }
        if self.row >= limit {
            *self = Self {
                road: other,
                ..Self::default()
            };
        }
    }

    /// There is no pipe to be had, or these ends cannot use one.
    pub fn forbid(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOM: usize = 64 << 10;

    #[test]
    fn a_buffer_that_keeps_filling_wants_a_pipe() {
        let mut bulk = BulkDetector::default();
        bulk.moved(ROOM, ROOM);
        bulk.moved(ROOM - 1, ROOM);
        bulk.moved(ROOM, ROOM);
        assert_eq!(bulk.road(), CopyMethod::Copy, "not in a row");
        bulk.moved(ROOM, ROOM);
        assert_eq!(bulk.road(), CopyMethod::Splice);
    }

    #[test]
    fn what_stays_small_goes_back_and_what_is_small_once_does_not() {
        let mut bulk = BulkDetector {
            road: CopyMethod::Splice,
            ..BulkDetector::default()
        };
        for _ in 0..100 {
            for _ in 1..SMALL {
                bulk.moved(1, ROOM);
            }
            bulk.moved(LITTLE, ROOM);
        }
        assert_eq!(bulk.road(), CopyMethod::Splice);
        for _ in 0..SMALL {
            bulk.moved(LITTLE - 1, ROOM);
        }
        assert_eq!(bulk.road(), CopyMethod::Copy);
    }

    #[test]
    fn much_is_left_to_gather_until_it_pauses() {
        let mut bulk = BulkDetector {
            road: CopyMethod::Splice,
            ..BulkDetector::default()
        };
        let moves = MUCH / ROOM as u64;
        for _ in 1..moves {
            bulk.moved(ROOM, ROOM);
            assert_eq!(bulk.low_water(), 1);
        }
        bulk.moved(ROOM, ROOM);
        assert_eq!(bulk.low_water(), GATHERED);
        bulk.paused();
        assert_eq!((bulk.low_water(), bulk.road()), (1, CopyMethod::Splice));
    }

    #[test]
    fn without_a_pipe_it_begins_anew() {
        let mut bulk = BulkDetector {
            road: CopyMethod::Splice,
            row: 3,
            gone: MUCH,
        };
        bulk.forbid();
        assert_eq!(
            (bulk.road(), bulk.row, bulk.low_water()),
            (CopyMethod::Copy, 0, 1)
        );
    }

    proptest! {
        /// A direction that never fills its buffer never takes a pipe.
        #[test]
        fn chatter_is_copied(sizes in prop::collection::vec(0usize..ROOM, 0..200)) {
            let mut bulk = BulkDetector::default();
            for size in sizes {
                bulk.moved(size, ROOM);
                prop_assert_eq!(bulk.road(), CopyMethod::Copy);
            }
        }
    }
}

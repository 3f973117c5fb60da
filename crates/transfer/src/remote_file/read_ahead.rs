//! Reads of a remote file at any offset: which range to request for a read, and how far to read ahead.
//!
//! A reader from front to back should cost one request, whose body is read as far as asked: its response is open until the end of the
//! file. A reader that jumps about should cost little more than what it reads, and keep its connection: its requests are for a small
//! range each, which is read to its end. [`ReadAhead`] tells them apart. A file is taken to be read from front to back until the reader
//! jumps; from then on each request that goes on where the last one ended is twice as large, and at last open.
//!
//! The file is read in blocks. For each block that a read needs and that is not cached, [`ReadAhead::next_step`] says what to do, until the
//! block is there.

use std::ops::Range;

/// Bytes in a block. The blocks of a file begin at its multiples.
pub(super) const READ_BLOCK_BYTES: u64 = 64 << 10;

/// The smallest read-ahead, in bytes.
const MIN_WINDOW: u64 = READ_BLOCK_BYTES;

/// After this number of bytes in sequence, the rest of the file is requested.
const MAX_WINDOW: u64 = 8 << 20;

/// How many bytes of a response are read and not used in place of a new request: about what a fast link brings in the time of a round
/// trip, and less than a new connection costs.
const MAX_SKIP: u64 = 256 << 10;

/// Decides about the requests for one file.
#[derive(Debug, Clone)]
pub(super) struct ReadAhead {
    /// Bytes in the file.
    length: u64,
    /// The end of the last range that was requested.
    requested_end: u64,
    /// The bytes of that range, up to the largest window.
    window: u64,
}

/// What brings a block nearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadStep {
    /// Read the next block of the range that was requested last.
    ReadOn,
    /// Leave that range, and request this one. It begins with the block.
    Request(Range<u64>),
}

impl ReadAhead {
    /// The range of the first request, before anything is known of the file. A small file is in its response; and a reader that goes
    /// elsewhere at once can still read the rest of it, and so keep its connection.
    pub(super) const FIRST_REQUEST: Range<u64> = 0..MAX_SKIP;

    /// For a file of this length whose [first range](Self::FIRST_REQUEST) was requested.
    #[must_use]
    pub(super) fn new(length: u64) -> Self {
        Self {
            length,
            requested_end: Self::FIRST_REQUEST.end.min(length),
            // Most files are read from front to back.
            window: MAX_WINDOW,
        }
    }

    /// The next step to a block that is not cached. `wanted` begins with the block, and ends with the read. `requested` is what is still
    /// to be read of the range that was requested last, from the beginning of a block on; it is empty if nothing is.
    pub(super) fn next_step(&mut self, wanted: Range<u64>, requested: &Range<u64>) -> ReadStep {
        let skipped = wanted.start.checked_sub(requested.start);
        if requested.contains(&wanted.start) && skipped.is_some_and(|bytes| bytes <= MAX_SKIP) {
            return ReadStep::ReadOn;
        }
        let window = if wanted.start == self.requested_end {
            self.window.saturating_mul(2)
        } else {
            MIN_WINDOW
        };
        let bytes = if window >= MAX_WINDOW {
            u64::MAX
        } else {
            window.max(wanted.end.saturating_sub(wanted.start))
        };
        let end = wanted
            .start
            .saturating_add(bytes)
            .checked_next_multiple_of(READ_BLOCK_BYTES);
        let end = end.map_or(self.length, |end| end.min(self.length));
        self.requested_end = end;
        self.window = bytes.min(MAX_WINDOW);
        ReadStep::Request(wanted.start..end)
    }

    /// Whether to read the unwanted rest of a response, of this length, so that its connection can be used again.
    #[must_use]
    pub(super) fn is_worth_draining(bytes: u64) -> bool {
        bytes <= MAX_SKIP
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader without a cache.
    struct SimulatedReader {
        plan: ReadAhead,
        length: u64,
        requested: Range<u64>,
        /// Each with the read that caused it.
        requests: Vec<(Range<u64>, Range<u64>)>,
    }

    impl SimulatedReader {
        fn new(length: u64) -> Self {
            Self {
                plan: ReadAhead::new(length),
                length,
                requested: 0..ReadAhead::FIRST_REQUEST.end.min(length),
                requests: Vec::new(),
            }
        }

        /// Reads from the blocks of a range as a file does that has none of them.
        fn read(&mut self, read: Range<u64>) {
            let mut block = read.start / READ_BLOCK_BYTES * READ_BLOCK_BYTES;
            while block < read.end {
                self.read_block(block, read.clone());
                block += READ_BLOCK_BYTES;
            }
        }

        fn read_block(&mut self, wanted: u64, read: Range<u64>) {
            let mut skipped = 0;
            loop {
                match self.plan.next_step(wanted..read.end, &self.requested) {
                    ReadStep::ReadOn => {
                        let block = self.requested.start;
                        let end = block + READ_BLOCK_BYTES;
                        self.requested.start = end.min(self.requested.end);
                        if block == wanted {
                            return;
                        }
                        skipped += READ_BLOCK_BYTES;
                        assert!(block < wanted && skipped <= MAX_SKIP);
                    }
                    ReadStep::Request(range) => {
                        assert!(range.start == wanted && range.end > wanted);
                        assert!(range.end <= self.length);
                        let is_aligned = range.end.is_multiple_of(READ_BLOCK_BYTES);
                        assert!(is_aligned || range.end == self.length);
                        assert_eq!(skipped, 0, "read on in vain");
                        self.requested = range.clone();
                        self.requests.push((range, read.clone()));
                    }
                }
            }
        }

        /// Reads to the end in steps.
        fn read_on(&mut self, mut offset: u64, steps: &[u64]) {
            for step in steps.iter().cycle() {
                if offset >= self.length {
                    return;
                }
                let end = (offset + step).min(self.length);
                // A block that an earlier step has read is cached.
                let start = offset.next_multiple_of(READ_BLOCK_BYTES);
                if start < end {
                    self.read(start..end);
                }
                offset = end;
            }
        }
    }

    #[test]
    fn after_a_jump_requests_double_and_at_last_are_open() {
        let mut reader = SimulatedReader::new(1 << 40);
        let start = 1 << 30;
        for block in 0..1000 {
            let offset = start + block * READ_BLOCK_BYTES;
            reader.read(offset..offset + READ_BLOCK_BYTES);
        }
        let sizes = reader
            .requests
            .iter()
            .map(|(range, _)| range.end - range.start);
        let blocks: Vec<u64> = sizes.map(|bytes| bytes / READ_BLOCK_BYTES).collect();
        assert_eq!(blocks[..7], [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(reader.requests[7..].len(), 1);
        assert_eq!(reader.requests[7].0.end, 1 << 40);
    }

    #[test]
    fn a_jump_within_reach_reads_on_and_any_other_is_a_small_request() {
        let mut reader = SimulatedReader::new(1 << 30);
        reader.read(0..1 << 20);
        assert_eq!(reader.requests.len(), 1);
        // Near.
        reader.read((1 << 20) + MAX_SKIP..(1 << 20) + MAX_SKIP + 1);
        assert_eq!(reader.requests.len(), 1);
        // Far, and back.
        for (number, offset) in [512 << 20, 3 << 20, (3 << 20) - 100]
            .into_iter()
            .enumerate()
        {
            reader.read(offset..offset + 10);
            assert_eq!(reader.requests.len(), number + 2);
            let (range, _) = &reader.requests[number + 1];
            assert_eq!(range.end - range.start, MIN_WINDOW);
        }
    }

    #[test]
    fn a_large_read_after_a_jump_is_one_request() {
        let mut reader = SimulatedReader::new(1 << 30);
        let read = 500 << 20..530 << 20;
        reader.read(read.clone());
        assert_eq!(reader.requests, [(read.clone(), read)]);
    }

    proptest! {
        #[test]
        fn reading_from_front_to_back_costs_one_request_after_the_first(
            length in 0u64..1 << 24, steps in prop::collection::vec(4096u64..1 << 22, 1..8),
        ) {
            let mut reader = SimulatedReader::new(length);
            reader.read_on(0, &steps);
            let needed = usize::from(length > ReadAhead::FIRST_REQUEST.end);
            prop_assert_eq!(reader.requests.len(), needed);
        }

        #[test]
        fn reading_on_after_a_jump_costs_few_requests(
            offset in 0u64..1 << 20, steps in prop::collection::vec(4096u64..1 << 22, 1..8),
        ) {
            let mut reader = SimulatedReader::new(1 << 25);
            reader.read((1 << 25) - 1..1 << 25);
            reader.read_on(offset, &steps);
            prop_assert!(reader.requests.len() <= 10, "{:?}", reader.requests);
        }

        /// Every read ends, and a request that does not go on where the last one ended is no larger than needed.
        #[test]
        fn jumps_are_cheap(
            length in 1u64..1 << 40, reads in prop::collection::vec((any::<u64>(), 1u64..1 << 21, any::<bool>()), 1..40),
        ) {
            let mut reader = SimulatedReader::new(length);
            let mut last_end = 0;
            for (offset, bytes, goes_on) in reads {
                let start = if goes_on { last_end } else { offset % length };
                last_end = start.saturating_add(bytes).min(length) % length;
                reader.read(start..start.saturating_add(bytes).min(length));
            }
            let mut requested_end = ReadAhead::FIRST_REQUEST.end.min(length);
            for (range, read) in &reader.requests {
                if range.start != requested_end {
                    let needed = read.end - range.start;
                    prop_assert!(range.end - range.start < needed + MIN_WINDOW);
                }
                requested_end = range.end;
            }
        }
    }
}

//! One direction of a relay: bytes go from one stream to the other in order, and the end of the stream after them.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use super::bulk::{PipedBytes, ReadLowWater};
use super::bulk_detector::{BulkDetector, CopyMethod};
use super::stream::{RelayReader, RelayWriter};

/// Bytes that are read at once, into a buffer that all relays of a thread share.
const BUFFER: usize = 64 << 10;

/// Reads and writes before the other tasks of the thread have their turn.
const MOVES_PER_POLL: usize = 16;

thread_local! {
    /// Nothing stays in it from one call to the next.
    static BUFFER_OF_THREAD: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}

/// Why a direction cannot go on.
#[derive(Debug)]
pub(super) enum DirectionError {
    /// The stream that it reads from broke.
    Reading(io::Error),
    /// The stream that it writes to broke.
    Writing(io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectionStage {
    /// More may come.
    Flowing,
    /// All has been read. The rest is written, and the end after it.
    Ending,
    /// The end was passed on.
    Done,
}

#[derive(Debug)]
pub(super) struct RelayDirection {
    stage: DirectionStage,
    /// Read, and not taken by the other stream.
    unwritten: Bytes,
    /// The same, in a pipe.
    piped: PipedBytes,
    bulk: BulkDetector,
    low_water: ReadLowWater,
    /// Whether the other stream may hold back what was written to it.
    is_unflushed: bool,
    /// Whether the end is not passed on, since the stream was cut off.
    withholds_end: bool,
}

impl RelayDirection {
    /// A direction whose first bytes have been read already.
    pub(super) fn new(early: Bytes) -> Self {
        Self {
            stage: DirectionStage::Flowing,
            unwritten: early,
            piped: PipedBytes::default(),
            bulk: BulkDetector::default(),
            low_water: ReadLowWater::default(),
            is_unflushed: false,
            withholds_end: false,
        }
    }

    /// Whether it reads, and so would see that the stream it reads from broke.
    pub(super) fn is_reading(&self) -> bool {
        let is_held_up = !self.unwritten.is_empty() || !self.piped.is_empty();
        self.stage == DirectionStage::Flowing && !is_held_up
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == DirectionStage::Done
    }

    /// From here on what seems to be the end of the stream is not passed on.
    pub(super) fn withhold_end(&mut self) {
        self.withholds_end = true;
    }

    #[cfg(test)]
    pub(super) fn has_pipe(&self) -> bool {
        self.piped.has_pipe()
    }

    /// Moves what both streams let through, and counts it in `moved`. Ready when the end was passed on. A direction that `is_last` of the
    /// two to end need not tell that to a socket, which is closed at once.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut RelayReader<'_>,
        to: &mut RelayWriter<'_>,
        moved: &AtomicU64,
        is_last: bool,
    ) -> Poll<Result<(), DirectionError>> {
        for _ in 0..MOVES_PER_POLL {
            if self.stage == DirectionStage::Done {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_write_rest(cx, to, moved))?;
            if self.stage == DirectionStage::Ending {
                // A failure means that the peer is gone. The other direction reports that.
                if !self.withholds_end && (to.is_buffered() || !is_last) {
                    let _ = ready!(to.poll_shutdown(cx));
                }
                self.stage = DirectionStage::Done;
                continue;
            }
            let moved = match self.bulk.method() {
                CopyMethod::Copy => {
                    // A pipe of bulk that is over. It is empty by now.
                    self.piped.give_back();
                    self.poll_copy(cx, from, to, moved)
                }
                CopyMethod::Splice => self.poll_splice(cx, from, to),
            };
            match moved {
                Poll::Ready(done) => done?,
                Poll::Pending => return self.poll_flush(cx, to),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what was read before.
    fn poll_write_rest(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut RelayWriter<'_>,
        moved: &AtomicU64,
    ) -> Poll<Result<(), DirectionError>> {
        while !self.unwritten.is_empty() {
            let count =
                ready!(to.poll_write(cx, &self.unwritten)).map_err(DirectionError::Writing)?;
            self.unwritten.advance(count);
            self.wrote(to, count, moved);
        }
        // An empty `Bytes` may hold a large buffer still.
        self.unwritten = Bytes::new();
        while !self.piped.is_empty() {
            let count = ready!(self.piped.poll_drain(cx, to)).map_err(DirectionError::Writing)?;
            self.wrote(to, count, moved);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads into the thread's buffer, writes from it, and keeps what is left.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut RelayReader<'_>,
        to: &mut RelayWriter<'_>,
        moved: &AtomicU64,
    ) -> Poll<Result<(), DirectionError>> {
        BUFFER_OF_THREAD.with_borrow_mut(|buffer| {
            let read = ready!(from.poll_read(cx, buffer)).map_err(DirectionError::Reading)?;
            if read == 0 {
                self.stage = DirectionStage::Ending;
                return Poll::Ready(Ok(()));
            }
            self.bulk.record_move(read, buffer.len());
            let mut rest = &buffer[..read];
            while !rest.is_empty() {
                match to.poll_write(cx, rest) {
                    Poll::Ready(written) => {
                        let count = written.map_err(DirectionError::Writing)?;
                        rest = &rest[count..];
                        self.wrote(to, count, moved);
                    }
                    Poll::Pending => {
                        self.unwritten = Bytes::copy_from_slice(rest);
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Fills the pipe, where both streams are sockets.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut RelayReader<'_>,
        to: &mut RelayWriter<'_>,
    ) -> Poll<Result<(), DirectionError>> {
        let (RelayReader::Socket(from), RelayWriter::Socket(_)) = (from, to) else {
            self.bulk.fall_back_to_copy();
            return Poll::Ready(Ok(()));
        };
        if !self.piped.take_pipe() {
            // Copying is woken by the socket alone, and so for every byte.
            self.low_water.lower(*from);
            self.bulk.fall_back_to_copy();
            return Poll::Ready(Ok(()));
        }
        let mut filled = self.piped.poll_fill(cx, *from);
        let low_water = self.bulk.low_water();
        if filled.is_pending() && self.low_water.poll(cx, *from, low_water).is_ready() {
            // What has come so far is taken. If nothing has, the stream pauses.
            filled = self.piped.fill_now(*from);
            if filled.is_pending() {
                self.bulk.record_pause();
                self.low_water.lower(*from);
            }
        }
        let Poll::Ready(filled) = filled else {
            // Another direction may want the pipe meanwhile.
            self.piped.give_back();
            return Poll::Pending;
        };
        self.low_water.stop_waiting();
        match filled {
            Err(error) if is_not_spliceable(&error) => {
                self.low_water.lower(*from);
                self.piped.give_back();
                self.bulk.fall_back_to_copy();
                return Poll::Ready(Ok(()));
            }
            Err(error) => return Poll::Ready(Err(DirectionError::Reading(error))),
            Ok(0) => {
                self.piped.give_back();
                self.stage = DirectionStage::Ending;
            }
            Ok(count) => self.bulk.record_move(count, BUFFER),
        }
        if self.bulk.method() == CopyMethod::Copy {
            self.low_water.lower(*from);
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, to: &RelayWriter<'_>, count: usize, moved: &AtomicU64) {
        moved.fetch_add(count as u64, Ordering::Relaxed);
        self.is_unflushed = to.is_buffered();
    }

    /// Nothing more can be read for now: what was written is to arrive.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut RelayWriter<'_>,
    ) -> Poll<Result<(), DirectionError>> {
        if self.is_unflushed {
            ready!(to.poll_flush(cx)).map_err(DirectionError::Writing)?;
            self.is_unflushed = false;
        }
        Poll::Pending
    }
}

/// Whether a socket is of a kind that splice(2) does not take. Nothing was read from it then.
fn is_not_spliceable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

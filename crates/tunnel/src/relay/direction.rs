//! One direction of a relay: what comes from one end goes to the other, in order, and its end as well.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use haul_plan::tunnel::{BulkDetector, CopyMethod};

use super::end::{RelayReader, RelayWriter};
use super::extent::BodyFraming;
use super::gathering::ReadLowWater;
use super::pipe::PipedBytes;

/// Bytes that are read at once. Shared by all relays of a thread.
const ROOM: usize = 64 << 10;

/// Bytes behind a request's end that are read, and dropped. The rest waits in its socket.
const SURPLUS: usize = 1 << 20;

/// Moves before the other tasks of the thread have their turn.
const TURNS: usize = 16;

thread_local! {
    /// What is read, on its way to being written: never kept from one call to the next.
    static ROOM_OF_THREAD: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
}

/// Lends the thread's room, which costs nothing and holds nothing.
pub(crate) fn with_room<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    ROOM_OF_THREAD.with_borrow_mut(|room| use_it(room))
}

/// Why a direction cannot go on.
#[derive(Debug)]
pub(super) enum DirectionError {
    /// Where it comes from.
    Reading(io::Error),
    /// Where it goes.
    Writing(io::Error),
}

/// How far a direction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectionStage {
    /// More may come.
    Flowing,
    /// All has come; it is handed on, and the end after it.
    Ending,
    /// The other end knows of the end.
    Done,
}

/// One direction.
#[derive(Debug)]
pub(super) struct RelayDirection {
    stage: DirectionStage,
    /// Read, and not taken by the other end.
    waiting: Bytes,
    /// The same, in a pipe.
    piped: PipedBytes,
    /// Which road bytes go.
    bulk: BulkDetector,
    /// What is waited for to be worth a call.
    gathering: ReadLowWater,
    /// Whether the other end may hold back what was written.
    is_unflushed: bool,
    /// How much goes on.
    extent: BodyFraming,
    /// Whether what came before is known to be within that.
    is_measured: bool,
    /// How much came that does not.
    surplus: usize,
    /// Whether that is more than the empty lines that some clients put behind a body.
    is_followed: bool,
    /// Whether the stream was cut off, and has no end of its own.
    is_cut: bool,
}

impl RelayDirection {
    /// One whose first bytes have come.
    pub(super) fn new(early: Bytes, extent: BodyFraming) -> Self {
        Self {
            stage: DirectionStage::Flowing,
            waiting: early,
            piped: PipedBytes::default(),
            bulk: BulkDetector::default(),
            gathering: ReadLowWater::default(),
            is_unflushed: false,
            extent,
            is_measured: extent.is_all(),
            surplus: 0,
            is_followed: false,
            is_cut: false,
        }
    }

    /// Whether nobody reads now where it comes from, and so nobody would learn that it broke.
    pub(super) fn is_deaf(&self) -> bool {
        let is_sated = self.surplus >= SURPLUS;
        self.stage != DirectionStage::Flowing || is_sated || self.has_waiting()
    }

    /// Whether all that goes on has gone, whatever else may come.
    pub(super) fn is_satisfied(&self) -> bool {
        self.is_done() || self.is_measured && self.extent.is_over() && !self.has_waiting()
    }

    /// Whether somebody waits for something that will not go on.
    pub(super) fn is_followed(&self) -> bool {
        self.is_followed && self.stage == DirectionStage::Flowing
    }

    /// Nothing goes on any more, and the other end is told.
    pub(super) fn end(&mut self) {
        if self.stage == DirectionStage::Flowing {
            self.stage = DirectionStage::Ending;
        }
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.piped.is_empty()
    }

    /// What seems to be the end of its stream from here on is not passed on.
    pub(super) fn forgo_end(&mut self) {
        self.is_cut = true;
    }

    /// Whether it has a pipe now.
    #[cfg(test)]
    pub(super) fn has_pipe(&self) -> bool {
        self.piped.is_there()
    }

    /// Whether it is over.
    pub(super) fn is_done(&self) -> bool {
        self.stage == DirectionStage::Done
    }

    /// Goes on as far as both ends let it. Ready when it is over. The last of the two to come to its end need not tell that to a socket,
    /// which is closed at once.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
        moved: &AtomicU64,
        is_last: bool,
    ) -> Poll<Result<(), DirectionError>> {
        if !self.is_measured {
            self.is_measured = true;
            let early = std::mem::take(&mut self.waiting);
            let length = self.measure(&early)?;
            self.waiting = early.slice(..length);
        }
        for _ in 0..TURNS {
            if self.stage == DirectionStage::Done {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_waiting(cx, to, moved))?;
            if self.stage == DirectionStage::Ending {
                // The last need not tell: it is closed at once. A peer that is gone has nobody to be told, and its own direction says why.
                if !self.is_cut && (to.is_buffered() || !is_last) {
                    let _ = ready!(to.poll_shutdown(cx));
                }
                self.stage = DirectionStage::Done;
                continue;
            }
            if self.surplus >= SURPLUS {
                return self.poll_flush(cx, to);
            }
            let came = match self.bulk.method() {
                CopyMethod::Copy => {
                    // What was taken for bulk that is over; it is empty by now.
                    self.piped.give_back();
                    self.poll_copy(cx, (from, to), moved)
                }
                CopyMethod::Splice => self.poll_splice(cx, (from, to)),
            };
            match came {
                Poll::Ready(done) => done?,
                Poll::Pending => return self.poll_flush(cx, to),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands on what has come before.
    fn poll_waiting(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut RelayWriter<'_>,
        moved: &AtomicU64,
    ) -> Poll<Result<(), DirectionError>> {
        while !self.waiting.is_empty() {
            let wrote =
                ready!(to.poll_write(cx, &self.waiting)).map_err(DirectionError::Writing)?;
            self.waiting.advance(wrote);
            self.wrote(to, wrote, moved);
        }
        // The last of it may be a large buffer's.
        self.waiting = Bytes::new();
        while !self.piped.is_empty() {
            let wrote = ready!(self.piped.poll_empty(cx, to)).map_err(DirectionError::Writing)?;
            self.wrote(to, wrote, moved);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads into the thread's buffer, writes from it, and keeps what is left.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
        moved: &AtomicU64,
    ) -> Poll<Result<(), DirectionError>> {
        with_room(|room| {
            let read = ready!(from.poll_read(cx, room)).map_err(DirectionError::Reading)?;
            if read == 0 {
                self.stage = DirectionStage::Ending;
                return Poll::Ready(Ok(()));
            }
            let mut rest = match self.extent.is_all() {
                true => {
                    self.bulk.record_move(read, room.len());
                    &room[..read]
                }
                false => &room[..self.measure(&room[..read])?],
            };
            while !rest.is_empty() {
                match to.poll_write(cx, rest) {
                    Poll::Ready(wrote) => {
                        let wrote = wrote.map_err(DirectionError::Writing)?;
                        rest = &rest[wrote..];
                        self.wrote(to, wrote, moved);
                    }
                    Poll::Pending => {
                        self.waiting = Bytes::copy_from_slice(rest);
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Fills the pipe, where both ends can use one.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
    ) -> Poll<Result<(), DirectionError>> {
        let (RelayReader::Socket(from), RelayWriter::Socket(_)) = (from, to) else {
            self.bulk.fall_back_to_copy();
            return Poll::Ready(Ok(()));
        };
        if !self.piped.get_ready() {
            // Whoever copies is woken by the system alone, and so for every byte.
            self.gathering.end(*from);
            self.bulk.fall_back_to_copy();
            return Poll::Ready(Ok(()));
        }
        let mut came = self.piped.poll_fill(cx, *from);
        if came.is_pending()
            && self
                .gathering
                .poll(cx, *from, self.bulk.low_water())
                .is_ready()
        {
            // It is taken as it is. If there is nothing, the stream has paused.
            came = self.piped.fill_now(*from);
            if came.is_pending() {
                self.bulk.record_pause();
                self.gathering.end(*from);
            }
        }
        let Poll::Ready(came) = came else {
            // Somebody else may want it meanwhile.
            self.piped.give_back();
            return Poll::Pending;
        };
        self.gathering.came();
        match came {
            Err(error) if is_unfit(&error) => {
                self.gathering.end(*from);
                self.piped.give_back();
                self.bulk.fall_back_to_copy();
                return Poll::Ready(Ok(()));
            }
            came => self.filled(came.map_err(DirectionError::Reading)?),
        }
        if self.bulk.method() == CopyMethod::Copy {
            self.gathering.end(*from);
        }
        Poll::Ready(Ok(()))
    }

    fn filled(&mut self, bytes: usize) {
        match bytes {
            0 => {
                self.piped.give_back();
                self.stage = DirectionStage::Ending;
            }
            came => self.bulk.record_move(came, ROOM),
        }
    }

    /// How many of these bytes go on. What comes behind the last that does is nobody's, and no end of the stream: peers that see one
    /// while they answer may think that nobody listens any more.
    fn measure(&mut self, bytes: &[u8]) -> Result<usize, DirectionError> {
        let length = self.extent.take(bytes).map_err(DirectionError::Reading)?;
        let more = &bytes[length..];
        self.surplus = self.surplus.saturating_add(more.len());
        self.is_followed |= more.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
        Ok(length)
    }

    fn wrote(&mut self, to: &RelayWriter<'_>, bytes: usize, moved: &AtomicU64) {
        moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.is_unflushed = to.is_buffered();
    }

    /// Nothing more comes for now: what was written is to arrive.
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

/// Whether a socket is of a kind that has nothing to do with pipes: it has kept what it had.
fn is_unfit(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

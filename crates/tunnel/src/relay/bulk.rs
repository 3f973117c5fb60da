//! What a direction uses while it moves bulk: a pipe, through which bytes go from socket to socket without a copy (splice(2)), and a
//! low-water mark, so that its reader is not woken for every packet.
//!
//! A pipe is two descriptors, and most directions are idle most of the time. So a direction has a pipe only while bytes come, and gives it
//! back in a pause to a few that are kept. There is a limit on all pipes together; a direction that gets none copies.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use tokio::io::Interest;
use tokio::time::{Instant, Sleep, sleep_until};

use super::socket::RelaySocket;
use super::stream::RelayWriter;

/// The size of a pipe in bytes. All pipes of a user share a quota (pipe(7)); this times [`MAX_PIPES`] is half of it.
const PIPE_SIZE: usize = 256 << 10;

/// Bytes below which a pipe is not worth having: pipes above the quota get two pages.
const SMALLEST_PIPE: usize = 64 << 10;

/// Bytes that one call moves at most.
const MAX_SPLICE: usize = 1 << 20;

/// Pipes at one time.
const MAX_PIPES: usize = 128;

/// Descriptors that all pipes together have at most.
pub const MAX_PIPE_DESCRIPTORS: u64 = 2 * MAX_PIPES as u64;

/// Unused pipes that are kept for the next direction.
const MAX_UNUSED_PIPES: usize = 16;

/// How long bytes that have come wait for more at most.
const LOW_WATER_TIMEOUT: Duration = Duration::from_millis(1);

static PIPE_COUNT: AtomicUsize = AtomicUsize::new(0);

static UNUSED_PIPES: Mutex<Vec<SplicePipe>> = Mutex::new(Vec::new());

/// A pipe. It is empty when it is given back.
#[derive(Debug)]
struct SplicePipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl SplicePipe {
    /// An unused pipe, or a new one; none if there are too many.
    fn take() -> Option<Self> {
        let unused = UNUSED_PIPES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        unused.or_else(Self::new)
    }

    fn new() -> Option<Self> {
        if PIPE_COUNT.fetch_add(1, Ordering::Relaxed) >= MAX_PIPES {
            PIPE_COUNT.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Ok((reader, writer)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
            PIPE_COUNT.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let pipe = Self { reader, writer };
        // Above the quota it keeps its size.
        let _ = fcntl_setpipe_size(&pipe.writer, PIPE_SIZE);
        fcntl_getpipe_size(&pipe.writer)
            .is_ok_and(|size| size >= SMALLEST_PIPE)
            .then_some(pipe)
    }

    fn give_back(self) {
        let mut unused = UNUSED_PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MAX_UNUSED_PIPES {
            unused.push(self);
        }
    }
}

impl Drop for SplicePipe {
    fn drop(&mut self) {
        PIPE_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes that one direction has in a pipe.
#[derive(Debug, Default)]
pub(super) struct PipedBytes {
    pipe: Option<SplicePipe>,
    count: usize,
}

impl PipedBytes {
    /// Makes sure that there is a pipe; false if none is to be had.
    pub(super) fn take_pipe(&mut self) -> bool {
        if self.pipe.is_none() {
            self.pipe = SplicePipe::take();
        }
        self.pipe.is_some()
    }

    #[cfg(test)]
    pub(super) fn has_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Fills the empty pipe from a socket; 0 is the end of the stream. An empty pipe has room, so a call that would wait waits for the
    /// socket.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        from: RelaySocket<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(pipe) = &self.pipe else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        // How much it moves does not tell whether the socket is empty: the pipe may have no more slots. So there is no `most`.
        let filled = from.poll_call(cx, Interest::READABLE, 0, |fd| {
            splice(fd, None, &pipe.writer, None, MAX_SPLICE, flags)
        });
        self.count = ready!(filled)?;
        Poll::Ready(Ok(self.count))
    }

    /// The same, without asking the runtime whether anything has come.
    pub(super) fn fill_now(&mut self, from: RelaySocket<'_>) -> Poll<io::Result<usize>> {
        let Some(pipe) = &self.pipe else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(from.fd(), None, &pipe.writer, None, MAX_SPLICE, flags) {
            Ok(count) => {
                self.count = count;
                Poll::Ready(Ok(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Writes some of what is in the pipe to a socket.
    pub(super) fn poll_drain(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut RelayWriter<'_>,
    ) -> Poll<io::Result<usize>> {
        let (Some(pipe), RelayWriter::Socket(to)) = (&self.pipe, to) else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let count = self.count;
        let drained = ready!(to.poll_call(cx, Interest::WRITABLE, 0, |fd| {
            splice(&pipe.reader, None, fd, None, count, flags)
        }))?;
        if drained == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.count -= drained;
        Poll::Ready(Ok(drained))
    }

    /// Leaves the pipe to others. A pipe that is not empty is closed.
    pub(super) fn give_back(&mut self) {
        if let Some(pipe) = self.pipe.take()
            && std::mem::take(&mut self.count) == 0
        {
            pipe.give_back();
        }
    }
}

impl Drop for PipedBytes {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The low-water mark of the socket that a direction reads from (`SO_RCVLOWAT`).
///
/// The kernel wakes the reader when that much has come, at the end of the stream, and for an error. For all else there is a timer: when it
/// runs out, what has come is taken as it is, and if nothing has, the mark goes down again.
#[derive(Debug, Default)]
pub(super) struct ReadLowWater {
    /// The mark that the kernel has; 0 means that it was never set, which is as good as 1.
    mark: u32,
    /// Made when it is first needed.
    timer: Option<Pin<Box<Sleep>>>,
    is_timer_running: bool,
}

impl ReadLowWater {
    /// Lets up to `mark` bytes gather. Ready when they have taken too long.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: RelaySocket<'_>,
        mark: u32,
    ) -> Poll<()> {
        if mark <= 1 {
            return Poll::Pending;
        }
        self.set(from, mark);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now())));
        if !self.is_timer_running {
            self.is_timer_running = true;
            timer.as_mut().reset(Instant::now() + LOW_WATER_TIMEOUT);
        }
        timer.as_mut().poll(cx)
    }

    /// Bytes have come.
    pub(super) fn stop_waiting(&mut self) {
        self.is_timer_running = false;
    }

    /// Has the reader woken for every byte again.
    pub(super) fn lower(&mut self, from: RelaySocket<'_>) {
        self.is_timer_running = false;
        if self.mark > 1 {
            self.set(from, 1);
        }
    }

    fn set(&mut self, from: RelaySocket<'_>, mark: u32) {
        if self.mark != mark {
            self.mark = mark;
            // Where it cannot be set the reader is woken more often, which does no harm.
            let _ = haul_net::set_low_water(from.fd(), mark);
        }
    }
}

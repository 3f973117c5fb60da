//! Pipes of Linux.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use tokio::io::Interest;

use crate::relay::end::RelayWriter;
use crate::relay::socket::RelaySocket;

/// Bytes that a pipe is asked to hold. A user's pipes have a quota in common (pipe(7)), of which this times [`MOST`] is half.
const ROOM: usize = 256 << 10;

/// Bytes below which a pipe is not worth having: those above the quota get two pages.
const LEAST: usize = 64 << 10;

/// Bytes that one call moves at most.
const AT_ONCE: usize = 1 << 20;

/// Pipes at one time, two descriptors each.
const MOST: usize = 128;

/// Descriptors that all pipes together have at most.
pub const MAX_PIPE_DESCRIPTORS: u64 = 2 * MOST as u64;

/// Pipes that are kept for the next who wants one.
const KEPT: usize = 16;

/// How many there are.
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// Those that nobody uses.
static FREE: Mutex<Vec<SplicePipe>> = Mutex::new(Vec::new());

/// A pipe. Empty, when it is given back.
#[derive(Debug)]
struct SplicePipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl SplicePipe {
    /// One that is free, or a new one, unless there are too many.
    fn take() -> Option<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.or_else(Self::new)
    }

    fn new() -> Option<Self> {
        if PIPES.fetch_add(1, Ordering::Relaxed) >= MOST {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Ok((reader, writer)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let pipe = Self { reader, writer };
        // Over the quota it stays as it is.
        let _ = fcntl_setpipe_size(&pipe.writer, ROOM);
        fcntl_getpipe_size(&pipe.writer)
            .is_ok_and(|room| room >= LEAST)
            .then_some(pipe)
    }

    fn give_back(self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(self);
        }
    }
}

impl Drop for SplicePipe {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one direction has in a pipe.
#[derive(Debug, Default)]
pub(in crate::relay) struct PipedBytes {
    pipe: Option<SplicePipe>,
    /// Bytes in it.
    held: usize,
}

impl PipedBytes {
    /// Gets a pipe; false if there is none to be had.
    pub(in crate::relay) fn get_ready(&mut self) -> bool {
        if self.pipe.is_none() {
            self.pipe = SplicePipe::take();
        }
        self.pipe.is_some()
    }

    /// Whether there is a pipe.
    #[cfg(test)]
    pub(in crate::relay) fn is_there(&self) -> bool {
        self.pipe.is_some()
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Fills it, being empty, from a socket; 0 is the end of the stream. An empty pipe has room: what would have to wait is the socket.
    pub(in crate::relay) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        from: RelaySocket<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(pipe) = &self.pipe else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        // How much it took says nothing of how much there is: the pipe may have no more slots.
        let came = std::task::ready!(from.poll_call(cx, (Interest::READABLE, 0), |fd| {
            splice(fd, None, &pipe.writer, None, AT_ONCE, flags)
        }))?;
        self.held = came;
        Poll::Ready(Ok(came))
    }

    /// The same, whether the runtime knows of anything there or not.
    pub(in crate::relay) fn fill_now(&mut self, from: RelaySocket<'_>) -> Poll<io::Result<usize>> {
        let Some(pipe) = &self.pipe else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(from.fd(), None, &pipe.writer, None, AT_ONCE, flags) {
            Ok(came) => {
                self.held = came;
                Poll::Ready(Ok(came))
            }
            Err(Errno::AGAIN | Errno::INTR) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Hands on what is in it, or some of it.
    pub(in crate::relay) fn poll_empty(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut RelayWriter<'_>,
    ) -> Poll<io::Result<usize>> {
        let (Some(pipe), RelayWriter::Socket(to)) = (&self.pipe, to) else {
            return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
        };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let held = self.held;
        let went = std::task::ready!(to.poll_call(cx, (Interest::WRITABLE, 0), |fd| {
            splice(&pipe.reader, None, fd, None, held, flags)
        }))?;
        if went == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.held -= went;
        Poll::Ready(Ok(went))
    }

    /// Leaves the pipe to others. One that is not empty is nobody's any more.
    pub(in crate::relay) fn give_back(&mut self) {
        if let Some(pipe) = self.pipe.take()
            && std::mem::take(&mut self.held) == 0
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

//! A TCP stream whose reader may say how much is worth being woken for.
//!
//! A peer on a fast link sends small pieces, and each wakes the reader: it reads sixteen kilobytes, finds nothing more and
//! sleeps again, tens of thousands of times a second, on a processor that the next piece needs. With a low-water mark
//! (`SO_RCVLOWAT`) the kernel wakes it when enough has come. Bytes below the mark are still handed out when asked for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The mark that a reader wishes for, in bytes; whoever holds a clone can move it. The stream obeys at its next read.
#[derive(Debug, Clone)]
pub struct LowWater(Arc<AtomicU32>);

impl LowWater {
    /// Moves the mark; 1 is to be woken for every byte.
    pub fn set(&self, bytes: u32) {
        self.0.store(bytes.max(1), Ordering::Relaxed);
    }

    /// Where the mark is.
    #[must_use]
    pub fn current(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// TCP with a [`LowWater`] mark.
#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
    /// Where the reader wants the mark.
    wanted: LowWater,
    /// Where the kernel has it.
    set: u32,
}

impl Tcp {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            wanted: LowWater(Arc::new(AtomicU32::new(1))),
            set: 1,
        }
    }

    pub(super) fn low_water(&self) -> LowWater {
        self.wanted.clone()
    }

    /// Tells the kernel where the mark is now wanted. Not to be heard is no harm: then the reader is woken more often.
    fn obey(&mut self) {
        let wanted = self.wanted.current();
        if wanted == self.set {
            return;
        }
        self.set = wanted;
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsFd;
            let _ = super::sys::set_low_water(self.stream.as_fd(), wanted);
        }
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = self.get_mut();
        tcp.obey();
        Pin::new(&mut tcp.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

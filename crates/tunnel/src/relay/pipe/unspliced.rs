//! Systems without splice(2): no direction ever gets a pipe.

use std::io;
use std::task::{Context, Poll};

use crate::relay::end::Sink;
use crate::relay::socket::Socket;

/// There are no pipes.
pub const FILES: u64 = 0;

/// What one direction has in a pipe: nothing.
#[derive(Debug, Default)]
pub(in crate::relay) struct PipedBytes;

impl PipedBytes {
    /// There is none to be had.
    pub(in crate::relay) fn get_ready(&mut self) -> bool {
        false
    }

    #[cfg(test)]
    pub(in crate::relay) fn is_there(&self) -> bool {
        false
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        true
    }

    pub(in crate::relay) fn poll_fill(
        &mut self,
        _: &mut Context<'_>,
        _: Socket<'_>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    pub(in crate::relay) fn fill_now(&mut self, _: Socket<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    pub(in crate::relay) fn poll_empty(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Sink<'_>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    pub(in crate::relay) fn give_back(&mut self) {}
}

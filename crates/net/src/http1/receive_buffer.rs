//! Bytes that were received and not used yet.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::coop::unconstrained;

/// The least that a read has room for: a head and a small file.
const MIN_READ: usize = 8 * 1024;

/// The most that a read has room for.
const MAX_READ: usize = 256 * 1024;

/// What was received. The size of a read grows while reads fill it and shrinks when two in a row leave half of it empty, so that a
/// small response costs no more than its bytes and a fast link few system calls.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    pub(super) bytes: BytesMut,
    read_size: usize,
    was_half_empty: bool,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self {
            bytes: BytesMut::new(),
            read_size: MIN_READ,
            was_half_empty: false,
        }
    }
}

impl ReceiveBuffer {
    /// Reads more; 0 is the end of the stream.
    pub(super) fn poll_fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.capacity() - self.bytes.len() < self.read_size {
            self.bytes.reserve(self.read_size);
        }
        // This future has no state.
        let count = std::task::ready!(pin!(stream.read_buf(&mut self.bytes)).poll(cx))?;
        self.resize(count);
        Poll::Ready(Ok(count))
    }

    fn resize(&mut self, count: usize) {
        let is_half_empty = count < self.read_size / 2;
        if count >= self.read_size {
            self.read_size = (self.read_size * 2).min(MAX_READ);
        } else if is_half_empty && self.was_half_empty {
            self.read_size = (self.read_size / 2).max(MIN_READ);
        }
        self.was_half_empty = is_half_empty;
    }

    /// Gives a large buffer back. One for small responses is soon used again.
    pub(super) fn release(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > MIN_READ {
            self.bytes = BytesMut::new();
        }
    }

    /// Whether there is nothing here, and nothing to be read: neither bytes nor an end.
    pub(super) fn is_silent(&self, stream: &mut (impl AsyncRead + Unpin)) -> bool {
        let mut byte = [0];
        let read = pin!(unconstrained(stream.read(&mut byte)));
        // A task that has done much in this turn would be told to wait, and see nothing.
        self.bytes.is_empty()
            && read
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_read_follows_what_arrives() {
        let mut buffer = ReceiveBuffer::default();
        let mut sizes = |counts: &[usize]| {
            counts.iter().for_each(|count| buffer.resize(*count));
            buffer.read_size
        };
        assert_eq!(sizes(&[MIN_READ - 1]), MIN_READ);
        assert_eq!(sizes(&[MIN_READ]), 2 * MIN_READ);
        assert_eq!(sizes(&[MAX_READ; 20]), MAX_READ);
        assert_eq!(sizes(&[9, MAX_READ / 2, 9]), MAX_READ, "not in a row");
        assert_eq!(sizes(&[9]), MAX_READ / 2);
        assert_eq!(sizes(&[9; 20]), MIN_READ);
    }
}

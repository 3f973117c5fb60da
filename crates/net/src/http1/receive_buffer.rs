//! Bytes that were received and not used yet.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// The room that a read has at least: a head and a small file.
const MIN_READ: usize = 8 * 1024;

/// The room that a read has at most.
const MAX_READ: usize = 512 * 1024;

/// What was received. The room of a read grows while reads fill it and shrinks when two in a row leave half of it empty, so that a
/// small response costs no more than its bytes and a fast link few system calls.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    pub(super) bytes: BytesMut,
    room: usize,
    was_half_empty: bool,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self {
            bytes: BytesMut::new(),
            room: MIN_READ,
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
        if self.bytes.capacity() - self.bytes.len() < self.room {
            self.bytes.reserve(self.room);
        }
        // This future has no state.
        let count = std::task::ready!(pin!(stream.read_buf(&mut self.bytes)).poll(cx))?;
        self.resize(count);
        Poll::Ready(Ok(count))
    }

    fn resize(&mut self, count: usize) {
        let is_half_empty = count < self.room / 2;
        if count >= self.room {
            self.room = (self.room * 2).min(MAX_READ);
        } else if is_half_empty && self.was_half_empty {
            self.room = (self.room / 2).max(MIN_READ);
        }
        self.was_half_empty = is_half_empty;
    }

    /// Whether there is nothing here, and nothing to be read: neither bytes nor an end.
    pub(super) fn is_silent(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> bool {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        self.bytes.is_empty() && Pin::new(stream).poll_read(cx, &mut byte).is_pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_follows_what_arrives() {
        let mut buffer = ReceiveBuffer::default();
        let mut rooms = |counts: &[usize]| {
            counts.iter().for_each(|count| buffer.resize(*count));
            buffer.room
        };
        assert_eq!(rooms(&[MIN_READ - 1]), MIN_READ);
        assert_eq!(rooms(&[MIN_READ]), 2 * MIN_READ);
        assert_eq!(rooms(&[MAX_READ; 20]), MAX_READ);
        assert_eq!(rooms(&[9, MAX_READ / 2, 9]), MAX_READ, "not in a row");
        assert_eq!(rooms(&[9]), MAX_READ / 2);
        assert_eq!(rooms(&[9; 20]), MIN_READ);
    }
}

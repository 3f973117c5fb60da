//! Reads a range of a file chunk by chunk, for connections where the kernel cannot send it.
//!
//! A chunk in memory is read at once; otherwise it is read on a blocking thread, and the body is
//! pending until then. Buffers return when their chunk has been sent, so a long body uses two or
//! three and allocates no more.
//!
//! A file may be written to in place while it is read, and the bytes sent by then belong to no
//! version. So after reading the last chunk the reader checks whether the file is still the one
//! that the response's head describes. If not, it withholds that chunk, and the client sees that
//! the response is incomplete. File times come from a clock that ticks every few milliseconds: a
//! second write within a tick goes unnoticed.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::store::{DiskThreads, OpenObject};

/// Bytes of a chunk: several TLS records, and few enough that a thousand slow readers fit into
/// memory.
const CHUNK: usize = 128 << 10;

/// A read on a blocking thread.
type PendingRead = Pin<Box<dyn Future<Output = (Vec<u8>, io::Result<usize>)> + Send>>;

pub(crate) struct FileRangeReader {
    /// The version to read.
    object: Arc<OpenObject>,
    /// The threads that may block.
    disk: DiskThreads,
    /// The range that is still to be read.
    remaining: Range<u64>,
    /// A read that waits for the disk.
    pending_read: Option<PendingRead>,
    /// Buffers to use again.
    free_buffers: FreeBuffers,
}

/// Buffers that have returned.
type FreeBuffers = Arc<Mutex<Vec<Vec<u8>>>>;

/// A chunk; its buffer returns when it is dropped.
struct PooledChunk {
    buffer: Vec<u8>,
    len: usize,
    free_buffers: FreeBuffers,
}

impl AsRef<[u8]> for PooledChunk {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for PooledChunk {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut free_buffers = self
            .free_buffers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free_buffers.push(buffer);
    }
}

impl fmt::Debug for FileRangeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("object", &self.object)
            .field("rest", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl FileRangeReader {
    pub(crate) fn new(object: Arc<OpenObject>, disk: DiskThreads, range: Range<u64>) -> Self {
        Self {
            object,
            disk,
            remaining: range,
            pending_read: None,
            free_buffers: FreeBuffers::default(),
        }
    }

    /// Bytes still to come.
    pub(crate) fn remaining_len(&self) -> u64 {
        self.remaining.end - self.remaining.start
    }

    /// The next chunk; must not be called when nothing is left.
    ///
    /// # Errors
    /// The disk's error, or that the file was truncated or replaced (row D13).
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let (buffer, read) = match &mut self.pending_read {
            Some(pending) => ready!(pending.as_mut().poll(cx)),
            None => match self.try_read() {
                Ok(done) => done,
                Err(mut buffer) => {
                    let (object, rest, len) = (
                        Arc::clone(&self.object),
                        self.remaining.clone(),
                        self.next_len(),
                    );
                    let mut pending: PendingRead = Box::pin(self.disk.run(move || {
                        let read = object.read(&mut buffer[..len], rest.start);
                        let read = read.and_then(|read| check_at_end(&object, &rest, read));
                        (buffer, read)
                    }));
                    let done = pending.as_mut().poll(cx);
                    self.pending_read = Some(pending);
                    ready!(done)
                }
            },
        };
        self.pending_read = None;
        let len = read?;
        if len == 0 {
            let text = "the file shrank while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        self.remaining.start += len as u64;
        Poll::Ready(Ok(Bytes::from_owner(PooledChunk {
            buffer,
            len,
            free_buffers: Arc::clone(&self.free_buffers),
        })))
    }

    /// Reads what is in memory; returns the buffer if the bytes are not there.
    fn try_read(&mut self) -> Result<(Vec<u8>, io::Result<usize>), Vec<u8>> {
        let len = self.next_len();
        let mut buffer = self.buffer();
        match self
            .object
            .try_read(&mut buffer[..len], self.remaining.start)
        {
            // Checking an open file whose pages are in memory does not block.
            Ok(Some(read)) => Ok((buffer, check_at_end(&self.object, &self.remaining, read))),
            Ok(None) => Err(buffer),
            Err(error) => Ok((buffer, Err(error))),
        }
    }

    /// Bytes of the next chunk.
    fn next_len(&self) -> usize {
        usize::try_from(self.remaining_len()).map_or(CHUNK, |left| left.min(CHUNK))
    }

    fn buffer(&self) -> Vec<u8> {
        let free_buffers = self
            .free_buffers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free_buffers.unwrap_or_else(|| vec![0; self.next_len()])
    }
}

/// Checks that the file is unchanged, if the read reached the end of the range.
fn check_at_end(object: &OpenObject, rest: &Range<u64>, read: usize) -> io::Result<usize> {
    if read as u64 == rest.end - rest.start {
        object.check_unchanged()?;
    }
    Ok(read)
}

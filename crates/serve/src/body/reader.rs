//! A range of a file, read piece by piece: the road for connections whose bytes this process must touch.
//!
//! A piece that is in memory is read at once; one that is not is read on a thread that may wait, and until then the body is not ready. Buffers
//! come back when their piece has been sent, so that a long body uses two or three and no fresh memory.
//!
//! A file may be written to in place while it is read, and what was sent by then is of no version at all. So behind the last piece it is
//! looked at whether the file is still what the answer's head said; if not, that piece is not given, and the client sees that something
//! is missing. Times of files are those of a clock that ticks every few milliseconds: what is written twice within a tick is not seen.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::store::{DiskThreads, OpenObject};

/// Bytes of a piece: several records of TLS, and few enough that a thousand slow readers fit into memory.
const PIECE: usize = 128 << 10;

/// A read that waits.
type PendingRead = Pin<Box<dyn Future<Output = (Vec<u8>, io::Result<usize>)> + Send>>;

/// A range of a file.
pub(crate) struct FileRangeReader {
    /// The version that is read.
    object: Arc<OpenObject>,
    /// Where reading may wait.
    disk: DiskThreads,
    /// What is still to come.
    rest: Range<u64>,
    /// A read that waits for the disk.
    waiting: Option<PendingRead>,
    /// Buffers that are free.
    free: FreeBuffers,
}

/// Buffers that came back.
type FreeBuffers = Arc<Mutex<Vec<Vec<u8>>>>;

/// A piece; its buffer comes back when it is dropped.
struct PooledChunk {
    buffer: Vec<u8>,
    len: usize,
    free: FreeBuffers,
}

impl AsRef<[u8]> for PooledChunk {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for PooledChunk {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(buffer);
    }
}

impl fmt::Debug for FileRangeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("object", &self.object)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl FileRangeReader {
    /// Reads a range of a version.
    pub(crate) fn new(object: Arc<OpenObject>, disk: DiskThreads, range: Range<u64>) -> Self {
        Self {
            object,
            disk,
            rest: range,
            waiting: None,
            free: FreeBuffers::default(),
        }
    }

    /// Bytes still to come.
    pub(crate) fn left(&self) -> u64 {
        self.rest.end - self.rest.start
    }

    /// The next piece; not to be asked for when none is left.
    ///
    /// # Errors
    /// What the disk says; that the file has fewer bytes than it had, or is another than it was (row D13).
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let (buffer, read) = match &mut self.waiting {
            Some(waiting) => ready!(waiting.as_mut().poll(cx)),
            None => match self.read_now() {
                Ok(done) => done,
                Err(mut buffer) => {
                    let (object, rest, len) =
                        (Arc::clone(&self.object), self.rest.clone(), self.next_len());
                    let mut waiting: PendingRead = Box::pin(self.disk.run(move || {
                        let read = object.read(&mut buffer[..len], rest.start);
                        let read = read.and_then(|read| looked(&object, &rest, read));
                        (buffer, read)
                    }));
                    let done = waiting.as_mut().poll(cx);
                    self.waiting = Some(waiting);
                    ready!(done)
                }
            },
        };
        self.waiting = None;
        let len = read?;
        if len == 0 {
            let text = "the file has become shorter while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        self.rest.start += len as u64;
        Poll::Ready(Ok(Bytes::from_owner(PooledChunk {
            buffer,
            len,
            free: Arc::clone(&self.free),
        })))
    }

    /// Reads what is in memory; gives the buffer back if that is not enough.
    fn read_now(&mut self) -> Result<(Vec<u8>, io::Result<usize>), Vec<u8>> {
        let len = self.next_len();
        let mut buffer = self.buffer();
        match self.object.try_read(&mut buffer[..len], self.rest.start) {
            // What is open and in memory is looked at without waiting.
            Ok(Some(read)) => Ok((buffer, looked(&self.object, &self.rest, read))),
            Ok(None) => Err(buffer),
            Err(error) => Ok((buffer, Err(error))),
        }
    }

    /// Bytes of the next piece.
    fn next_len(&self) -> usize {
        usize::try_from(self.left()).map_or(PIECE, |left| left.min(PIECE))
    }

    fn buffer(&self) -> Vec<u8> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.unwrap_or_else(|| vec![0; self.next_len()])
    }
}

/// Looks at the object, if what was read of it is all of the rest.
fn looked(object: &OpenObject, rest: &Range<u64>, read: usize) -> io::Result<usize> {
    if read as u64 == rest.end - rest.start {
        object.check_unchanged()?;
    }
    Ok(read)
}

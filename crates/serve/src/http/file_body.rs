//! The roads that a file's bytes take: read in one go, sent by the kernel, or read piece by piece.
//!
//! Which one depends on the connection and on how much is wanted. What is read in one go belongs to the version that was opened a moment before,
//! and is not looked at again: a look costs half a microsecond, of the ten or so that a small answer takes. Everything longer is looked at before its
//! last bytes leave: by a [`FileRangeReader`], or by the wire where the kernel sends it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::body::{BodyChunk, FileRangeReader, ServeBody};
use crate::connection::ConnectionState;
use crate::sendfile::MappedBody;
use crate::store::OpenObject;

/// Bytes up to which a body goes out with its head in one call: two copies of so little cost less than a second call.
const LITTLE: u64 = 8 << 10;

/// Bytes up to which a body that cannot be sent by the kernel is read as one piece.
const SMALL: u64 = 64 << 10;

/// How ranges of one file are sent on one connection.
#[derive(Debug)]
pub(super) struct RangeResponses<'a> {
    line: &'a ConnectionState,
    object: &'a Arc<OpenObject>,
    /// Where the kernel sends it.
    mapped: Option<Arc<MappedBody>>,
    /// Bytes of all ranges.
    total: u64,
}

impl<'a> RangeResponses<'a> {
    /// For `total` bytes of an object.
    pub(super) fn new(line: &'a ConnectionState, object: &'a Arc<OpenObject>, total: u64) -> Self {
        // What even a look at may wait for is read where waiting is allowed.
        let ledger = line
            .lends()
            .filter(|_| total > LITTLE && !object.is_remote());
        // Without room for a mapping it is read, as it is everywhere else.
        let mapped = ledger.and_then(|ledger| {
            let mapped = MappedBody::new(Arc::clone(object))?;
            ledger.lend(&mapped);
            Some(mapped)
        });
        Self {
            line,
            object,
            mapped,
            total,
        }
    }

    /// A body that is one range.
    pub(super) fn whole(&mut self, range: Range<u64>) -> ServeBody {
        match self.piece(range) {
            BodyChunk::Bytes(bytes) => ServeBody::Whole(bytes),
            piece => ServeBody::pieces(std::iter::once(piece)),
        }
    }

    /// A range.
    pub(super) fn piece(&mut self, range: Range<u64>) -> BodyChunk {
        if range.is_empty() {
            return BodyChunk::Bytes(Bytes::new());
        }
        if let Some(slice) = self
            .mapped
            .as_ref()
            .and_then(|mapped| mapped.slice(range.clone()))
        {
            return BodyChunk::Bytes(slice);
        }
        if self.total <= SMALL
            && let Some(bytes) = self.read_now(&range)
        {
            return BodyChunk::Bytes(bytes);
        }
        self.reader(range)
    }

    fn reader(&self, range: Range<u64>) -> BodyChunk {
        BodyChunk::Reader(Box::new(FileRangeReader::new(
            Arc::clone(self.object),
            self.line.server.disk.clone(),
            range,
        )))
    }

    /// All of a range, if it is in memory.
    fn read_now(&self, range: &Range<u64>) -> Option<Bytes> {
        let len = usize::try_from(range.end - range.start).ok()?;
        let mut buffer = vec![0; len];
        let read = self.object.try_read(&mut buffer, range.start).ok()??;
        // Less would be a file that has become shorter: its reader says so.
        (read == len).then(|| buffer.into())
    }
}

//! The roads that a file's bytes take: read in one go, sent by the kernel, or read piece by piece.
//!
//! Which one depends on the connection and on how much is wanted. What goes out at once, read in one go or handed to the kernel before anything else
//! can happen, belongs to the version that was opened a moment before, and is not looked at again: a look costs half a microsecond, of the
//! ten or so that a small answer takes. Everything longer ends with a [`Reader`], which looks whether the file is still that version.
//!
//! The kernel sends pages and no copies of them. What is written to a file while its bytes wait in a socket's buffer is sent, too, and a look cannot
//! come behind that: nobody learns of what is written once the last bytes are on their way.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::body::{Body, Piece, Reader};
use crate::conn::Line;
use crate::sendfile::Mapped;
use crate::store::Object;

/// Bytes up to which a body goes out with its head in one call: two copies of so little cost less than a second call.
const LITTLE: u64 = 8 << 10;

/// Bytes up to which a body that cannot be sent by the kernel is read as one piece.
const SMALL: u64 = 64 << 10;

/// Bytes that hyper takes before it sends the first of them. A look behind so few would be one before them all.
const AT_ONCE: u64 = 256 << 10;

/// Bytes at the end of more than that which are read, and not sent by the kernel: a look at the file goes with them.
const END: u64 = 4 << 10;

#[derive(Debug)]
/// How ranges of one file are sent on one connection.
pub(super) struct Roads<'a> {
    line: &'a Line,
    object: &'a Arc<Object>,
    /// Where the kernel sends it.
    mapped: Option<Arc<Mapped>>,
    /// Bytes of all ranges.
    total: u64,
}

impl<'a> Roads<'a> {
    /// For `total` bytes of an object.
    pub(super) fn new(line: &'a Line, object: &'a Arc<Object>, total: u64) -> Self {
        let ledger = line.lends().filter(|_| total > LITTLE);
        // Without room for a mapping it is read, as it is everywhere else.
        let mapped = ledger.and_then(|ledger| {
            let mapped = Mapped::new(Arc::clone(object))?;
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
    pub(super) fn whole(&mut self, range: Range<u64>) -> Body {
        match self.last(range) {
            (None, Piece::Bytes(bytes)) => Body::Whole(bytes),
            (before, end) => Body::pieces(before.into_iter().chain([end])),
        }
    }

    /// The last range of a body. Where all of it is more than goes out at once, its end is read: see [`Reader`].
    pub(super) fn last(&mut self, range: Range<u64>) -> (Option<Piece>, Piece) {
        if self.mapped.is_none() || self.total <= AT_ONCE {
            return (None, self.piece(range));
        }
        let at = range.end.saturating_sub(END).max(range.start);
        let before = (range.start < at).then(|| self.piece(range.start..at));
        (before, self.reader(at..range.end))
    }

    /// A range.
    pub(super) fn piece(&mut self, range: Range<u64>) -> Piece {
        if range.is_empty() {
            return Piece::Bytes(Bytes::new());
        }
        if let Some(slice) = self
            .mapped
            .as_ref()
            .and_then(|mapped| mapped.slice(range.clone()))
        {
            return Piece::Bytes(slice);
        }
        if self.total <= SMALL
            && let Some(bytes) = self.read_now(&range)
        {
            return Piece::Bytes(bytes);
        }
        self.reader(range)
    }

    fn reader(&self, range: Range<u64>) -> Piece {
        Piece::Reader(Box::new(Reader::new(
            Arc::clone(self.object),
            self.line.server.disk.clone(),
            range,
        )))
    }

    /// All of a range, if it is in memory.
    fn read_now(&self, range: &Range<u64>) -> Option<Bytes> {
        let len = usize::try_from(range.end - range.start).ok()?;
        let mut buffer = vec![0; len];
        let read = self.object.read_now(&mut buffer, range.start).ok()??;
        // Less would be a file that has become shorter: its reader says so.
        (read == len).then(|| buffer.into())
    }
}

//! A file's bytes as an address range, for a connection that lets the kernel send them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::sys;
use crate::store::OpenObject;

/// One body, or several ranges of one file, for one connection.
#[derive(Debug)]
pub(crate) struct MappedBody {
    /// The file to send; it owns the mapping.
    object: Arc<OpenObject>,
    /// Whether some of it was sent.
    has_begun: AtomicBool,
}

/// Keeps the object while any slice of its mapping exists.
struct MappedSlice(Arc<MappedBody>);

impl AsRef<[u8]> for MappedSlice {
    fn as_ref(&self) -> &[u8] {
        self.0.addresses()
    }
}

impl MappedBody {
    /// Maps a file; `None` when the system has no room for a mapping, or the file has another
    /// length by now.
    pub(crate) fn new(object: Arc<OpenObject>) -> Option<Arc<Self>> {
        object.mapping(sys::map)?;
        Some(Arc::new(Self {
            object,
            has_begun: AtomicBool::new(false),
        }))
    }

    /// Notes that some of it is about to be sent. Returns whether some was sent before.
    pub(crate) fn mark_started(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// The file to send.
    pub(crate) fn object(&self) -> &Arc<OpenObject> {
        &self.object
    }

    /// A range of the file, as a slice for hyper.
    pub(crate) fn slice(self: &Arc<Self>, range: Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        let whole = Bytes::from_owner(MappedSlice(Arc::clone(self)));
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    /// The offset in the file where a slice begins, if the slice is in this mapping.
    pub(super) fn offset_of(&self, slice: &[u8]) -> Option<u64> {
        let all = self.addresses();
        let offset = slice.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
        (offset + slice.len() <= all.len()).then_some(offset as u64)
    }

    fn addresses(&self) -> &[u8] {
        self.object.mapping(sys::map).map_or(&[], |map| map)
    }
}

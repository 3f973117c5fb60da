//! An object lent to a connection, as addresses that stand for its bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::sys;
use crate::store::OpenObject;

/// One body, or several ranges of one, lent to one connection.
#[derive(Debug)]
pub(crate) struct MappedBody {
    /// What is sent. It keeps its mapping.
    object: Arc<OpenObject>,
    /// Whether some of it was sent.
    has_begun: AtomicBool,
}

/// Keeps the object while any slice of its mapping is about.
struct MappedSlice(Arc<MappedBody>);

impl AsRef<[u8]> for MappedSlice {
    fn as_ref(&self) -> &[u8] {
        self.0.addresses()
    }
}

impl MappedBody {
    /// An object with a mapping; `None` when the system has no room for one, or the file has another length by now.
    pub(crate) fn new(object: Arc<OpenObject>) -> Option<Arc<Self>> {
        object.mapping(sys::map)?;
        Some(Arc::new(Self {
            object,
            has_begun: AtomicBool::new(false),
        }))
    }

    /// Some of it is about to be sent. Whether some was before.
    pub(crate) fn begin(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// What is sent.
    pub(crate) fn object(&self) -> &Arc<OpenObject> {
        &self.object
    }

    /// A range of the file as what hyper takes for its bytes.
    pub(crate) fn slice(self: &Arc<Self>, range: Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        let whole = Bytes::from_owner(MappedSlice(Arc::clone(self)));
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    /// Where in the file a slice begins, if it is one of this mapping's.
    pub(super) fn offset_of(&self, slice: &[u8]) -> Option<u64> {
        let all = self.addresses();
        let offset = slice.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
        (offset + slice.len() <= all.len()).then_some(offset as u64)
    }

    fn addresses(&self) -> &[u8] {
        self.object.mapping(sys::map).map_or(&[], |map| map)
    }
}

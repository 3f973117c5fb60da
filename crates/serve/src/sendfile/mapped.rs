//! An object's file with a mapping that stands for it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;

use super::sys;
use crate::store::Object;

/// One body, or several ranges of one, lent to one connection.
pub(crate) struct Mapped {
    /// What is sent.
    object: Arc<Object>,
    /// What stands for it.
    map: Mmap,
}

/// Keeps the mapping while any slice of it is about.
struct Lent(Arc<Mapped>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped")
            .field("object", &self.object)
            .finish()
    }
}

impl Mapped {
    /// Maps an object's file.
    ///
    /// # Errors
    /// When the system has no room for it, or the file has another length by now.
    pub(crate) fn new(object: Arc<Object>) -> io::Result<Arc<Self>> {
        let map = sys::map(object.file())?;
        if map.len() as u64 != object.meta().len {
            return Err(io::Error::other(
                "the file is not as long any more as it was",
            ));
        }
        Ok(Arc::new(Self { object, map }))
    }

    /// What is sent.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// A range of the file as what hyper takes for its bytes.
    pub(crate) fn slice(self: &Arc<Self>, range: Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        let whole = Bytes::from_owner(Lent(Arc::clone(self)));
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    /// Where in the file a slice begins, if it is one of this mapping's.
    pub(super) fn offset_of(&self, slice: &[u8]) -> Option<u64> {
        let offset = slice
            .as_ptr()
            .addr()
            .checked_sub(self.map.as_ptr().addr())?;
        (offset + slice.len() <= self.map.len()).then_some(offset as u64)
    }
}

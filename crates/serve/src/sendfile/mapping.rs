//! A file's bytes as an address range, for a connection that lets the kernel send them.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// The mappings whose slices may be written next.
///
/// The mappings that a connection may be writing: they distinguish a range of a file from other
/// memory.
#[derive(Debug, Default)]
pub(crate) struct MappingRegistry {
    /// Registered mappings, seldom more than one: responses are written one after another.
    registered: Mutex<Vec<Arc<MappedBody>>>,
    /// Whether there are any: a connection that sends small files never takes the lock.
    is_used: AtomicBool,
}

/// The first run of slices that are to be written alike.
#[derive(Debug)]
pub(crate) enum MappedRun {
    /// Memory: this many slices until those of a file begin.
    Memory(usize),
    File(Arc<MappedBody>, Range<u64>),
}

impl MappingRegistry {
    /// Registers a mapping whose slices will be written.
    pub(crate) fn register(&self, mapped: &Arc<MappedBody>) {
        let mut registered = self
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A mapping without slices has been written, or never will be.
        registered.retain(|mapped| Arc::strong_count(mapped) > 1);
        registered.push(Arc::clone(mapped));
        self.is_used.store(true, Ordering::Release);
    }

    /// Removes mappings without slices.
    pub(crate) fn remove_unused(&self) {
        if self.is_used.load(Ordering::Acquire) {
            let mut registered = self
                .registered
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            registered.retain(|mapped| Arc::strong_count(mapped) > 1);
            self.is_used
                .store(!registered.is_empty(), Ordering::Release);
        }
    }

    /// What to write first. None of the slices is empty.
    pub(crate) fn next_run(&self, slices: &[IoSlice<'_>]) -> MappedRun {
        if !self.is_used.load(Ordering::Acquire) {
            return MappedRun::Memory(slices.len());
        }
        let mut registered = self
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = |slice: &[u8]| {
            registered
                .iter()
                .find_map(|mapped| Some((Arc::clone(mapped), mapped.offset_of(slice)?)))
        };
        for (index, slice) in slices.iter().enumerate() {
            if let Some((mapped, start)) = found(slice) {
                return match index {
                    0 => MappedRun::File(mapped, start..start + slice.len() as u64),
                    _ => MappedRun::Memory(index),
                };
            }
        }
        registered.retain(|mapped| Arc::strong_count(mapped) > 1);
        self.is_used
            .store(!registered.is_empty(), Ordering::Release);
        MappedRun::Memory(slices.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ObjectKey;
    use crate::store::{FileStore, FileStoreOptions};

    fn mapped(text: &str) -> Arc<MappedBody> {
        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("f"), text).expect("a file");
        let store = FileStore::open(folder.path(), FileStoreOptions::default()).expect("a store");
        let key = ObjectKey::parse("/f").expect("a key").key;
        MappedBody::new(store.open_file(&key).expect("an object")).expect("a mapping")
    }

    #[test]
    fn mapped_slices_are_recognised_by_address() {
        let registry = MappingRegistry::default();
        let (mapped, head) = (mapped("0123456789"), b"head");
        let body = mapped.slice(2..9).expect("within");
        let (head, part) = (IoSlice::new(head), IoSlice::new(&body[3..]));
        // Nothing is registered yet.
        assert!(matches!(
            registry.next_run(&[head, part]),
            MappedRun::Memory(2)
        ));
        registry.register(&mapped);
        assert!(matches!(
            registry.next_run(&[head, part]),
            MappedRun::Memory(1)
        ));
        let MappedRun::File(_, range) = registry.next_run(&[part, head]) else {
            panic!("it is the file's");
        };
        assert_eq!(range, 5..9);
        assert!(mapped.slice(2..11).is_none());
    }

    #[test]
    fn unused_mappings_are_removed() {
        let registry = MappingRegistry::default();
        let first = mapped("one");
        registry.register(&first);
        drop(first);
        assert!(matches!(
            registry.next_run(&[IoSlice::new(b"x")]),
            MappedRun::Memory(1)
        ));
        assert!(!registry.is_used.load(Ordering::Relaxed));
        assert!(registry.registered.lock().expect("unpoisoned").is_empty());
    }
}

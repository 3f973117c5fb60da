//! Which mappings a connection was lent: what tells a stretch of a file from other memory.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::MappedBody;

/// The mappings that slices of may be about to be written.
#[derive(Debug, Default)]
pub(crate) struct MappingRegistry {
    /// Those that were lent and are not back. Seldom more than one: responses are written one after another.
    lent: Mutex<Vec<Arc<MappedBody>>>,
    /// Whether there are any: a connection of small files never takes the lock.
    any: AtomicBool,
}

/// What the first of some slices is.
#[derive(Debug)]
pub(crate) enum MappedRun {
    /// Memory; so many slices of it until a file's begin.
    Memory(usize),
    /// A range of a file.
    File(Arc<MappedBody>, Range<u64>),
}

impl MappingRegistry {
    /// Slices of a mapping will be written.
    pub(crate) fn lend(&self, mapped: &Arc<MappedBody>) {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody has a slice of any more has been written, or never will be.
        lent.retain(|mapped| Arc::strong_count(mapped) > 1);
        lent.push(Arc::clone(mapped));
        self.any.store(true, Ordering::Release);
    }

    /// Forgets what is back.
    pub(crate) fn clear(&self) {
        if self.any.load(Ordering::Acquire) {
            let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
            lent.retain(|mapped| Arc::strong_count(mapped) > 1);
            self.any.store(!lent.is_empty(), Ordering::Release);
        }
    }

    /// What is to be written first. There is no empty slice among them.
    pub(crate) fn first(&self, slices: &[IoSlice<'_>]) -> MappedRun {
        if !self.any.load(Ordering::Acquire) {
            return MappedRun::Memory(slices.len());
        }
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |slice: &[u8]| {
            lent.iter()
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
        lent.retain(|mapped| Arc::strong_count(mapped) > 1);
        self.any.store(!lent.is_empty(), Ordering::Release);
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
    fn slices_are_told_from_memory_by_where_they_are() {
        let ledger = MappingRegistry::default();
        let (mapped, head) = (mapped("0123456789"), b"head");
        let body = mapped.slice(2..9).expect("within");
        let (head, part) = (IoSlice::new(head), IoSlice::new(&body[3..]));
        // Nothing was lent yet.
        assert!(matches!(ledger.first(&[head, part]), MappedRun::Memory(2)));
        ledger.lend(&mapped);
        assert!(matches!(ledger.first(&[head, part]), MappedRun::Memory(1)));
        let MappedRun::File(_, range) = ledger.first(&[part, head]) else {
            panic!("it is the file's");
        };
        assert_eq!(range, 5..9);
        assert!(mapped.slice(2..11).is_none());
    }

    #[test]
    fn what_is_back_is_forgotten() {
        let ledger = MappingRegistry::default();
        let first = mapped("one");
        ledger.lend(&first);
        drop(first);
        assert!(matches!(
            ledger.first(&[IoSlice::new(b"x")]),
            MappedRun::Memory(1)
        ));
        assert!(!ledger.any.load(Ordering::Relaxed));
        assert!(ledger.lent.lock().expect("unpoisoned").is_empty());
    }
}

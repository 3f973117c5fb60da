//! The objects below a prefix as entries of a sync.

use std::vec::IntoIter;

use haul_plan::KeyFilter;
use haul_plan::sync::SyncEntry;
use haul_s3::ListedObject;

use crate::bucket::{BucketError, ObjectLister};

/// The objects below a prefix, in the order of their keys. Waits for the list, so it is for a thread that may wait.
#[derive(Debug)]
pub struct ObjectEntries {
    lister: ObjectLister,
    page: IntoIter<ListedObject>,
    prefix: String,
    filter: KeyFilter,
    /// Whether keys that end with a slash are left out: they stand for folders, and the other side has folders of its own.
    skips_folders: bool,
}

impl ObjectEntries {
    /// The entries of a list of everything below `prefix`.
    #[must_use]
    pub fn new(lister: ObjectLister, prefix: &str, filter: KeyFilter, skips_folders: bool) -> Self {
        Self {
            lister,
            page: Vec::new().into_iter(),
            prefix: prefix.to_owned(),
            filter,
            skips_folders,
        }
    }

    fn entry(&self, object: ListedObject) -> Option<SyncEntry> {
        let key = object.key.strip_prefix(&self.prefix)?;
        let is_folder = key.ends_with('/') && self.skips_folders;
        if key.is_empty() || is_folder || !self.filter.accepts(key) {
            return None;
        }
        Some(SyncEntry {
            key: key.to_owned(),
            size: object.size,
            modified: object.modified(),
            entity_tag: Some(object.etag).filter(|tag| !tag.is_empty()),
            is_unread: false,
        })
    }
}

impl Iterator for ObjectEntries {
    type Item = Result<SyncEntry, BucketError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(object) = self.page.next() {
                if let Some(entry) = self.entry(object) {
                    return Some(Ok(entry));
                }
            }
            match self.lister.blocking_next_page()? {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

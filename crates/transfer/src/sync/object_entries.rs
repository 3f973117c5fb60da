//! The objects below a prefix as entries of a sync.

use haul_s3::ListedObject;

use super::comparison::SyncEntry;
use crate::bucket::{BucketError, SelectedObjects};

/// The objects below a prefix, in the order of their keys. Waits for the list, so it is for a thread that may wait.
#[derive(Debug)]
pub(super) struct ObjectEntries {
    /// Everything below the prefix that is meant.
    pub(super) objects: SelectedObjects,
    /// Whether keys that end with a slash are left out: they stand for folders, and the other side has folders of its own.
    pub(super) skips_folders: bool,
}

impl ObjectEntries {
    fn entry(&self, object: ListedObject) -> Option<SyncEntry> {
        let prefix = &self.objects.selection.prefix.key;
        let key = object.key.strip_prefix(prefix)?;
        let is_folder = key.ends_with('/') && self.skips_folders;
        if key.is_empty() || is_folder {
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
            match self.objects.blocking_next()? {
                Ok(object) => {
                    if let Some(entry) = self.entry(object) {
                        return Some(Ok(entry));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

//! Creates the missing folders of an upload's key.
//!
//! An upload creates them when it begins. If it fails they are removed again, provided they are
//! empty; another upload that was about to use one creates it again, when it begins or when it
//! commits. So a folder may come and go during an upload, and nothing waits.
//!
//! If the name of a file must survive a power cut, so must the names of its parent folders,
//! whichever upload created them. This module tracks, for all uploads, the folders whose names are
//! not durable yet: the first upload that commits beneath such a folder syncs it, even if another
//! created it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::StoreError;
use super::flush;
use super::root::{OpenScope, StoreRoot, unlink};
use crate::ObjectKey;

/// Permissions before the process's umask is applied.
const MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// How often another program may remove a folder while it is created or used, before the upload
/// fails.
pub(super) const MAX_ATTEMPTS: usize = 16;

/// Creates folders.
#[derive(Debug)]
pub(super) struct FolderCreator {
    root: Arc<StoreRoot>,
    /// Folders whose names may not be durable yet, with their generation. `None` if names need not
    /// be durable.
    unsynced: Option<Mutex<UnsyncedFolders>>,
}

#[derive(Debug, Default)]
struct UnsyncedFolders {
    /// The generation of each folder, so that a folder that was removed and created again is not
    /// mistaken for the first one.
    folders: HashMap<ObjectKey, u64>,
    last_generation: u64,
}

/// Folders that were created for an upload. Dropping this removes those that are empty.
#[derive(Debug)]
pub(super) struct CreatedFolders {
    creator: Arc<FolderCreator>,
    /// From the top down, each with its generation.
    keys: Vec<(ObjectKey, u64)>,
}

impl FolderCreator {
    /// Creates folders beneath a root. `are_durable` says whether their names must be durable.
    pub(super) fn new(root: Arc<StoreRoot>, are_durable: bool) -> Self {
        Self {
            root,
            unsynced: are_durable.then(Mutex::default),
        }
    }

    /// Opens a folder, and creates it and its parents where they are missing.
    ///
    /// # Errors
    /// See [`StoreError`]. The folders that were created are then removed again.
    pub(super) fn open_or_create(
        self: &Arc<Self>,
        key: &ObjectKey,
        scope: OpenScope,
    ) -> Result<(OwnedFd, CreatedFolders), StoreError> {
        let mut created = CreatedFolders {
            creator: Arc::clone(self),
            keys: Vec::new(),
        };
        for _ in 0..MAX_ATTEMPTS {
            match self.create(key, scope, &mut created.keys) {
                // Another program removed one meanwhile; or a link leads nowhere, or the root
                // itself is gone.
                Err(Errno::NOENT) if !self.root.is_removed() => {}
                Err(Errno::NOENT) => return Err(StoreError::RootRemoved),
                other => return Ok((other?, created)),
            }
        }
        Err(StoreError::NotFound)
    }

    fn create(
        &self,
        key: &ObjectKey,
        scope: OpenScope,
        created: &mut Vec<(ObjectKey, u64)>,
    ) -> Result<OwnedFd, Errno> {
        match self.root.open_folder_within(key, scope) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let (parent, name) = key.split_parent().ok_or(Errno::NOENT)?;
        let folder = self.create(&parent, scope, created)?;
        // Before the folder exists: an upload that finds it must know.
        let (generation, previous) = self.mark_unsynced(key);
        match rustix::fs::mkdirat(&folder, name, MODE) {
            Ok(()) => {
                created.retain(|(other, _)| other != key);
                created.push((key.clone(), generation));
            }
            // Somebody else was faster; or there is a link that leads nowhere, which the next open
            // finds out.
            Err(Errno::EXIST) => self.restore_mark(key, generation, previous),
            Err(error) => {
                self.restore_mark(key, generation, previous);
                return Err(error);
            }
        }
        self.root.open_folder_within(key, scope)
    }

    /// Makes the names in a folder durable, and the names of that folder and its parents.
    ///
    /// # Errors
    /// The disk's error.
    pub(super) fn sync(&self, key: &ObjectKey, folder: &OwnedFd) -> Result<(), StoreError> {
        flush::fsync(folder)?;
        let mut key = key.clone();
        while let Some((parent, _)) = key.split_parent() {
            if let Some(generation) = self.unsynced_generation(&key) {
                match self.root.open_folder(&parent) {
                    Ok(parent) => flush::fsync(parent)?,
                    // It was removed meanwhile, with all that was in it.
                    Err(StoreError::NotFound) => {}
                    Err(error) => return Err(error),
                }
                self.mark_synced(&key, generation);
            }
            key = parent;
        }
        Ok(())
    }

    /// Notes that the folder's name is about to be created. Returns its generation and the previous
    /// one, if that may not be durable.
    fn mark_unsynced(&self, key: &ObjectKey) -> (u64, Option<u64>) {
        let Some(mut unsynced) = self.lock_unsynced() else {
            return (0, None);
        };
        unsynced.last_generation += 1;
        let generation = unsynced.last_generation;
        let previous = unsynced.folders.insert(key.clone(), generation);
        (generation, previous)
    }

    /// Restores the previous generation after the folder was not created, unless it has changed
    /// meanwhile.
    fn restore_mark(&self, key: &ObjectKey, generation: u64, previous: Option<u64>) {
        let Some(mut unsynced) = self.lock_unsynced() else {
            return;
        };
        if unsynced.folders.get(key) == Some(&generation) {
            match previous {
                Some(previous) => unsynced.folders.insert(key.clone(), previous),
                None => unsynced.folders.remove(key),
            };
        }
    }

    /// The generation of a folder whose name may not be durable.
    fn unsynced_generation(&self, key: &ObjectKey) -> Option<u64> {
        self.lock_unsynced()?.folders.get(key).copied()
    }

    /// Notes that the name of that generation is durable, or removed.
    fn mark_synced(&self, key: &ObjectKey, generation: u64) {
        if let Some(mut unsynced) = self.lock_unsynced()
            && unsynced.folders.get(key) == Some(&generation)
        {
            unsynced.folders.remove(key);
        }
    }

    /// Removes a folder of that generation if it is empty. Returns whether it did.
    fn remove_if_empty(&self, key: &ObjectKey, generation: u64) -> bool {
        let removed = key.split_parent().is_some_and(|(parent, name)| {
            let parent = self.root.open_folder(&parent);
            parent.is_ok_and(|parent| unlink(parent, name, AtFlags::REMOVEDIR).is_ok())
        });
        // If another upload creates it again meanwhile, that has another generation.
        if removed {
            self.mark_synced(key, generation);
        }
        removed
    }

    fn lock_unsynced(&self) -> Option<MutexGuard<'_, UnsyncedFolders>> {
        let unsynced = self.unsynced.as_ref()?;
        Some(unsynced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many folders have names that may not be durable.
    #[cfg(test)]
    pub(super) fn count_unsynced(&self) -> usize {
        self.lock_unsynced()
            .map_or(0, |unsynced| unsynced.folders.len())
    }
}

impl CreatedFolders {
    /// Keeps the folders: other uploads may be using them by now.
    pub(super) fn keep(mut self) {
        self.keys.clear();
    }

    /// Adds the folders of a second attempt.
    pub(super) fn merge(&mut self, mut more: Self) {
        let keys = std::mem::take(&mut more.keys);
        self.keys.extend(
            keys.into_iter()
                .filter(|(key, _)| self.keys.iter().all(|(other, _)| other != key))
                .collect::<Vec<_>>(),
        );
        self.keys.sort();
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        // If one is not empty, neither are its parents.
        let mut created = self.keys.iter().rev();
        let _ = created.all(|(key, generation)| self.creator.remove_if_empty(key, *generation));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(path: &str) -> ObjectKey {
        ObjectKey::parse(path).expect("a key").key
    }

    fn folders(path: &std::path::Path) -> Arc<FolderCreator> {
        let root = Arc::new(StoreRoot::open(path).expect("a root"));
        Arc::new(FolderCreator::new(root, true))
    }

    #[test]
    fn parent_folders_are_created_and_tracked() {
        let all = tempfile::tempdir().expect("a directory");
        fs::create_dir(all.path().join("a")).expect("a folder");
        fs::write(all.path().join("a/f"), "").expect("a file");
        let folders = folders(all.path());
        let (_, created) = folders
            .open_or_create(&key("/a/x/y"), OpenScope::Anywhere)
            .expect("folders");
        assert_eq!(created.keys, [(key("/a/x"), 1), (key("/a/x/y"), 2)]);
        let (_, none) = folders
            .open_or_create(&key("/a/x/y"), OpenScope::Anywhere)
            .expect("there");
        assert!(none.keys.is_empty());
        let beneath_a_file = folders.open_or_create(&key("/a/f/z"), OpenScope::Anywhere);
        assert!(matches!(beneath_a_file, Err(StoreError::Conflict)));
        drop(created);
        assert!(!all.path().join("a/x").exists() && all.path().join("a").exists());
        assert_eq!(folders.count_unsynced(), 0);
    }

    #[test]
    fn the_first_upload_to_commit_syncs_folders_that_another_created() {
        let all = tempfile::tempdir().expect("a directory");
        let folders = folders(all.path());
        let (_, first) = folders
            .open_or_create(&key("/x"), OpenScope::Anywhere)
            .expect("x");
        let (inner, second) = folders
            .open_or_create(&key("/x/y"), OpenScope::Anywhere)
            .expect("y");
        assert_eq!(folders.count_unsynced(), 2);
        folders.sync(&key("/x/y"), &inner).expect("synced");
        assert_eq!(folders.count_unsynced(), 0, "both names");
        // A folder that was created again must be synced again.
        let (generation, _) = folders.mark_unsynced(&key("/x"));
        let (again, previous) = folders.mark_unsynced(&key("/x"));
        assert_eq!(previous, Some(generation));
        folders.mark_synced(&key("/x"), generation);
        assert_eq!(folders.count_unsynced(), 1);
        // A folder that existed already keeps its generation.
        folders.restore_mark(&key("/x"), again, previous);
        folders.mark_synced(&key("/x"), generation);
        assert_eq!(folders.count_unsynced(), 0);
        second.keep();
        drop(first);
        assert!(all.path().join("x/y").exists());
    }
}

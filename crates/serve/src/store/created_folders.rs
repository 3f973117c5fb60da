//! Folders that uploads make on the way to their keys.
//!
//! An upload makes what is missing when it begins. If it comes to nothing they go again, if nothing is in them by then; whoever else was
//! about to use one makes it anew, when it begins or when it commits. So a folder may come and go under an upload, and nobody waits.
//!
//! Where a name must survive a power cut, so must the names of the folders above it, whoever made those. Which names are not
//! durable yet is kept here, for all uploads: the first that commits beneath such a folder sees to it, though another has made it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::StoreError;
use super::root::{OpenScope, StoreRoot, unlink};
use crate::ObjectKey;

/// Folders are made for everybody whom the process's mask does not leave out.
const MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// How often somebody may take a folder away while it is being made or used, before nothing is there.
pub(super) const MAX_ATTEMPTS: usize = 16;

/// Makes folders.
#[derive(Debug)]
pub(super) struct FolderCreator {
    root: Arc<StoreRoot>,
    /// Those whose names may not be durable yet, and the number of the making. `None` where none has to be.
    unsynced: Option<Mutex<UnsyncedFolders>>,
}

#[derive(Debug, Default)]
struct UnsyncedFolders {
    /// By their keys: which making it was, so that one that was removed and made again meanwhile is not taken for the first.
    folders: HashMap<ObjectKey, u64>,
    /// The last making.
    last_generation: u64,
}

/// Folders that were made for an upload. They go when this is dropped, if nothing is in them.
#[derive(Debug)]
pub(super) struct CreatedFolders {
    creator: Arc<FolderCreator>,
    /// From the top down, each with its making.
    keys: Vec<(ObjectKey, u64)>,
}

impl FolderCreator {
    /// Makes folders beneath a root. `are_durable`: whether their names are to be.
    pub(super) fn new(root: Arc<StoreRoot>, are_durable: bool) -> Self {
        Self {
            root,
            unsynced: are_durable.then(Mutex::default),
        }
    }

    /// Opens a folder, and makes it and those on the way where they are missing.
    ///
    /// # Errors
    /// See [`StoreError`]. Then what was made is gone again.
    pub(super) fn open_or_create(
        self: &Arc<Self>,
        key: &ObjectKey,
        reach: OpenScope,
    ) -> Result<(OwnedFd, CreatedFolders), StoreError> {
        let mut made = CreatedFolders {
            creator: Arc::clone(self),
            keys: Vec::new(),
        };
        for _ in 0..MAX_ATTEMPTS {
            match self.create(key, reach, &mut made.keys) {
                // Somebody took one away meanwhile; or a link leads nowhere, or all is gone.
                Err(Errno::NOENT) if !self.root.is_removed() => {}
                Err(Errno::NOENT) => return Err(StoreError::RootRemoved),
                other => return Ok((other?, made)),
            }
        }
        Err(StoreError::NotFound)
    }

    fn create(
        &self,
        key: &ObjectKey,
        reach: OpenScope,
        made: &mut Vec<(ObjectKey, u64)>,
    ) -> Result<OwnedFd, Errno> {
        match self.root.open_folder_within(key, reach) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let (above, name) = key.split_parent().ok_or(Errno::NOENT)?;
        let folder = self.create(&above, reach, made)?;
        // Before it is there: whoever finds it must know.
        let (making, before) = self.mark_unsynced(key);
        match rustix::fs::mkdirat(&folder, name, MODE) {
            Ok(()) => {
                made.retain(|(other, _)| other != key);
                made.push((key.clone(), making));
            }
            // Somebody else was quicker; or a link that leads nowhere is there, as the next open will say.
            Err(Errno::EXIST) => self.restore_mark(key, making, before),
            Err(error) => {
                self.restore_mark(key, making, before);
                return Err(error);
            }
        }
        self.root.open_folder_within(key, reach)
    }

    /// Makes what was named in a folder durable, and the names of that folder and those above it.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn sync(&self, key: &ObjectKey, folder: &OwnedFd) -> Result<(), StoreError> {
        rustix::fs::fsync(folder)?;
        let mut key = key.clone();
        while let Some((above, _)) = key.split_parent() {
            if let Some(making) = self.unsynced_generation(&key) {
                match self.root.open_folder(&above) {
                    Ok(above) => rustix::fs::fsync(above)?,
                    // It has gone meanwhile, and all in it.
                    Err(StoreError::NotFound) => {}
                    Err(error) => return Err(error),
                }
                self.mark_synced(&key, making);
            }
            key = above;
        }
        Ok(())
    }

    /// The name is about to be given: in which making, and which was the one before whose name may not be durable.
    fn mark_unsynced(&self, key: &ObjectKey) -> (u64, Option<u64>) {
        let Some(mut fresh) = self.lock_unsynced() else {
            return (0, None);
        };
        fresh.last_generation += 1;
        let making = fresh.last_generation;
        let before = fresh.folders.insert(key.clone(), making);
        (making, before)
    }

    /// The name was not given in that making: what was believed before holds, unless somebody knows better by now.
    fn restore_mark(&self, key: &ObjectKey, making: u64, before: Option<u64>) {
        let Some(mut fresh) = self.lock_unsynced() else {
            return;
        };
        if fresh.folders.get(key) == Some(&making) {
            match before {
                Some(before) => fresh.folders.insert(key.clone(), before),
                None => fresh.folders.remove(key),
            };
        }
    }

    /// The making of a folder whose name may not be durable.
    fn unsynced_generation(&self, key: &ObjectKey) -> Option<u64> {
        self.lock_unsynced()?.folders.get(key).copied()
    }

    /// The name that was given then is durable, or gone.
    fn mark_synced(&self, key: &ObjectKey, making: u64) {
        if let Some(mut fresh) = self.lock_unsynced()
            && fresh.folders.get(key) == Some(&making)
        {
            fresh.folders.remove(key);
        }
    }

    /// Removes a folder of that making if nothing is in it. Whether it did.
    fn remove_if_empty(&self, key: &ObjectKey, making: u64) -> bool {
        let removed = key.split_parent().is_some_and(|(above, name)| {
            let above = self.root.open_folder(&above);
            above.is_ok_and(|above| unlink(above, name, AtFlags::REMOVEDIR).is_ok())
        });
        // One that somebody makes anew meanwhile is another making.
        if removed {
            self.mark_synced(key, making);
        }
        removed
    }

    fn lock_unsynced(&self) -> Option<MutexGuard<'_, UnsyncedFolders>> {
        let fresh = self.unsynced.as_ref()?;
        Some(fresh.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many folders have names that may not be durable.
    #[cfg(test)]
    pub(super) fn count_unsynced(&self) -> usize {
        self.lock_unsynced().map_or(0, |fresh| fresh.folders.len())
    }
}

impl CreatedFolders {
    /// They are not this upload's alone any more.
    pub(super) fn keep(mut self) {
        self.keys.clear();
    }

    /// Those of two makings.
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
        // Nothing above one that stays is empty.
        let mut made = self.keys.iter().rev();
        let _ = made.all(|(key, making)| self.creator.remove_if_empty(key, *making));
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
    fn folders_on_the_way_are_made_and_known() {
        let all = tempfile::tempdir().expect("a directory");
        fs::create_dir(all.path().join("a")).expect("a folder");
        fs::write(all.path().join("a/f"), "").expect("a file");
        let folders = folders(all.path());
        let (_, made) = folders
            .open_or_create(&key("/a/x/y"), OpenScope::Anywhere)
            .expect("folders");
        assert_eq!(made.keys, [(key("/a/x"), 1), (key("/a/x/y"), 2)]);
        let (_, none) = folders
            .open_or_create(&key("/a/x/y"), OpenScope::Anywhere)
            .expect("there");
        assert!(none.keys.is_empty());
        let beneath_a_file = folders.open_or_create(&key("/a/f/z"), OpenScope::Anywhere);
        assert!(matches!(beneath_a_file, Err(StoreError::Conflict)));
        drop(made);
        assert!(!all.path().join("a/x").exists() && all.path().join("a").exists());
        assert_eq!(folders.count_unsynced(), 0);
    }

    #[test]
    fn names_that_another_upload_gave_are_made_durable_by_the_first_that_ends() {
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
        // One that was made again since is fresh again.
        let (making, _) = folders.mark_unsynced(&key("/x"));
        let (again, before) = folders.mark_unsynced(&key("/x"));
        assert_eq!(before, Some(making));
        folders.mark_synced(&key("/x"), making);
        assert_eq!(folders.count_unsynced(), 1);
        // One that was there already is what it was.
        folders.restore_mark(&key("/x"), again, before);
        folders.mark_synced(&key("/x"), making);
        assert_eq!(folders.count_unsynced(), 0);
        second.keep();
        drop(first);
        assert!(all.path().join("x/y").exists());
    }
}

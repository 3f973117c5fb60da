//! Walks the files of a folder in the byte order of their keys, as S3 lists them.
//!
//! A folder sorts as its name with a slash: `a-b`, `a/b`, `a0`. A walk can begin after any key and
//! be limited to a prefix; folders that hold nothing of either are not read.
//!
//! Memory: of each folder on the path at most [`BATCH`] names are held, the lowest that are left. A
//! folder with more is read once for each batch.
//!
//! Links to files are listed, links to folders are not: they may lead in circles. Names that are
//! not UTF-8 have no key in S3 and are left out.

use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::attribute_records::is_marked_folder;
use super::list::modification_time;
use super::root::StoreRoot;
use super::version::{FileMetadata, FileVersionId};
use super::{FileStore, StoreError};
use crate::ObjectKey;

/// Names of one folder that are held at a time.
const BATCH: usize = 1100;

/// Flags to open an entry: follow no link, and do not wait if a pipe took a file's place.
const OPEN_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

#[derive(Debug, Clone, Default)]
pub struct KeyWalkRequest {
    /// Only keys that begin with this, relative to the folder.
    pub prefix: String,
    /// Only keys after this.
    pub after: String,
    /// Not those that begin with this, either.
    pub after_prefix: Option<String>,
    /// Whether folders are returned instead of walked.
    pub is_flat: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedKey {
    /// Relative to the folder of the walk. That of a folder ends in a slash.
    pub key: String,
    pub kind: WalkedKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkedKind {
    File(FileMetadata),
    /// A folder that is an object, and when it was changed.
    FolderObject(SystemTime),
    /// A folder with something in it; in flat walks alone.
    Folder,
}

/// A walk. Each step may wait for a disk.
#[derive(Debug)]
pub struct KeyWalk {
    store: Arc<FileStore>,
    request: KeyWalkRequest,
    /// The folder of the walk.
    top: ObjectKey,
    levels: Vec<WalkLevel>,
}

/// A folder on the path.
#[derive(Debug)]
struct WalkLevel {
    folder: OwnedFd,
    /// Its key relative to the folder of the walk, with a slash at the end if it is another.
    key: String,
    /// The lowest names that are left, the lowest last; those of folders end in a slash.
    names: Vec<String>,
    /// Whether the folder has more names than these.
    has_more: bool,
    /// The name that was returned last.
    last: String,
}

impl KeyWalk {
    /// Begins a walk of a folder.
    ///
    /// # Errors
    /// When the folder is not there or cannot be read.
    pub fn new(
        store: &Arc<FileStore>,
        top: &ObjectKey,
        request: KeyWalkRequest,
    ) -> Result<Self, StoreError> {
        let mut walk = Self {
            store: Arc::clone(store),
            top: top.clone(),
            levels: Vec::new(),
            request,
        };
        let folder = store.root.open_folder(top)?;
        // The folder of the prefix, so that those above it are not read.
        let folder_len = walk.request.prefix.rfind('/').map_or(0, |at| at + 1);
        let key = walk.request.prefix[..folder_len].to_owned();
        let folder = match key.strip_suffix('/') {
            None => folder,
            Some(path) => match walk.open_below(path) {
                Some(folder) => folder,
                None => return Ok(walk),
            },
        };
        if !key.is_empty() && walk.is_wanted(&key) && is_marked_folder(&folder) {
            // It is the first key with the prefix, and nothing below it repeats it.
            let name = String::new();
            walk.enter(folder, key)?;
            if let Some(level) = walk.levels.last_mut() {
                level.names.push(name);
            }
            return Ok(walk);
        }
        walk.enter(folder, key)?;
        Ok(walk)
    }

    /// The folder at a path below the folder of the walk, if no part of the path is a link.
    fn open_below(&self, path: &str) -> Option<OwnedFd> {
        let mut key = self.top.clone();
        for segment in path.split('/') {
            key = key.child(segment.as_bytes()).ok()?;
        }
        self.store.root.open_folder(&key).ok()
    }

    /// The next key.
    ///
    /// # Errors
    /// The disk's error: a listing that ends early would look complete.
    pub fn next_key(&mut self) -> io::Result<Option<WalkedKey>> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                return Ok(None);
            };
            let Some(name) = level.names.pop() else {
                self.leave()?;
                continue;
            };
            let key = format!("{}{name}", level.key);
            level.last.clone_from(&name);
            if name.is_empty() {
                let modified = modification_time(&rustix::fs::fstat(&level.folder)?);
                let kind = WalkedKind::FolderObject(modified);
                return Ok(Some(WalkedKey { key, kind }));
            }
            let found = match name.strip_suffix('/') {
                Some(folder) => {
                    let folder = folder.to_owned();
                    self.walk_folder(&folder, key)?
                }
                None => self.walk_file(&name, key)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// A file, if it is still there.
    fn walk_file(&self, name: &str, key: String) -> io::Result<Option<WalkedKey>> {
        let Some(level) = self.levels.last() else {
            return Ok(None);
        };
        let found = self.file_metadata(level, name)?;
        Ok(found.map(|metadata| WalkedKey {
            key,
            kind: WalkedKind::File(metadata),
        }))
    }

    fn file_metadata(&self, level: &WalkLevel, name: &str) -> io::Result<Option<FileMetadata>> {
        let stat = match rustix::fs::statat(&level.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Ok(self.linked_metadata(level, name)),
            _ => return Ok(None),
        }
        let version = FileVersionId::from_stat(&stat);
        if !version.may_have_digest() {
            return Ok(Some(FileMetadata::new(&version, None, None)));
        }
        let attributes = match rustix::fs::openat(&level.folder, name, OPEN_FLAGS, Mode::empty()) {
            Ok(file) => self.store.records.read(file, &version),
            // It cannot be read, or was replaced meanwhile.
            Err(_) => None,
        };
        Ok(Some(FileMetadata::new(&version, None, attributes)))
    }

    /// The metadata of the file that a link leads to, if it stays beneath the root.
    fn linked_metadata(&self, level: &WalkLevel, name: &str) -> Option<FileMetadata> {
        let mut key = self.top.clone();
        for segment in level.key.split('/').chain([name]) {
            if !segment.is_empty() {
                key = key.child(segment.as_bytes()).ok()?;
            }
        }
        let object = self.store.open_file(&key).ok()?;
        Some(object.metadata().clone())
    }

    /// Returns a folder in a flat walk, or enters it.
    fn walk_folder(&mut self, name: &str, key: String) -> io::Result<Option<WalkedKey>> {
        let Some(level) = self.levels.last() else {
            return Ok(None);
        };
        let flags = OPEN_FLAGS | OFlags::DIRECTORY;
        let folder = match rustix::fs::openat(&level.folder, name, flags, Mode::empty()) {
            Ok(folder) => folder,
            // It is gone, or is no folder any more. One that may not be read is an error: a list without it would be taken for complete, and
            // whoever makes a copy of the bucket would delete what it leaves out.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_object = is_marked_folder(&folder);
        if self.request.is_flat {
            let is_shown = is_object || has_entries(&folder)?;
            let kind = WalkedKind::Folder;
            return Ok(is_shown.then_some(WalkedKey { key, kind }));
        }
        let modified = modification_time(&rustix::fs::fstat(&folder)?);
        let is_object = is_object && self.is_wanted(&key);
        self.enter(folder, key.clone())?;
        Ok(is_object.then_some(WalkedKey {
            key,
            kind: WalkedKind::FolderObject(modified),
        }))
    }

    /// Whether the walk returns a key.
    fn is_wanted(&self, key: &str) -> bool {
        let after_prefix = self.request.after_prefix.as_deref();
        key > self.request.after.as_str()
            && key.starts_with(&self.request.prefix)
            && after_prefix.is_none_or(|prefix| !key.starts_with(prefix))
    }

    /// Whether a folder may hold keys that the walk returns. Its key ends in a slash.
    fn may_hold_wanted(&self, key: &str) -> bool {
        let KeyWalkRequest {
            prefix,
            after,
            after_prefix,
            ..
        } = &self.request;
        let is_after = key > after.as_str() || after.starts_with(key);
        let is_within = key.starts_with(prefix) || prefix.starts_with(key);
        let is_skipped = after_prefix.as_deref();
        is_after && is_within && is_skipped.is_none_or(|skipped| !key.starts_with(skipped))
    }

    fn enter(&mut self, folder: OwnedFd, key: String) -> io::Result<()> {
        let mut level = WalkLevel {
            folder,
            key,
            names: Vec::new(),
            has_more: false,
            last: String::new(),
        };
        self.read_names(&mut level, None)?;
        self.levels.push(level);
        Ok(())
    }

    /// Leaves the last folder, or reads its next names.
    fn leave(&mut self) -> io::Result<()> {
        let Some(mut level) = self.levels.pop() else {
            return Ok(());
        };
        if level.has_more {
            let after = std::mem::take(&mut level.last);
            self.read_names(&mut level, Some(&after))?;
            self.levels.push(level);
        }
        Ok(())
    }

    /// Reads the lowest names after `after` that the walk wants.
    fn read_names(&self, level: &mut WalkLevel, after: Option<&str>) -> io::Result<()> {
        let mut lowest: BinaryHeap<String> = BinaryHeap::new();
        level.has_more = false;
        for entry in Dir::read_from(&level.folder)? {
            let entry = entry?;
            let Ok(name) = std::str::from_utf8(entry.file_name().to_bytes()) else {
                continue;
            };
            let at_top = level.key.is_empty() && self.top.is_root();
            if matches!(name, "." | "..") || crate::is_reserved(at_top, name.as_bytes()) {
                continue;
            }
            let Some(is_folder) = is_folder(&level.folder, name, entry.file_type())? else {
                continue;
            };
            let name = if is_folder {
                format!("{name}/")
            } else {
                name.to_owned()
            };
            if after.is_some_and(|after| name.as_str() <= after) {
                continue;
            }
            let key = format!("{}{name}", level.key);
            let wanted = if is_folder {
                self.may_hold_wanted(&key)
            } else {
                self.is_wanted(&key)
            };
            if !wanted {
                continue;
            }
            lowest.push(name);
            if lowest.len() > BATCH {
                lowest.pop();
                level.has_more = true;
            }
        }
        level.names = lowest.into_sorted_vec();
        level.names.reverse();
        Ok(())
    }
}

/// Whether an entry is a folder; `None` if it is neither that nor a file nor a link.
fn is_folder(folder: &OwnedFd, name: &str, kind: FileType) -> io::Result<Option<bool>> {
    let kind = match kind {
        FileType::Unknown => match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        known => known,
    };
    Ok(match kind {
        FileType::Directory => Some(true),
        FileType::RegularFile | FileType::Symlink => Some(false),
        _ => None,
    })
}

/// Whether there is anything in a folder.
fn has_entries(folder: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(true);
        }
    }
    Ok(false)
}

impl StoreRoot {
    /// The names of the folders at the top, but for the store's own and hidden ones, in order.
    pub fn top_folders(&self) -> io::Result<Vec<(String, SystemTime)>> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(self.top())? {
            let entry = entry?;
            let Ok(name) = std::str::from_utf8(entry.file_name().to_bytes()) else {
                continue;
            };
            if name.starts_with('.')
                || is_folder(self.top(), name, entry.file_type())? != Some(true)
            {
                continue;
            }
            let stat = match rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            folders.push((name.to_owned(), modification_time(&stat)));
        }
        folders.sort();
        Ok(folders)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::store::FileStoreOptions;

    fn store(folder: &std::path::Path) -> Arc<FileStore> {
        let options = FileStoreOptions::default();
        Arc::new(FileStore::open(folder, options).expect("a store"))
    }

    fn walk(store: &Arc<FileStore>, request: KeyWalkRequest) -> Vec<String> {
        let mut walk = KeyWalk::new(store, &ObjectKey::root(), request).expect("a walk");
        let mut keys = Vec::new();
        while let Some(found) = walk.next_key().expect("a step") {
            keys.push(found.key);
        }
        keys
    }

    #[test]
    fn g12_keys_come_in_byte_order_and_not_in_that_of_folders() {
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["a/b", "a-b", "a0", "a/c/d", "b"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, "x").expect("a file");
        }
        fs::create_dir(folder.path().join("empty")).expect("a folder");
        let store = store(folder.path());
        let all = walk(&store, KeyWalkRequest::default());
        assert_eq!(all, ["a-b", "a/b", "a/c/d", "a0", "b"]);
        let flat = KeyWalkRequest {
            is_flat: true,
            ..KeyWalkRequest::default()
        };
        assert_eq!(walk(&store, flat.clone()), ["a-b", "a/", "a0", "b"]);
        let below = KeyWalkRequest {
            prefix: "a/".to_owned(),
            ..flat
        };
        assert_eq!(walk(&store, below), ["a/b", "a/c/"]);
    }

    #[test]
    fn a_folder_with_more_names_than_are_held_is_read_again() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut expected: Vec<String> = (0..BATCH * 2 + 7).map(|n| format!("f{n}")).collect();
        for name in &expected {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        expected.sort();
        let found = walk(&store(folder.path()), KeyWalkRequest::default());
        assert!(found == expected, "{} of {}", found.len(), expected.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn g12_a_walk_finds_what_is_after_a_key_and_has_a_prefix(
            names in proptest::collection::btree_set("[ab-](/?[a0-]){0,3}", 0..14),
            prefix in "[ab-]?(/?[a0-]){0,2}/?",
            after in "[ab-]?(/?[a0-]){0,3}/?",
        ) {
            let folder = tempfile::tempdir().expect("a directory");
            let mut expected = BTreeSet::new();
            for name in names {
                let path = folder.path().join(&name);
                // A name may be a folder of another.
                if fs::create_dir_all(path.parent().expect("a parent")).is_ok()
                    && !path.exists() && fs::write(&path, "x").is_ok() {
                    expected.insert(name);
                }
            }
            let request = KeyWalkRequest { prefix: prefix.clone(), after: after.clone(), ..KeyWalkRequest::default() };
            let found = walk(&store(folder.path()), request);
            let expected: Vec<String> = expected.into_iter()
                .filter(|key| key.starts_with(&prefix) && *key > after).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

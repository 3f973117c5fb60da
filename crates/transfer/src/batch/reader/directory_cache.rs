//! A cache of directory contents, so that a batch does not stat every file.
//!
//! A directory is read once, when its first file is about to be named. If it has few entries, they are remembered, and
//! most names are known not to exist. The cache only saves work: the link that gives a file its name fails if the name
//! is taken, whatever the cache says.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use crate::disk::directory_of;

/// The most names that are remembered of one directory. A larger directory is asked for each file.
const MAX_NAMES: usize = 4096;

/// The most directories that are remembered. Beyond that, all are forgotten and read again when needed.
const MAX_DIRECTORIES: usize = 256;

/// The contents of directories as they were when they were first read.
#[derive(Debug, Default)]
pub(super) struct DirectoryCache {
    /// The names in each directory; `None` for one that has too many or cannot be read. By the text of its path, which is quicker to
    /// compare than the components.
    directories: foldhash::HashMap<OsString, Option<HashSet<OsString>>>,
}

impl DirectoryCache {
    /// Whether the path may exist. Never false for a path that existed when its directory was read.
    pub(super) fn may_exist(&mut self, path: &Path) -> bool {
        match (self.names_beside(path), path.file_name()) {
            (Some(names), Some(name)) => names.contains(name),
            _ => true,
        }
    }

    /// Whether the directory of this path was empty when it was read.
    pub(super) fn is_empty(&mut self, path: &Path) -> bool {
        self.names_beside(path).is_some_and(HashSet::is_empty)
    }

    /// The names in the directory of this path.
    fn names_beside(&mut self, path: &Path) -> Option<&HashSet<OsString>> {
        let directory = directory_of(path);
        if !self.directories.contains_key(directory.as_os_str()) {
            if self.directories.len() >= MAX_DIRECTORIES {
                self.directories.clear();
            }
            self.directories
                .insert(directory.into(), read_names(directory));
        }
        self.directories.get(directory.as_os_str())?.as_ref()
    }
}

fn read_names(directory: &Path) -> Option<HashSet<OsString>> {
    let entries = match std::fs::read_dir(directory) {
        // The directory will be created.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Some(HashSet::new()),
        entries => entries.ok()?,
    };
    let mut read_names = HashSet::new();
    for entry in entries {
        if read_names.len() == MAX_NAMES {
            return None;
        }
        read_names.insert(entry.ok()?.file_name());
    }
    Some(read_names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_names_are_found_and_a_missing_directory_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("there"), "").unwrap();
        let mut cache = DirectoryCache::default();
        assert!(cache.may_exist(&dir.path().join("there")));
        assert!(!cache.may_exist(&dir.path().join("new")));
        assert!(!cache.is_empty(&dir.path().join("new")));
        let later = dir.path().join("later");
        assert!(!cache.may_exist(&later.join("new")));
        assert!(cache.is_empty(&later.join("new")));
    }

    #[test]
    fn a_large_directory_is_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..=MAX_NAMES {
            std::fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        let mut cache = DirectoryCache::default();
        assert!(cache.may_exist(&dir.path().join("new")));
        assert!(!cache.is_empty(&dir.path().join("new")));
    }
}

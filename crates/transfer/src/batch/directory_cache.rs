//! What lies in the directories that a batch fills, without asking the system for each of its files.
//!
//! A directory is read once, when its first file is about to be named; if it holds little, what it holds is remembered, and most names are
//! known not to be there. This only spares work for nothing: the link that gives a file its name fails when it is taken,
//! whatever was seen here.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names that are remembered of one directory; one that holds more is asked each time.
const NAMES: usize = 4096;

/// Directories that are remembered. When there are more, all are forgotten and those in use read again.
const DIRECTORIES: usize = 256;

/// Directories as they were when they were first looked at.
#[derive(Debug, Default)]
pub(super) struct DirectoryCache {
    /// The names in each; `None` for one that holds many, or cannot be read.
    directories: HashMap<PathBuf, Option<HashSet<OsString>>>,
}

impl DirectoryCache {
    /// Whether something may lie there: never false for what lay there when its directory was first seen.
    pub(super) fn may_exist(&mut self, directory: &Path, path: &Path) -> bool {
        if !self.directories.contains_key(directory) {
            if self.directories.len() >= DIRECTORIES {
                self.directories.clear();
            }
            self.directories
                .insert(directory.to_owned(), names(directory));
        }
        match (self.directories.get(directory), path.file_name()) {
            (Some(Some(names)), Some(name)) => names.contains(name),
            _ => true,
        }
    }
}

fn names(directory: &Path) -> Option<HashSet<OsString>> {
    let entries = match std::fs::read_dir(directory) {
        // It will be made.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Some(HashSet::new()),
        entries => entries.ok()?,
    };
    let mut names = HashSet::new();
    for entry in entries {
        if names.len() == NAMES {
            return None;
        }
        names.insert(entry.ok()?.file_name());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_there_is_seen_and_a_new_directory_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("there"), "").unwrap();
        let mut present = DirectoryCache::default();
        assert!(present.may_exist(dir.path(), &dir.path().join("there")));
        assert!(!present.may_exist(dir.path(), &dir.path().join("new")));
        let later = dir.path().join("later");
        assert!(!present.may_exist(&later, &later.join("new")));
    }

    #[test]
    fn a_directory_of_many_names_is_asked_each_time() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..=NAMES {
            std::fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        let mut present = DirectoryCache::default();
        assert!(present.may_exist(dir.path(), &dir.path().join("new")));
    }
}

//! The files of a folder as entries of a sync, in the byte order of their keys.

use std::fs::Metadata;
use std::path::Path;
use std::{fmt, io};

use haul_s3::S3Address;

use super::comparison::SyncEntry;
use crate::bucket::{BucketError, KeyFilter};
use crate::disk::stored_entity_tag;
use crate::filename::has_reserved_suffix;
use crate::folder_walk::{FolderName, FolderProblem, FolderWalk};
use crate::layout::ResourceId;

/// The files below a folder. What is left out by its kind, such as a link to a folder, is an entry all the same, and so reported that a sync
/// does not take it for deleted. The partial files of haul are left out.
pub(super) struct LocalFileEntries {
    walk: FolderWalk,
    filter: KeyFilter,
    /// Where the files come from, if they may have been downloaded: then those that were not changed since have the tag of their object.
    origin: Option<S3Address>,
    on_problem: Box<dyn FnMut(FolderProblem) + Send>,
}

impl fmt::Debug for LocalFileEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFileEntries")
            .field("walk", &self.walk)
            .finish_non_exhaustive()
    }
}

impl LocalFileEntries {
    /// The files that a walk finds. What is not read is reported.
    pub(super) fn new(
        walk: FolderWalk,
        filter: KeyFilter,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> Self {
        Self {
            walk,
            filter,
            origin: None,
            on_problem: Box::new(on_problem),
        }
    }

    /// Files that were downloaded from below `origin` and not changed since get the entity tag of their object.
    pub(super) fn with_tags_of(self, origin: S3Address) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }

    /// The entry of a name; `None` if it is not meant.
    fn found(&self, found: &FolderName) -> Result<Option<SyncEntry>, FolderProblem> {
        let key = found.key()?;
        if has_reserved_suffix(key) || !self.filter.accepts(key) {
            return Ok(None);
        }
        let metadata = found.metadata()?;
        Ok(Some(self.entry(key, &found.path, &metadata)))
    }

    fn entry(&self, key: &str, path: &Path, metadata: &Metadata) -> SyncEntry {
        let tag = || {
            let origin = self.origin.as_ref()?;
            let object = origin.with_key(format!("{}{key}", origin.key));
            let resource = ResourceId::from_url(&object.to_url().ok()?);
            stored_entity_tag(path, metadata, resource)
        };
        SyncEntry {
            entity_tag: tag(),
            key: key.to_owned(),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            is_unread: false,
        }
    }

    /// Reports a problem, unless it is with something that is not meant. The entry of what is left out.
    fn left_out(&mut self, problem: FolderProblem) -> Option<SyncEntry> {
        let key = problem.name.to_str().map(str::to_owned);
        let is_excluded = |key: &str| key.ends_with('/') && self.filter.excludes_folder(key);
        if key.as_deref().is_some_and(is_excluded) {
            return None;
        }
        let entry = key.filter(|_| problem.is_left_out()).map(|key| SyncEntry {
            key,
            size: 0,
            modified: None,
            entity_tag: None,
            is_unread: true,
        });
        (self.on_problem)(problem);
        entry
    }
}

impl Iterator for LocalFileEntries {
    type Item = Result<SyncEntry, BucketError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.walk.next()?.and_then(|found| self.found(&found));
            let entry = match found {
                Ok(entry) => entry,
                Err(problem) => self.left_out(problem),
            };
            if let Some(entry) = entry {
                return Some(Ok(entry));
            }
        }
    }
}

/// Deletes the file of a key below `root`, and the folders that are empty then.
///
/// # Errors
/// The file cannot be deleted. One that does not exist is deleted.
pub(super) fn delete_file(root: &Path, key: &str) -> io::Result<()> {
    let path = root.join(key);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folders = path
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != root);
    for folder in folders {
        // It is not empty, or somebody else is working there.
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use crate::bucket::{KeyPattern, KeyRule};

    use super::*;

    fn write(root: &Path, key: &str) {
        let path = root.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, key).unwrap();
    }

    /// The keys, those that are not read in parentheses, and the names of what was reported.
    fn entries(root: &Path, filter: KeyFilter) -> (Vec<String>, Vec<String>) {
        let problems = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&problems);
        let walk = FolderWalk::open(root, false).unwrap();
        let entries = LocalFileEntries::new(walk, filter, move |problem| {
            let name = problem.name.to_string_lossy().into_owned();
            seen.lock().unwrap().push(name);
        });
        let keys = entries
            .map(|entry| match entry.unwrap() {
                SyncEntry {
                    key,
                    is_unread: true,
                    ..
                } => format!("({key})"),
                entry => entry.key,
            })
            .collect();
        (keys, std::mem::take(&mut problems.lock().unwrap()))
    }

    #[test]
    fn f30_what_is_not_read_is_reported_and_in_the_list() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for key in ["a/file", "partial.haul-part", "partial.haul-journal"] {
            write(root, key);
        }
        std::os::unix::fs::symlink("a/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("a", root.join("folder-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        let (keys, problems) = entries(root, KeyFilter::default());
        assert_eq!(keys, ["a/file", "(fifo)", "(folder-link/)", "link"]);
        assert_eq!(problems, ["fifo", "folder-link/"]);
        let rules = ["f*", "a/*"].map(|text| KeyRule::Exclude(KeyPattern::parse(text)));
        let (keys, problems) = entries(root, KeyFilter::new(rules.into()));
        assert_eq!((keys, problems), (vec!["link".to_owned()], vec![]));
    }

    #[test]
    fn names_that_are_not_utf8_are_reported() {
        use std::os::unix::ffi::OsStrExt as _;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(root, "good");
        std::fs::write(root.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
        let (keys, problems) = entries(root, KeyFilter::default());
        assert_eq!((keys, problems.len()), (vec!["good".to_owned()], 1));
    }

    #[test]
    fn a_deleted_file_takes_empty_folders_along_but_not_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        for key in ["a/b/c", "a/d", "e/f"] {
            write(&root, key);
        }
        delete_file(&root, "a/b/c").unwrap();
        assert!(!root.join("a/b").exists() && root.join("a/d").exists());
        delete_file(&root, "a/d").unwrap();
        delete_file(&root, "e/f").unwrap();
        delete_file(&root, "e/f").unwrap();
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }
}

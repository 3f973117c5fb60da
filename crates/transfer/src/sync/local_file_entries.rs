//! The files of a folder as entries of a sync, in the byte order of their keys.
//!
//! All keys below a folder `a` begin with `a/`, so a folder is sorted as if its name ended with a slash: `a.txt` is before `a/b`. Only the
//! names of the folders that lead to the current file are in memory.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use haul_plan::filename::has_reserved_suffix;
use haul_plan::sync::SyncEntry;
use haul_plan::{KeyFilter, ResourceId};
use haul_s3::S3Address;

use crate::bucket::BucketError;
use crate::disk::stored_entity_tag;

/// The files below a folder. Links to files are followed, links to folders are not, and are entries of their own; what is no file is left
/// out, and so are the partial files of haul.
pub struct LocalFileEntries {
    root: PathBuf,
    /// The folders that lead to the next file.
    levels: Vec<FolderLevel>,
    filter: KeyFilter,
    /// Where the files come from, if they may have been downloaded: then those that were not changed since have the tag of their object.
    origin: Option<S3Address>,
    on_problem: Box<dyn FnMut(FolderProblem) + Send>,
}

/// Something that could not be read. Keys below it are missing from the list.
#[derive(Debug)]
pub struct FolderProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// A folder that is being read.
#[derive(Debug)]
struct FolderLevel {
    /// The key that its names follow: empty, or with a slash at the end.
    prefix: String,
    /// What is left of it; the next name is the last one.
    names: Vec<FolderName>,
}

/// A name in a folder.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FolderName {
    /// With a slash if it is that of a folder.
    name: String,
    /// Whether it is a link to a folder.
    is_folder_link: bool,
}

impl fmt::Debug for LocalFileEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFileEntries")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl LocalFileEntries {
    /// The files below `root`. What cannot be read is reported and left out.
    ///
    /// # Errors
    /// `root` cannot be read.
    pub fn open(
        root: &Path,
        filter: KeyFilter,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> io::Result<Self> {
        let mut entries = Self {
            root: root.to_owned(),
            levels: Vec::new(),
            filter,
            origin: None,
            on_problem: Box::new(on_problem),
        };
        let names = entries.read_folder(root)?;
        entries.levels.push(FolderLevel {
            prefix: String::new(),
            names,
        });
        Ok(entries)
    }

    /// No files: the folder will be made.
    #[must_use]
    pub fn of_missing_folder(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            levels: Vec::new(),
            filter: KeyFilter::default(),
            origin: None,
            on_problem: Box::new(drop),
        }
    }

    /// Files that were downloaded from below `origin` and not changed since get the entity tag of their object.
    #[must_use]
    pub fn with_tags_of(self, origin: S3Address) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }

    /// The names of a folder, the last one first.
    fn read_folder(&mut self, path: &Path) -> io::Result<Vec<FolderName>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = match entry.file_name().into_string() {
                Ok(name) => name,
                Err(name) => {
                    let reason = "the name is not UTF-8, and keys are".to_owned();
                    let path = path.join(name);
                    (self.on_problem)(FolderProblem { path, reason });
                    continue;
                }
            };
            if has_reserved_suffix(&name) {
                continue;
            }
            let kind = entry.file_type()?;
            let is_folder_link = kind.is_symlink() && entry.path().is_dir();
            names.push(FolderName {
                name: match kind.is_dir() || is_folder_link {
                    true => name + "/",
                    false => name,
                },
                is_folder_link,
            });
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        Ok(names)
    }

    fn entry(&self, key: String, path: &Path, metadata: &Metadata) -> SyncEntry {
        let tag = || {
            let origin = self.origin.as_ref()?;
            let object = origin.with_key(format!("{}{key}", origin.key));
            let resource = ResourceId::from_url(&object.to_url().ok()?);
            stored_entity_tag(path, metadata, resource)
        };
        SyncEntry {
            entity_tag: tag(),
            key,
            size: metadata.len(),
            modified: metadata.modified().ok(),
            is_unread_folder: false,
        }
    }

    /// Also what is not found is a problem: a link's target may be on a disk that is not mounted, and a folder that vanishes takes keys along
    /// that nobody meant to delete.
    fn report(&mut self, path: PathBuf, error: &io::Error) {
        let reason = error.to_string();
        (self.on_problem)(FolderProblem { path, reason });
    }
}

impl Iterator for LocalFileEntries {
    type Item = Result<SyncEntry, BucketError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(next) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            let key = format!("{}{}", level.prefix, next.name);
            if next.is_folder_link {
                return Some(Ok(SyncEntry {
                    key,
                    size: 0,
                    modified: None,
                    entity_tag: None,
                    is_unread_folder: true,
                }));
            }
            let path = self.root.join(&key);
            if key.ends_with('/') {
                match self.read_folder(&path) {
                    Ok(names) => self.levels.push(FolderLevel { prefix: key, names }),
                    Err(error) => self.report(path, &error),
                }
                continue;
            }
            if !self.filter.accepts(&key) {
                continue;
            }
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    return Some(Ok(self.entry(key, &path, &metadata)));
                }
                Ok(_) => {}
                Err(error) => self.report(path, &error),
            }
        }
    }
}

impl fmt::Display for FolderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.path.display(), self.reason)
    }
}

/// Deletes the file of a key below `root`, and the folders that are empty then.
///
/// # Errors
/// The file cannot be deleted. One that does not exist is deleted.
pub fn delete_file(root: &Path, key: &str) -> io::Result<()> {
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
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    fn keys(root: &Path) -> Vec<String> {
        let entries = LocalFileEntries::open(root, KeyFilter::default(), |problem| {
            panic!("{problem}");
        });
        entries.unwrap().map(|entry| entry.unwrap().key).collect()
    }

    fn write(root: &Path, key: &str) -> bool {
        let path = root.join(key);
        // A file and a folder of the same name cannot both be there.
        std::fs::create_dir_all(path.parent().unwrap()).is_ok() && std::fs::write(path, key).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn files_come_in_the_byte_order_of_their_keys(
            names in prop::collection::vec("[ab!0]{1,2}(/[ab.~-]{1,2}x){0,2}", 0..24)
        ) {
            let directory = tempfile::tempdir().unwrap();
            let written: BTreeSet<String> = names
                .into_iter()
                .filter(|key| write(directory.path(), key))
                .collect();
            prop_assert_eq!(keys(directory.path()), written.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn links_to_files_are_followed_and_what_is_no_file_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for key in ["a/file", "partial.haul-part", "partial.haul-journal"] {
            assert!(write(root, key));
        }
        std::os::unix::fs::symlink("a/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("a", root.join("folder-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(keys(root), ["a/file", "folder-link/", "link"]);
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        use std::os::unix::ffi::OsStrExt as _;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(write(root, "good"));
        std::fs::write(root.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
        let problems = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&problems);
        let entries = LocalFileEntries::open(root, KeyFilter::default(), move |problem| {
            seen.lock().unwrap().push(problem.to_string());
        });
        assert_eq!(entries.unwrap().count(), 1);
        assert!(problems.lock().unwrap()[0].contains("not UTF-8"));
        assert!(LocalFileEntries::open(&root.join("none"), KeyFilter::default(), |_| {}).is_err());
    }

    /// A sync must not take them for deleted.
    #[test]
    fn f28_what_vanishes_while_a_folder_is_read_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for key in ["a", "b/c"] {
            assert!(write(root, key));
        }
        std::os::unix::fs::symlink("unmounted/file", root.join("link")).unwrap();
        let problems = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&problems);
        let entries = LocalFileEntries::open(root, KeyFilter::default(), move |problem| {
            seen.lock().unwrap().push(problem.path);
        });
        // The root's names have been read.
        std::fs::remove_dir_all(root.join("b")).unwrap();
        let found = entries.unwrap().map(|entry| entry.unwrap().key);
        assert_eq!(found.collect::<Vec<_>>(), ["a"]);
        let missing = ["b/", "link"].map(|name| root.join(name));
        assert_eq!(*problems.lock().unwrap(), missing);
    }

    #[test]
    fn a_deleted_file_takes_empty_folders_along_but_not_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        for key in ["a/b/c", "a/d", "e/f"] {
            assert!(write(&root, key));
        }
        delete_file(&root, "a/b/c").unwrap();
        assert!(!root.join("a/b").exists() && root.join("a/d").exists());
        delete_file(&root, "a/d").unwrap();
        delete_file(&root, "e/f").unwrap();
        delete_file(&root, "e/f").unwrap();
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }
}

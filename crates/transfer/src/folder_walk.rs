//! The files below a folder, in the byte order of their names, for uploads and for both sides of a sync.
//!
//! All names below a folder `a` begin with `a/`, so a folder is sorted as if its name ended with a slash: `a.txt` is before `a/b`. Only the
//! names of the folders that lead to the current file are in memory.
//!
//! Links to files are followed. Links to folders are followed only if the caller wants that: they may lead out of the folder, and back into
//! it. What is not read is a [`FolderProblem`], and never left out silently.

use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The names below a folder. A name is looked at when its turn comes, so that a caller can leave out what it does not want.
#[derive(Debug)]
pub struct FolderWalk {
    root: PathBuf,
    follows_links: bool,
    /// The folders that lead to the next file.
    levels: Vec<FolderLevel>,
}

/// A name that is not a folder's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderName {
    /// The name below the walk's folder, with `/` between its parts.
    pub name: OsString,
    pub path: PathBuf,
}

/// Something below a folder that is not read.
#[derive(Debug)]
pub struct FolderProblem {
    /// The name below the walk's folder; that of a folder, or of a link to one, ends with a slash.
    pub name: OsString,
    pub path: PathBuf,
    pub kind: FolderProblemKind,
}

/// Why something is not read.
#[derive(Debug)]
pub enum FolderProblemKind {
    /// It is a link to a folder, and such links are not followed.
    FolderLink,
    /// It leads back to a folder above it, by a link.
    FolderLoop,
    /// It is something else than a file: the name of its kind, with an article.
    NotAFile(&'static str),
    /// Its name is not UTF-8, and keys are.
    NotUtf8,
    /// The system's error.
    Io(io::Error),
}

/// A folder that is being read.
#[derive(Debug)]
struct FolderLevel {
    /// The name that its names follow: empty, or with a slash at the end.
    prefix: OsString,
    /// What is left of it; the next name is the last one. Those of folders and of links to folders end with a slash.
    names: Vec<OsString>,
    identity: FolderIdentity,
}

/// A folder, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderIdentity {
    device: u64,
    inode: u64,
}

impl FolderWalk {
    /// The names below `root`, which may be a link.
    ///
    /// # Errors
    /// `root` cannot be read.
    pub fn open(root: &Path, follows_links: bool) -> io::Result<Self> {
        let level = FolderLevel {
            prefix: OsString::new(),
            names: read_folder(root)?,
            identity: FolderIdentity::of(root)?,
        };
        Ok(Self {
            root: root.to_owned(),
            follows_links,
            levels: vec![level],
        })
    }

    /// No names: the folder will be made.
    #[must_use]
    pub fn of_missing_folder(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            follows_links: false,
            levels: Vec::new(),
        }
    }

    /// Enters a folder, or returns why it cannot.
    fn enter(&mut self, name: OsString, path: PathBuf) -> Option<FolderProblem> {
        match self.level(&name, &path) {
            Ok(level) => self.levels.push(level),
            Err(kind) => return Some(FolderProblem { name, path, kind }),
        }
        None
    }

    fn level(&self, name: &OsStr, path: &Path) -> Result<FolderLevel, FolderProblemKind> {
        // Without its slash, which would stand for what is behind the link.
        let link = self.root.join(OsStr::from_bytes(without_slash(name)));
        let is_link = link.symlink_metadata()?.is_symlink();
        if is_link && !self.follows_links {
            return Err(FolderProblemKind::FolderLink);
        }
        let identity = FolderIdentity::of(path)?;
        if self.levels.iter().any(|level| level.identity == identity) {
            return Err(FolderProblemKind::FolderLoop);
        }
        Ok(FolderLevel {
            prefix: name.to_owned(),
            names: read_folder(path)?,
            identity,
        })
    }
}

impl Iterator for FolderWalk {
    type Item = Result<FolderName, FolderProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(next) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            let mut name = level.prefix.clone();
            name.push(next);
            let path = self.root.join(&name);
            if !name.as_bytes().ends_with(b"/") {
                return Some(Ok(FolderName { name, path }));
            }
            if let Some(problem) = self.enter(name, path) {
                return Some(Err(problem));
            }
        }
    }
}

impl FolderName {
    /// Looks at the file, or at what a link leads to.
    ///
    /// # Errors
    /// It is not a file, or is gone. Also a link's target that is not found is a problem: it may be on a disk that is not mounted.
    pub fn metadata(&self) -> Result<Metadata, FolderProblem> {
        let kind = match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => return Ok(metadata),
            Ok(metadata) => FolderProblemKind::NotAFile(kind_of(&metadata)),
            Err(error) => FolderProblemKind::Io(error),
        };
        Err(self.problem(kind))
    }

    /// The name as a key.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn key(&self) -> Result<&str, FolderProblem> {
        let key = self.name.to_str();
        key.ok_or_else(|| self.problem(FolderProblemKind::NotUtf8))
    }

    fn problem(&self, kind: FolderProblemKind) -> FolderProblem {
        FolderProblem {
            name: self.name.clone(),
            path: self.path.clone(),
            kind,
        }
    }
}

impl FolderIdentity {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// The names of a folder, the last one first.
fn read_folder(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = std::fs::read_dir(path)?
        .map(|entry| name_in_folder(&entry?))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

fn name_in_folder(entry: &DirEntry) -> io::Result<OsString> {
    let mut name = entry.file_name();
    let kind = entry.file_type()?;
    if kind.is_dir() || kind.is_symlink() && entry.path().is_dir() {
        name.push("/");
    }
    Ok(name)
}

fn without_slash(name: &OsStr) -> &[u8] {
    let bytes = name.as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

/// The kind of a folder.
const FOLDER: &str = "a folder";

/// What is not a file.
fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        FOLDER
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

impl From<io::Error> for FolderProblemKind {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FolderProblem {
    /// Whether it is a pipe, a socket or a device.
    #[must_use]
    pub fn is_special_file(&self) -> bool {
        matches!(self.kind, FolderProblemKind::NotAFile(kind) if kind != FOLDER)
    }

    /// Whether something is there that is left out by its kind, as a link to a folder is or a FIFO: the name is not missing.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        match self.kind {
            FolderProblemKind::FolderLink
            | FolderProblemKind::FolderLoop
            | FolderProblemKind::NotAFile(_) => true,
            FolderProblemKind::NotUtf8 | FolderProblemKind::Io(_) => false,
        }
    }
}

impl fmt::Display for FolderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path_text = self.path.display().to_string();
        let path = path_text.trim_end_matches('/');
        match &self.kind {
            FolderProblemKind::FolderLink => {
                write!(
                    f,
                    "{path} is a link to a folder, which haul does not follow"
                )
            }
            FolderProblemKind::FolderLoop => {
                write!(f, "{path} leads back to a folder above it by a link")
            }
            FolderProblemKind::NotAFile(kind) => write!(f, "{path} is {kind}, not a file"),
            FolderProblemKind::NotUtf8 => {
                write!(f, "the name {path} is not UTF-8, and keys are")
            }
            FolderProblemKind::Io(error) => write!(f, "cannot read {path}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// The names of files, and the texts of problems without the root.
    fn walk(root: &Path, follows_links: bool) -> (Vec<String>, Vec<String>) {
        let (mut names, mut problems) = (Vec::new(), Vec::new());
        for found in FolderWalk::open(root, follows_links).unwrap() {
            let found = found.and_then(|found| found.metadata().map(|_| found.name));
            match found {
                Ok(name) => names.push(name.into_string().unwrap()),
                Err(problem) => {
                    let text = problem.to_string();
                    problems.push(text.replace(&format!("{}/", root.display()), ""));
                }
            }
        }
        (names, problems)
    }

    fn write(root: &Path, name: &str) -> bool {
        let path = root.join(name);
        // A file and a folder of the same name cannot both be there.
        std::fs::create_dir_all(path.parent().unwrap()).is_ok()
            && std::fs::write(path, name).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn files_come_in_the_byte_order_of_their_names(
            names in prop::collection::vec("[ab!0]{1,2}(/[ab.~-]{1,2}x){0,2}", 0..24)
        ) {
            let directory = tempfile::tempdir().unwrap();
            let written: BTreeSet<String> = names
                .into_iter()
                .filter(|name| write(directory.path(), name))
                .collect();
            let written = (written.into_iter().collect::<Vec<_>>(), vec![]);
            prop_assert_eq!(walk(directory.path(), false), written);
        }
    }

    #[test]
    fn f30_everything_that_is_no_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(write(root, "a/file") && write(root, "b"));
        symlink("a/file", root.join("link")).unwrap();
        symlink("a", root.join("to-folder")).unwrap();
        symlink("none/file", root.join("to-nothing")).unwrap();
        symlink("itself", root.join("itself")).unwrap();
        for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
            mknodat(CWD, root.join(name), kind, Mode::RUSR, 0).unwrap();
        }
        symlink("/dev/null", root.join("null")).unwrap();
        let (names, problems) = walk(root, false);
        assert_eq!(names, ["a/file", "b", "link"]);
        assert_eq!(
            problems,
            [
                "fifo is a FIFO, not a file",
                "cannot read itself: Too many levels of symbolic links (os error 40)",
                "null is a device, not a file",
                "socket is a socket, not a file",
                "to-folder is a link to a folder, which haul does not follow",
                "cannot read to-nothing: No such file or directory (os error 2)",
            ]
        );
    }

    #[test]
    fn f30_links_to_folders_are_followed_on_demand_and_loops_end() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        assert!(write(&root, "a/b/file") && write(directory.path(), "outside/x"));
        symlink("../../a", root.join("a/b/up")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink(".", root.join("self")).unwrap();
        // Out of the root and back into it.
        symlink("..", root.join("two-up")).unwrap();
        // A link to a folder beside it is not a loop.
        symlink("a/b", root.join("twice")).unwrap();
        let (names, problems) = walk(&root, true);
        assert_eq!(
            names,
            ["a/b/file", "out/x", "twice/file", "two-up/outside/x"]
        );
        let is_loop =
            |problem: &String| problem.ends_with(" leads back to a folder above it by a link");
        assert!(problems.iter().all(is_loop), "{problems:?}");
        assert_eq!(problems.len(), 4, "{problems:?}");
        // A link as the root is meant.
        symlink("root", directory.path().join("root-link")).unwrap();
        let (names, _) = walk(&directory.path().join("root-link"), false);
        assert_eq!(names, ["a/b/file"]);
    }

    /// A sync must not take them for deleted.
    #[test]
    fn f28_what_vanishes_while_a_folder_is_read_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["a", "b/c"] {
            assert!(write(root, name));
        }
        let found = FolderWalk::open(root, false).unwrap();
        // The root's names have been read.
        std::fs::remove_dir_all(root.join("b")).unwrap();
        let found: Vec<_> = found
            .map(|found| {
                found
                    .map(|found| found.name)
                    .map_err(|problem| problem.path)
            })
            .collect();
        assert_eq!(found, [Ok("a".into()), Err(root.join("b/"))]);
        assert!(FolderWalk::open(&root.join("none"), false).is_err());
    }
}

//! Which paths of a batch are assigned, and to which URL: two URLs that want one path get two, the same ones
//! on every run.
//!
//! A million paths must not be a million strings, so a path is remembered by 56 bits of its digest and its
//! URL by 48. That two of a million paths share their 56 bits happens once in a hundred thousand batches. It
//! then costs a needless suffix, or a path of the list is called a conflict: never one file in the place of
//! another. Only if the bits of the URLs are the same as well would a file be left out as a duplicate.
//!
//! Paths that are made of URLs (derived) are compared as a file system that folds case does, so that `A.jpg`
//! and `a.jpg` are two files everywhere, and so do both ways to compose an `é`. Paths that a list names
//! (explicit) are compared as they are: they may differ by case for a reason. The caller learns of such a pair
//! ([`PathAssignment::AssignedUnlessFolded`]), since only the disk tells whether it has two files for them.
//! Directories are remembered like files, so that neither takes the path of the other.
//!
//! The order of the list decides which URL comes first, and another list, or the same in another order, would
//! give the name without a suffix to another URL. The files that earlier runs left decide better than the
//! order: so the caller, which can read the disk, checks each [`PathCandidate`], and a file that is known to
//! belong to another URL is skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use haul_plan::hex;
use url::Url;

use super::path_digest::{self, PathDigest};
use crate::filename;

/// The bits of a path's digest.
type AssignedPathKey = [u8; 7];

/// The bits of a URL's digest.
type AssignedUrlKey = [u8; 6];

/// In place of a URL: the path is a directory.
const DIRECTORY: AssignedUrlKey = [0; 6];

/// How many hexadecimal digits of a digest a suffix has: the second length if the first is taken, and so on.
/// In a million URLs of one name a hundred need the second.
const TAG_LENGTHS: [usize; 4] = [8, 16, 32, 64];

/// The paths assigned so far.
#[derive(Debug, Default)]
pub(crate) struct AssignedPaths {
    /// The URL of each path; explicit paths have other keys than derived ones. An explicit path with capital
    /// letters has a second key, by which others that differ from it in case are found.
    assigned: BTreeMap<AssignedPathKey, AssignedUrlKey>,
    /// The last directory that was assigned, and how it is compared. Neighbours in a list often share it.
    last_directory: Option<(PathBuf, PathComparison)>,
    /// Whether any path was explicit: while none was, only derived paths need to be looked up.
    any_explicit: bool,
    /// Whether the folded form of any explicit path was remembered as well.
    any_folded: bool,
}

/// How a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathComparison {
    /// A derived path: letters are equal whatever their case.
    CaseFolded,
    /// An explicit path: as it is.
    Exact,
    /// An explicit path that is not its own folded form: by that form.
    ExactFolded,
}

/// A path that a URL could get.
#[derive(Debug)]
pub(crate) struct PathCandidate<'a> {
    path: &'a Path,
    /// The wanted name.
    name: &'a str,
    /// The digest of the URL.
    digest: &'a PathDigest,
    /// How many suffixes were tried.
    suffixes_tried: usize,
}

impl PathCandidate<'_> {
    /// The path.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.path
    }

    /// The path that the URL gets if it does not get this one. It is made of the URL's digest, so that a file
    /// of this name was put there for this URL.
    #[must_use]
    pub(crate) fn alternative(&self) -> Option<PathBuf> {
        let length = TAG_LENGTHS.get(self.suffixes_tried)?;
        let name = with_digest_tag(self.name, self.digest, *length);
        Some(self.path.with_file_name(name))
    }
}

/// The result of assigning a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathAssignment {
    /// This path, which no other URL has.
    Assigned(PathBuf),
    /// This path, which is explicit. A path of another URL differs from it only by the case of letters or the
    /// way to compose them, and a file system that folds names has one file for both.
    AssignedUnlessFolded(PathBuf),
    /// The same URL wanted the same path before, and has it.
    Duplicate(PathBuf),
    /// The path is explicit, and another URL has it, or a file would be where a directory is needed (or the
    /// reverse).
    Conflict,
}

impl AssignedPaths {
    /// No path is assigned.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Assigns a path. An `explicit` one is assigned as it is or not at all. If a derived one belongs to
    /// another URL, some digits of the URL's digest go before its extension: `photo.1f3a9c2b.jpg`. So they do
    /// where `belongs_to_another_url` says so of the file on the disk. URLs that differ in login or fragment
    /// alone are the same.
    pub(crate) fn assign(
        &mut self,
        wanted: PathBuf,
        url: &Url,
        explicit: bool,
        belongs_to_another_url: impl FnMut(PathCandidate<'_>) -> bool,
    ) -> PathAssignment {
        let digest = path_digest::digest_url(url);
        let mut url_key: AssignedUrlKey = first_bytes(&digest);
        if url_key == DIRECTORY {
            url_key = [1; 6];
        }
        if explicit {
            self.any_explicit = true;
            self.assign_explicit(wanted, url_key)
        } else {
            self.assign_derived(&wanted, url_key, &digest, belongs_to_another_url)
        }
    }

    fn assign_explicit(&mut self, wanted: PathBuf, url_key: AssignedUrlKey) -> PathAssignment {
        let key = path_key(&wanted, PathComparison::Exact);
        match self.assigned_to(key, &wanted, PathComparison::Exact) {
            Some(other) if other == url_key => return PathAssignment::Duplicate(wanted),
            Some(_) => return PathAssignment::Conflict,
            None => {}
        }
        let parent = parent_directory(&wanted);
        if !self.is_last_directory(parent, PathComparison::Exact) {
            let mut directories: Vec<&Path> = parent.ancestors().collect();
            // From the top down, so that the directories remembered before a conflict are ones that others
            // need.
            directories.reverse();
            if !directories
                .iter()
                .all(|path| self.assign_directory(path, PathComparison::Exact))
            {
                return PathAssignment::Conflict;
            }
            self.last_directory = Some((parent.to_owned(), PathComparison::Exact));
        }
        self.assigned.insert(key, url_key);
        if self.assign_folded_form(&wanted, url_key) {
            PathAssignment::AssignedUnlessFolded(wanted)
        } else {
            PathAssignment::Assigned(wanted)
        }
    }

    /// Remembers the folded form of an explicit path. Whether another explicit path has it, too.
    fn assign_folded_form(&mut self, path: &Path, url_key: AssignedUrlKey) -> bool {
        let text = path.to_string_lossy();
        let folded = filename::folded(&text);
        let is_folded = folded == text;
        if is_folded && !self.any_folded {
            return false;
        }
        let key = path_key(path, PathComparison::ExactFolded);
        if is_folded {
            return self.assigned.contains_key(&key);
        }
        self.any_folded = true;
        let exact = path_key(Path::new(&*folded), PathComparison::Exact);
        let is_file = |found: &AssignedUrlKey| *found != DIRECTORY;
        let has_twin = self.assigned.get(&exact).is_some_and(is_file);
        // Two paths of one URL are two files as well.
        self.assigned.insert(key, url_key).is_some() || has_twin
    }

    fn assign_derived(
        &mut self,
        wanted: &Path,
        url_key: AssignedUrlKey,
        digest: &PathDigest,
        mut belongs_to_another_url: impl FnMut(PathCandidate<'_>) -> bool,
    ) -> PathAssignment {
        let directory = self.assignable_directory(parent_directory(wanted));
        let name = wanted.file_name().unwrap_or_default().to_string_lossy();
        let tags = std::iter::once(0).chain(TAG_LENGTHS);
        let paths = tags.map(|length| directory.join(with_digest_tag(&name, digest, length)));
        for (tried, path) in paths.enumerate() {
            let key = path_key(&path, PathComparison::CaseFolded);
            match self.assigned_to(key, &path, PathComparison::CaseFolded) {
                Some(other) if other == url_key => return PathAssignment::Duplicate(path),
                Some(_) => continue,
                None => {}
            }
            let candidate = PathCandidate {
                path: &path,
                name: &name,
                digest,
                suffixes_tried: tried,
            };
            if !belongs_to_another_url(candidate) {
                self.assigned.insert(key, url_key);
                return PathAssignment::Assigned(path);
            }
        }
        // An explicit path has this URL's whole digest as its suffix.
        PathAssignment::Conflict
    }

    /// Assigns the directories of a path. Where a component is a file already, that component gets a suffix
    /// of the directory's own path, so that all its files stay together.
    fn assignable_directory(&mut self, wanted: &Path) -> PathBuf {
        if self.is_last_directory(wanted, PathComparison::CaseFolded) {
            return wanted.to_owned();
        }
        let mut path = PathBuf::new();
        for component in wanted.components() {
            path.push(component);
            if self.assign_directory(&path, PathComparison::CaseFolded) {
                continue;
            }
            let digest = path_digest::digest_text(b'd', &path.to_string_lossy());
            let name = component.as_os_str().to_string_lossy();
            let tagged = TAG_LENGTHS
                .map(|length| path.with_file_name(with_digest_tag(&name, &digest, length)));
            let mut free = tagged
                .into_iter()
                .filter(|path| self.assign_directory(path, PathComparison::CaseFolded));
            // If every such path is taken, somebody chose these names on purpose, and creating the directory fails.
            if let Some(tagged) = free.next() {
                path = tagged;
            }
        }
        self.last_directory = Some((path.clone(), PathComparison::CaseFolded));
        path
    }

    /// Remembers a directory, unless it is a file.
    fn assign_directory(&mut self, path: &Path, comparison: PathComparison) -> bool {
        if path.file_name().is_none() {
            return true;
        }
        let key = path_key(path, comparison);
        let url_key = self.assigned_to(key, path, comparison);
        if url_key.is_none_or(|url_key| url_key == DIRECTORY) {
            self.assigned.entry(key).or_insert(DIRECTORY);
            return true;
        }
        false
    }

    /// Whether this directory is the last one that was assigned: a directory stays one.
    fn is_last_directory(&self, path: &Path, comparison: PathComparison) -> bool {
        let last = self.last_directory.as_ref();
        last.is_some_and(|(last, by)| *by == comparison && last == path)
    }

    /// Which URL has a path, however it was compared. `key` is the path's key by its own comparison, which is
    /// looked up first.
    fn assigned_to(
        &self,
        key: AssignedPathKey,
        path: &Path,
        comparison: PathComparison,
    ) -> Option<AssignedUrlKey> {
        let other = || match comparison {
            PathComparison::CaseFolded if !self.any_explicit => None,
            PathComparison::CaseFolded => self.assigned.get(&path_key(path, PathComparison::Exact)),
            PathComparison::Exact | PathComparison::ExactFolded => self
                .assigned
                .get(&path_key(path, PathComparison::CaseFolded)),
        };
        self.assigned.get(&key).or_else(other).copied()
    }
}

/// The directory of a path; empty for the batch's own.
fn parent_directory(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

/// A name with `length` digits of a digest before its extension; unchanged for 0.
fn with_digest_tag(name: &str, digest: &PathDigest, length: usize) -> String {
    if length == 0 {
        return name.to_owned();
    }
    filename::with_tag(name, &format!(".{}", &hex(digest)[..length]))
}

fn path_key(path: &Path, comparison: PathComparison) -> AssignedPathKey {
    let text = path.to_string_lossy();
    first_bytes(&match comparison {
        PathComparison::CaseFolded => path_digest::digest_text(b'm', &filename::folded(&text)),
        PathComparison::Exact => path_digest::digest_text(b'n', &text),
        PathComparison::ExactFolded => path_digest::digest_text(b'o', &filename::folded(&text)),
    })
}

/// The first bytes of a digest.
fn first_bytes<const N: usize>(digest: &PathDigest) -> [u8; N] {
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests;

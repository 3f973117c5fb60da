//! Which paths of a batch are taken, and by which URL: two URLs that want one path get two, the same ones on every run.
//!
//! A million paths must not be a million strings, so a path is remembered by 56 bits of its digest and its URL by 48. That two
//! of a million paths share their 56 bits happens once in a hundred thousand batches. It then costs a suffix that nobody needed,
//! or a path of the list's own is called a conflict: never one file in the place of another. Only if the URLs' bits are the
//! same as well would a file be left out as a duplicate.
//!
//! Paths made of URLs are compared as a file system does that folds case, so that `A.jpg` and `a.jpg` are two files on every
//! one. Paths that a list names are compared as they are: they may differ by case for a reason, and where the disk folds it, the
//! disk says so. Directories are remembered like files, so that none takes the path of the other. Different ways to compose a
//! letter (`é` as one or two characters) are different letters here.
//!
//! Which URL comes first is the list's order, and another list, or the same in another order, would give another URL the name
//! without a suffix. What earlier runs left tells better than the order whose a name is: so whoever looks at the disk is asked
//! about each [`PathCandidate`], and one that is known to be another URL's is passed over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use url::Url;

use super::path_digest::{self, PathDigest};
use crate::filename;

/// What a path is remembered by.
type AssignedPathKey = [u8; 7];

/// What a URL is remembered by.
type AssignedUrlKey = [u8; 6];

/// Stands in a holder's place where a path is that of a directory.
const DIRECTORY: AssignedUrlKey = [0; 6];

/// How much of a digest a suffix shows, at first. In a million URLs of one name a hundred need the second.
const TAG_LENGTHS: [usize; 4] = [8, 16, 32, 64];

/// The paths given out so far.
#[derive(Debug, Default)]
pub struct AssignedPaths {
    /// Who holds which path; a path that was named is under another key than one that was made.
    assigned: BTreeMap<AssignedPathKey, AssignedUrlKey>,
    /// The last directory that was looked at, and by which rule. Neighbours in a list often share it.
    last_directory: Option<(PathBuf, PathComparison)>,
    /// Whether any path was named: while none was, only those that were made need to be looked for.
    any_explicit: bool,
}

/// How a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathComparison {
    /// Made of a URL: by its letters, whatever their case.
    CaseFolded,
    /// Named by the list: as it is.
    Exact,
}

/// A path that a URL could get.
#[derive(Debug)]
pub struct PathCandidate<'a> {
    path: &'a Path,
    /// The name that is wanted.
    name: &'a str,
    /// The URL's digest.
    digest: &'a PathDigest,
    /// How many suffixes were tried.
    suffixes_tried: usize,
}

impl PathCandidate<'_> {
    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.path
    }

    /// The path that the URL gets if it does not get this one: made of its digest, so that whatever lies there was put there for it.
    #[must_use]
    pub fn alternative(&self) -> Option<PathBuf> {
        let length = TAG_LENGTHS.get(self.suffixes_tried)?;
        let name = with_digest_tag(self.name, self.digest, *length);
        Some(self.path.with_file_name(name))
    }
}

/// What came of asking for a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathAssignment {
    /// This path, which nobody else has.
    Assigned(PathBuf),
    /// The same URL wanted the same path before.
    Duplicate,
    /// The path is the list's own word, and another URL has it, or it would need a directory where a file is (or the reverse).
    Conflict,
}

impl AssignedPaths {
    /// Nothing taken.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a path out. An `explicit` one is taken as it is or not at all; for another that is taken, a part of the URL's
    /// digest goes before its ending: `photo.1f3a9c2b.jpg`. URLs that differ in login or fragment alone are the same. So it does
    /// where `is_anothers` says of a path that nobody has yet that what lies there is another URL's.
    pub fn assign(
        &mut self,
        wanted: PathBuf,
        url: &Url,
        explicit: bool,
        is_anothers: impl FnMut(PathCandidate<'_>) -> bool,
    ) -> PathAssignment {
        let sum = path_digest::digest_url(url);
        let mut holder: AssignedUrlKey = first_bytes(&sum);
        if holder == DIRECTORY {
            holder = [1; 6];
        }
        if explicit {
            self.any_explicit = true;
            self.assign_explicit(wanted, holder)
        } else {
            self.assign_derived(&wanted, (holder, &sum), is_anothers)
        }
    }

    fn assign_explicit(&mut self, wanted: PathBuf, holder: AssignedUrlKey) -> PathAssignment {
        let key = path_key(&wanted, PathComparison::Exact);
        match self.holder(key, &wanted, PathComparison::Exact) {
            Some(other) if other == holder => return PathAssignment::Duplicate,
            Some(_) => return PathAssignment::Conflict,
            None => {}
        }
        let above = parent_directory(&wanted);
        if !self.is_last_directory(above, PathComparison::Exact) {
            let mut directories: Vec<&Path> = above.ancestors().collect();
            // From the top down, so that what is remembered on the way to a conflict are directories that others need.
            directories.reverse();
            if !directories
                .iter()
                .all(|path| self.assign_directory(path, PathComparison::Exact))
            {
                return PathAssignment::Conflict;
            }
            self.last_directory = Some((above.to_owned(), PathComparison::Exact));
        }
        self.assigned.insert(key, holder);
        PathAssignment::Assigned(wanted)
    }

    fn assign_derived(
        &mut self,
        wanted: &Path,
        (holder, sum): (AssignedUrlKey, &PathDigest),
        mut is_anothers: impl FnMut(PathCandidate<'_>) -> bool,
    ) -> PathAssignment {
        let directory = self.assignable_directory(parent_directory(wanted));
        let name = wanted.file_name().unwrap_or_default().to_string_lossy();
        let tags = std::iter::once(0).chain(TAG_LENGTHS);
        let paths = tags.map(|length| directory.join(with_digest_tag(&name, sum, length)));
        for (tried, path) in paths.enumerate() {
            let key = path_key(&path, PathComparison::CaseFolded);
            match self.holder(key, &path, PathComparison::CaseFolded) {
                Some(other) if other == holder => return PathAssignment::Duplicate,
                Some(_) => continue,
                None => {}
            }
            let candidate = PathCandidate {
                path: &path,
                name: &name,
                digest: sum,
                suffixes_tried: tried,
            };
            if !is_anothers(candidate) {
                self.assigned.insert(key, holder);
                return PathAssignment::Assigned(path);
            }
        }
        // Somebody named a path that ends in this URL's whole digest.
        PathAssignment::Conflict
    }

    /// A directory as it can be had: where a component of it is a file already, that component gets a suffix, too. It is made
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
            let sum = path_digest::digest_text(b'd', &path.to_string_lossy());
            let name = component.as_os_str().to_string_lossy();
            let tagged =
                TAG_LENGTHS.map(|length| path.with_file_name(with_digest_tag(&name, &sum, length)));
            let mut free = tagged
                .into_iter()
                .filter(|path| self.assign_directory(path, PathComparison::CaseFolded));
            // That none is free takes somebody who names such paths on purpose: then creating the directory fails.
            if let Some(tagged) = free.next() {
                path = tagged;
            }
        }
        self.last_directory = Some((path.clone(), PathComparison::CaseFolded));
        path
    }

    /// Remembers a directory, unless it is a file.
    fn assign_directory(&mut self, path: &Path, rule: PathComparison) -> bool {
        if path.file_name().is_none() {
            return true;
        }
        let key = path_key(path, rule);
        let holder = self.holder(key, path, rule);
        if holder.is_none_or(|holder| holder == DIRECTORY) {
            self.assigned.entry(key).or_insert(DIRECTORY);
            return true;
        }
        false
    }

    /// Whether this directory was looked at just now: once it is one, it stays one.
    fn is_last_directory(&self, path: &Path, rule: PathComparison) -> bool {
        let last = self.last_directory.as_ref();
        last.is_some_and(|(last, by)| *by == rule && last == path)
    }

    /// Who holds a path, by whichever rule it came. The path's own rule, by which it has this key, is asked first.
    fn holder(
        &self,
        own: AssignedPathKey,
        path: &Path,
        rule: PathComparison,
    ) -> Option<AssignedUrlKey> {
        let other = || match rule {
            PathComparison::CaseFolded if !self.any_explicit => None,
            PathComparison::CaseFolded => self.assigned.get(&path_key(path, PathComparison::Exact)),
            PathComparison::Exact => self
                .assigned
                .get(&path_key(path, PathComparison::CaseFolded)),
        };
        self.assigned.get(&own).or_else(other).copied()
    }
}

/// The directory that a path is in; the batch's own is empty.
fn parent_directory(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

/// A name with so many digits of a digest before its ending; with none, as it is.
fn with_digest_tag(name: &str, sum: &PathDigest, length: usize) -> String {
    if length == 0 {
        return name.to_owned();
    }
    filename::with_tag(name, &format!(".{}", &path_digest::hex(sum)[..length]))
}

fn path_key(path: &Path, rule: PathComparison) -> AssignedPathKey {
    let text = path.to_string_lossy();
    first_bytes(&match rule {
        PathComparison::CaseFolded => path_digest::digest_text(b'm', &filename::case_folded(&text)),
        PathComparison::Exact => path_digest::digest_text(b'n', &text),
    })
}

/// The first bytes of a digest.
fn first_bytes<const N: usize>(sum: &PathDigest) -> [u8; N] {
    std::array::from_fn(|at| sum[at])
}

#[cfg(test)]
#[path = "assigned_paths_tests.rs"]
mod tests;

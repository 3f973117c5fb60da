//! The two sides of a sync, and their lists.

use std::io;
use std::path::{Path, PathBuf};

use haul_s3::S3Address;
use tokio::runtime::Handle;

use super::comparison::{SyncComparison, SyncEntry, SyncOptions};
use super::local_file_entries::LocalFileEntries;
use super::object_entries::ObjectEntries;
use crate::bucket::{BucketError, KeyFilter, ObjectSelection, StoreSession};
use crate::folder_walk::{FolderProblem, FolderWalk};
use crate::put::ObjectHeaders;

/// Entries of a folder that are passed on together, and how many such chunks may wait.
const CHUNK: usize = 256;
const CHUNKS_AHEAD: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncPlace {
    Folder(PathBuf),
    /// Everything below a prefix, which ends with a slash or is empty.
    Bucket(S3Address),
}

/// The entries of a side.
pub(super) type SyncEntries = Box<dyn Iterator<Item = Result<SyncEntry, BucketError>> + Send>;

impl SyncPlace {
    /// The path or address of a key, for messages.
    #[must_use]
    pub fn name_of(&self, key: &str) -> String {
        match self {
            Self::Folder(root) => root.join(key).display().to_string(),
            Self::Bucket(prefix) => prefix.with_key(format!("{}{key}", prefix.key)).to_string(),
        }
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(root) => Some(root),
            Self::Bucket(_) => None,
        }
    }

    pub(super) fn bucket(&self) -> Option<&S3Address> {
        match self {
            Self::Folder(_) => None,
            Self::Bucket(prefix) => Some(prefix),
        }
    }
}

/// Both sides of a sync, and the store.
#[derive(Debug, Clone)]
pub struct SyncSides {
    /// Where files come from.
    pub source: SyncPlace,
    /// Where they go.
    pub destination: SyncPlace,
    /// Ends the sync when it is stopped.
    pub session: StoreSession,
}

impl SyncSides {
    /// The folder among both sides.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.source.folder().or_else(|| self.destination.folder())
    }
}

/// Why there is no sync between two places.
#[derive(Debug, thiserror::Error)]
pub enum SyncPlaceError {
    /// None of them is in a store.
    #[error("neither side is in a store")]
    TwoFolders,
    /// The source is not there.
    #[error("{} is not a folder that can be read", .0.display())]
    NotAFolder(PathBuf),
    /// Nothing would be below it.
    #[error("{} is a pattern, and a sync takes whole folders", .0.to_string().trim_end_matches('/'))]
    Pattern(S3Address),
    /// One of them would be changed while it is read.
    #[error("{0} and {1} are the same, or one is inside the other")]
    Overlap(S3Address, S3Address),
}

/// Checks that one side is in a store, and none is a pattern or part of the other.
pub fn check_sync_places(
    source: &SyncPlace,
    destination: &SyncPlace,
) -> Result<(), SyncPlaceError> {
    let mut addresses = [source, destination]
        .into_iter()
        .filter_map(SyncPlace::bucket);
    if let Some(pattern) = addresses.find(|address| address.key.contains('*')) {
        return Err(SyncPlaceError::Pattern(pattern.clone()));
    }
    match (source, destination) {
        (SyncPlace::Folder(_), SyncPlace::Folder(_)) => Err(SyncPlaceError::TwoFolders),
        (SyncPlace::Folder(root), _) if !root.is_dir() => {
            Err(SyncPlaceError::NotAFolder(root.clone()))
        }
        (SyncPlace::Bucket(one), SyncPlace::Bucket(other))
            if one.bucket == other.bucket
                && (one.key.starts_with(&other.key) || other.key.starts_with(&one.key)) =>
        {
            Err(SyncPlaceError::Overlap(one.clone(), other.clone()))
        }
        _ => Ok(()),
    }
}

/// Reads a folder on a thread of its own, some entries ahead, while the other list is waited for. A panic there is passed on: the list
/// must not look complete.
fn read_ahead(mut entries: SyncEntries) -> SyncEntries {
    let (sender, chunks) = std::sync::mpsc::sync_channel(CHUNKS_AHEAD);
    let reader = tokio::task::spawn_blocking(move || {
        loop {
            let chunk: Vec<_> = entries.by_ref().take(CHUNK).collect();
            if chunk.is_empty() || sender.send(chunk).is_err() {
                return;
            }
        }
    });
    let runtime = Handle::current();
    let end = std::iter::once_with(move || match runtime.block_on(reader) {
        Ok(()) => Vec::new(),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    });
    Box::new(chunks.into_iter().chain(end).flatten())
}

/// How two places are made alike.
#[derive(Debug, Clone)]
pub struct SyncSettings {
    /// What is copied and deleted.
    pub options: SyncOptions,
    /// Which files are meant, on both sides.
    pub filter: KeyFilter,
    /// Whether links to folders are followed, on both sides.
    pub follows_links: bool,
    /// The fields of objects that are stored.
    pub headers: ObjectHeaders,
    /// Whether everything may be deleted because the source has no files.
    pub allows_empty_source: bool,
}

impl SyncSettings {
    /// The list of the source.
    ///
    /// # Errors
    /// It is a folder that cannot be read.
    pub(super) fn source_entries(
        &self,
        sides: &SyncSides,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> io::Result<SyncEntries> {
        let root = match &sides.source {
            SyncPlace::Bucket(prefix) => {
                return Ok(self.objects(sides, prefix, sides.destination.folder().is_some()));
            }
            SyncPlace::Folder(root) => root,
        };
        let walk = FolderWalk::open(root, self.follows_links)?;
        let entries = LocalFileEntries::new(walk, self.filter.clone(), on_problem);
        Ok(read_ahead(Box::new(entries)))
    }

    /// The list of the destination: a folder that does not exist has no files.
    ///
    /// # Errors
    /// It is a folder that cannot be read.
    pub(super) fn destination_entries(
        &self,
        sides: &SyncSides,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> io::Result<SyncEntries> {
        let root = match &sides.destination {
            SyncPlace::Bucket(prefix) => {
                return Ok(self.objects(sides, prefix, sides.source.folder().is_some()));
            }
            SyncPlace::Folder(root) => root,
        };
        let walk = match FolderWalk::open(root, self.follows_links) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                FolderWalk::of_missing_folder(root)
            }
            other => other?,
        };
        let entries = LocalFileEntries::new(walk, self.filter.clone(), on_problem);
        let compares_content = self.options.comparison == SyncComparison::Content;
        Ok(read_ahead(Box::new(match &sides.source {
            // A tag says that nobody has changed the file; contents want more.
            SyncPlace::Bucket(origin) if !compares_content => entries.with_tags_of(origin.clone()),
            _ => entries,
        })))
    }

    fn objects(&self, sides: &SyncSides, prefix: &S3Address, skips_folders: bool) -> SyncEntries {
        let selection = ObjectSelection::below(prefix.clone(), self.filter.clone());
        Box::new(ObjectEntries {
            objects: sides.session.list(selection),
            skips_folders,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_neither_source_nor_destination() {
        let folder = SyncPlace::Folder(std::env::temp_dir());
        let pattern = SyncPlace::Bucket("s3://b/p*/".parse().unwrap());
        let prefix = SyncPlace::Bucket("s3://b/q/".parse().unwrap());
        for (source, destination) in [
            (&pattern, &folder),
            (&folder, &pattern),
            (&prefix, &pattern),
        ] {
            let refused = check_sync_places(source, destination);
            assert!(matches!(refused, Err(SyncPlaceError::Pattern(_))));
        }
        assert!(check_sync_places(&folder, &prefix).is_ok());
    }

    #[tokio::test]
    async fn f28_a_panic_does_not_end_a_folder_as_if_it_were_complete() {
        let entries = std::iter::once_with(|| panic!("of the test"));
        let ahead = read_ahead(Box::new(entries));
        let counted = tokio::task::spawn_blocking(move || ahead.count());
        assert!(counted.await.unwrap_err().is_panic());
    }
}

//! The two sides of a sync.

use std::io;
use std::path::{Path, PathBuf};

use haul_plan::KeyFilter;
use haul_plan::sync::SyncEntry;
use haul_s3::S3Address;
use haul_transfer::bucket::{BucketError, StoreSession};
use haul_transfer::sync::{LocalFileEntries, ObjectEntries};
use haul_transfer::{FolderProblem, FolderWalk};
use tokio::runtime::Handle;

use super::super::uploads::BadInput;

/// Entries of a folder that are passed on together, and how many such chunks may wait.
const CHUNK: usize = 256;
const CHUNKS_AHEAD: usize = 16;

/// A side of a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyncPlace {
    Folder(PathBuf),
    /// Everything below a prefix, which ends with a slash or is empty.
    Bucket(S3Address),
}

/// The entries of a side.
pub(super) type SyncEntries = Box<dyn Iterator<Item = Result<SyncEntry, BucketError>> + Send>;

impl SyncPlace {
    /// # Errors
    /// The text begins as an address and is none, or is a pattern.
    pub(super) fn parse(text: &str) -> Result<Self, BadInput> {
        // Of other schemes, too: a folder `file:` is not what anybody wants.
        let is_address = |(scheme, _): (&str, &str)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !text.split_once("://").is_some_and(is_address) {
            return Ok(Self::Folder(text.into()));
        }
        let address: S3Address = text.parse().map_err(|error: haul_s3::S3AddressError| {
            BadInput::new(error.to_string())
                .with_hint("an address is s3://BUCKET/PREFIX/, and a folder has a path")
        })?;
        if address.key.contains('*') {
            let text = format!("{address} is a pattern, and haul sync takes whole folders");
            return Err(BadInput::new(text).with_hint("--include chooses files of a folder"));
        }
        Ok(Self::Bucket(address.into_folder()))
    }

    /// The path or address of a key, for messages.
    pub(super) fn name_of(&self, key: &str) -> String {
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

/// Opens lists of both sides.
pub(super) struct SyncLists<'a> {
    pub(super) session: &'a StoreSession,
    pub(super) filter: &'a KeyFilter,
    /// Whether links to folders are followed.
    pub(super) follows_links: bool,
    /// Whether contents are compared.
    pub(super) compares_content: bool,
}

impl SyncLists<'_> {
    /// The list of the source.
    ///
    /// # Errors
    /// It is a folder that cannot be read.
    pub(super) fn source(
        &self,
        source: &SyncPlace,
        destination: &SyncPlace,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> io::Result<SyncEntries> {
        Ok(match source {
            SyncPlace::Folder(root) => {
                let walk = FolderWalk::open(root, self.follows_links)?;
                read_ahead(Box::new(self.files(walk, on_problem)))
            }
            SyncPlace::Bucket(prefix) => self.objects(prefix, destination.folder().is_some()),
        })
    }

    /// The list of the destination: a folder that does not exist has no files.
    ///
    /// # Errors
    /// It is a folder that cannot be read.
    pub(super) fn destination(
        &self,
        destination: &SyncPlace,
        source: &SyncPlace,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> io::Result<SyncEntries> {
        let root = match destination {
            SyncPlace::Bucket(prefix) => {
                return Ok(self.objects(prefix, source.folder().is_some()));
            }
            SyncPlace::Folder(root) => root,
        };
        let walk = match FolderWalk::open(root, self.follows_links) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                FolderWalk::of_missing_folder(root)
            }
            other => other?,
        };
        let entries = self.files(walk, on_problem);
        Ok(read_ahead(match source.bucket() {
            // A tag says that nobody has changed the file; --checksum wants more.
            Some(origin) if !self.compares_content => {
                Box::new(entries.with_tags_of(origin.clone()))
            }
            _ => Box::new(entries),
        }))
    }

    fn files(
        &self,
        walk: FolderWalk,
        on_problem: impl FnMut(FolderProblem) + Send + 'static,
    ) -> LocalFileEntries {
        LocalFileEntries::new(walk, self.filter.clone(), on_problem)
    }

    fn objects(&self, prefix: &S3Address, skips_folders: bool) -> SyncEntries {
        let lister = self.session.list(prefix);
        let filter = self.filter.clone();
        Box::new(ObjectEntries::new(
            lister,
            &prefix.key,
            filter,
            skips_folders,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn f28_a_panic_does_not_end_a_folder_as_if_it_were_complete() {
        let entries = std::iter::once_with(|| panic!("of the test"));
        let ahead = read_ahead(Box::new(entries));
        let counted = tokio::task::spawn_blocking(move || ahead.count());
        assert!(counted.await.unwrap_err().is_panic());
    }
}

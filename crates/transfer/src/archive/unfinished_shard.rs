//! A growing shard: a file under a temporary name that always ends with a complete entry, or is cut back to one.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::entry_header::END;
use super::error::ArchiveError;
use super::shard_names::exists;
use crate::disk::{DownloadPaths, PartialFile, PartialStorage, StorageWrapping};

/// Offset and bytes of the magic number in a tar header.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");

/// Whether the final name is a finished archive whose last entry ends at `end`, with nothing but an archive's end
/// behind it.
pub(super) fn is_finished(paths: &DownloadPaths, end: u64) -> bool {
    let path = paths.path();
    let length = end.checked_add(END.len() as u64);
    // A link is refused: its target belongs to somebody else.
    let plain = |found: Metadata| found.is_file() && Some(found.len()) == length;
    path.symlink_metadata().is_ok_and(plain) && has_archive_end_at(path, end).unwrap_or(false)
}

fn has_archive_end_at(path: &Path, end: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(end))?;
    let mut found = Vec::with_capacity(END.len());
    file.take(2 * END.len() as u64).read_to_end(&mut found)?;
    Ok(found == END)
}

/// A shard that is not finished.
#[derive(Debug)]
pub(super) struct UnfinishedShard {
    paths: DownloadPaths,
    /// Holds the lock, and the descriptor with which the directory is synced.
    file: Arc<PartialFile>,
    /// The same file through the storage wrapping, for writing.
    storage: Arc<dyn PartialStorage>,
    /// End of the last complete entry.
    end: u64,
    /// Whether bytes were written since the last sync.
    dirty: bool,
    /// Whether the temporary name survives a power cut.
    name_is_durable: bool,
    /// Whether a sync failed. The system may then have dropped what it could not write, and a later sync would succeed.
    sync_failed: bool,
}

impl UnfinishedShard {
    /// Creates a shard. An unfinished archive that no row records is emptied.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::InTheWay`], [`ArchiveError::Locked`], [`ArchiveError::Local`].
    pub(super) fn create(
        paths: DownloadPaths,
        wrapping: &StorageWrapping,
    ) -> Result<Self, ArchiveError> {
        if exists(paths.path()) {
            let path = paths.path().to_owned();
            return Err(ArchiveError::Exists { path });
        }
        if exists(&paths.journal()) {
            return Err(ArchiveError::InTheWay {
                path: paths.partial(),
                what: "it belongs to an interrupted download",
            });
        }
        let shard = Self::open(paths, wrapping)?;
        if !shard.is_archive().map_err(|e| shard.local("read", e))? {
            return Err(ArchiveError::InTheWay {
                path: shard.paths.partial(),
                what: "it is not an archive",
            });
        }
        shard
            .storage
            .set_len(0)
            .map_err(|e| shard.local("write to", e))?;
        Ok(shard)
    }

    /// Continues a shard whose entries up to `end` are durable and recorded.
    ///
    /// # Errors
    /// [`ArchiveError::MissingEntries`], [`ArchiveError::Locked`], [`ArchiveError::Local`].
    pub(super) fn resume(
        paths: DownloadPaths,
        end: u64,
        wrapping: &StorageWrapping,
    ) -> Result<Self, ArchiveError> {
        let mut shard = Self::open(paths, wrapping)?;
        shard.truncate(end)?;
        Ok(shard)
    }

    /// Continues a finished shard for which [`is_finished`] holds. Renames it to its temporary name first and cuts its
    /// end off second, so that at each step there is a complete archive under the final name or an unfinished one to
    /// [resume](Self::resume).
    ///
    /// # Errors
    /// [`ArchiveError::InTheWay`], [`ArchiveError::Locked`], [`ArchiveError::MissingEntries`], [`ArchiveError::Local`].
    pub(super) fn reopen(
        paths: DownloadPaths,
        end: u64,
        wrapping: &StorageWrapping,
    ) -> Result<Self, ArchiveError> {
        let path = paths.partial();
        if exists(&path) {
            let what = "the archive beside it is finished";
            return Err(ArchiveError::InTheWay { path, what });
        }
        let renamed = std::fs::rename(paths.path(), &path);
        renamed.map_err(|source| ArchiveError::Local {
            action: "rename",
            path: paths.path().to_owned(),
            source,
        })?;
        let mut shard = Self::open(paths, wrapping)?;
        // A power cut must not bring the final name back after the end was cut off.
        shard.sync_directory()?;
        shard.truncate(end)?;
        Ok(shard)
    }

    /// Cuts off everything behind `end`.
    fn truncate(&mut self, end: u64) -> Result<(), ArchiveError> {
        let found = self.storage.length().map_err(|e| self.local("read", e))?;
        if found < end {
            let path = self.paths.partial();
            return Err(ArchiveError::MissingEntries {
                path,
                claimed: end,
                found,
            });
        }
        self.storage
            .set_len(end)
            .map_err(|e| self.local("write to", e))?;
        (self.end, self.name_is_durable) = (end, true);
        Ok(())
    }

    fn open(paths: DownloadPaths, wrapping: &StorageWrapping) -> Result<Self, ArchiveError> {
        let file = PartialFile::open(&paths.partial()).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => ArchiveError::Locked {
                path: paths.path().to_owned(),
            },
            _ => ArchiveError::Local {
                action: "create",
                path: paths.partial(),
                source,
            },
        })?;
        let file = Arc::new(file);
        Ok(Self {
            paths,
            storage: wrapping.wrap_file(Arc::clone(&file) as Arc<dyn PartialStorage>),
            file,
            end: 0,
            dirty: true,
            name_is_durable: false,
            sync_failed: false,
        })
    }

    /// End of the last complete entry.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Writes behind the last complete entry. The caller then calls [`complete_entry`](Self::complete_entry) or
    /// [`discard_entry`](Self::discard_entry).
    pub(super) fn write(&mut self, at: u64, pieces: &[Bytes]) -> Result<(), ArchiveError> {
        self.dirty = true;
        let written = self.storage.write_at(at, pieces);
        written.map_err(|e| self.local("write to", e))
    }

    /// Marks everything up to `end` as complete entries.
    pub(super) fn complete_entry(&mut self, end: u64) {
        self.end = end;
    }

    /// Cuts off an entry that failed. If this fails too, the next entry overwrites it.
    pub(super) fn discard_entry(&mut self) {
        let _ = self.storage.set_len(self.end);
    }

    /// Writes the end of the archive. A later entry would overwrite it.
    pub(super) fn write_end(&mut self) -> Result<(), ArchiveError> {
        let end = self.end;
        self.write(end, &[Bytes::from_static(&END)])
            .inspect_err(|_| self.discard_entry())?;
        // Cuts off an incomplete entry that could not be discarded.
        let whole = end + END.len() as u64;
        self.storage
            .set_len(whole)
            .map_err(|e| self.local("write to", e))
    }

    /// Whether everything in the shard is durable.
    pub(super) fn is_synced(&self) -> bool {
        !self.dirty
    }

    /// Makes the written bytes and the temporary name durable.
    pub(super) fn sync(&mut self) -> Result<(), ArchiveError> {
        if self.sync_failed {
            return Err(self.local("sync", io::Error::other("an earlier sync failed")));
        }
        if self.dirty {
            let synced = self.storage.sync();
            self.sync_failed = synced.is_err();
            synced.map_err(|e| self.local("sync", e))?;
            self.dirty = false;
        }
        if !self.name_is_durable {
            self.sync_directory()?;
            self.name_is_durable = true;
        }
        Ok(())
    }

    /// Renames the shard to its final name.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] when the name is taken; [`ArchiveError::Local`].
    pub(super) fn publish(&self) -> Result<(), ArchiveError> {
        self.paths.publish(false).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Exists {
                path: self.paths.path().to_owned(),
            },
            _ => self.local("rename", e),
        })
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync_directory(&self) -> Result<(), ArchiveError> {
        let synced = self.paths.sync_directory(self.file.file());
        synced.map_err(|e| self.local("sync the directory of", e))
    }

    /// Removes a shard without entries.
    pub(super) fn remove(&self) -> Result<(), ArchiveError> {
        std::fs::remove_file(self.paths.partial()).map_err(|e| self.local("remove", e))
    }

    /// Whether the file is an unfinished archive: it begins with a tar header, or a crash left it empty or zeroed.
    fn is_archive(&self) -> io::Result<bool> {
        let mut front = [0; 512];
        let read = self.storage.read_at(0, &mut front)?;
        let (at, magic) = TAR_MAGIC;
        Ok(front.iter().all(|byte| *byte == 0)
            || (read == front.len() && front[at..].starts_with(magic)))
    }

    fn local(&self, action: &'static str, source: io::Error) -> ArchiveError {
        let path = self.paths.partial();
        ArchiveError::Local {
            action,
            path,
            source,
        }
    }
}

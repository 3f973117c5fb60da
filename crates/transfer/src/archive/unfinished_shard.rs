//! One shard while it grows: a file under a temporary name that always ends with a whole entry, or is cut to one.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::entry_header::END;
use super::error::ArchiveError;
use super::shard_names::exists;
use crate::disk::{DownloadPaths, PartialFile, PartialStorage, StorageLayer};

/// How far into a file the mark of a tar is looked for, and what it is.
const MARK: (usize, &[u8]) = (257, b"ustar");

/// Whether a finished archive lies under the final name whose last entry ends there: nothing but what ends an archive follows.
pub(super) fn is_finished(target: &DownloadPaths, end: u64) -> bool {
    let path = target.path();
    let length = end.checked_add(END.len() as u64);
    // What a link leads to is somebody else's.
    let plain = |found: Metadata| found.is_file() && Some(found.len()) == length;
    path.symlink_metadata().is_ok_and(plain) && ends_there(path, end).unwrap_or(false)
}

fn ends_there(path: &Path, end: u64) -> io::Result<bool> {
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
    /// Holds the lock, and the descriptor that the directory's sync needs.
    file: Arc<PartialFile>,
    /// What is written to.
    storage: Arc<dyn PartialStorage>,
    /// Where the last whole entry ends.
    end: u64,
    /// Whether something was written since the last sync.
    dirty: bool,
    /// Whether its temporary name would survive a power cut.
    name_is_durable: bool,
    /// Whether a sync failed: the system may have forgotten what it could not write.
    sync_failed: bool,
}

impl UnfinishedShard {
    /// Begins a shard. What a run left there of which nobody knows is dropped.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::InTheWay`], [`ArchiveError::Locked`], [`ArchiveError::Local`].
    pub(super) fn create(
        target: DownloadPaths,
        layer: &StorageLayer,
    ) -> Result<Self, ArchiveError> {
        if exists(target.path()) {
            let path = target.path().to_owned();
            return Err(ArchiveError::Exists { path });
        }
        if exists(&target.journal()) {
            return Err(ArchiveError::InTheWay {
                path: target.partial(),
                what: "it belongs to a download that was interrupted",
            });
        }
        let part = Self::open(target, layer)?;
        if !part.is_archive().map_err(|e| part.local("read", e))? {
            return Err(ArchiveError::InTheWay {
                path: part.paths.partial(),
                what: "it is no archive",
            });
        }
        part.storage
            .set_len(0)
            .map_err(|e| part.local("write to", e))?;
        Ok(part)
    }

    /// Goes on with a shard whose entries up to `end` are durable and known.
    ///
    /// # Errors
    /// [`ArchiveError::MissingEntries`], [`ArchiveError::Locked`], [`ArchiveError::Local`].
    pub(super) fn resume(
        target: DownloadPaths,
        end: u64,
        layer: &StorageLayer,
    ) -> Result<Self, ArchiveError> {
        let mut part = Self::open(target, layer)?;
        part.truncate(end)?;
        Ok(part)
    }

    /// Goes on with a shard that an earlier run finished, and that [`is_finished`]: takes first its name from it and then its end, so
    /// that wherever this breaks off there is a whole archive under the final name, or one to [resume](Self::resume).
    ///
    /// # Errors
    /// [`ArchiveError::InTheWay`], [`ArchiveError::Locked`], [`ArchiveError::MissingEntries`], [`ArchiveError::Local`].
    pub(super) fn reopen(
        target: DownloadPaths,
        end: u64,
        layer: &StorageLayer,
    ) -> Result<Self, ArchiveError> {
        let path = target.partial();
        if exists(&path) {
            let what = "it lies beside an archive that is finished";
            return Err(ArchiveError::InTheWay { path, what });
        }
        let renamed = std::fs::rename(target.path(), &path);
        renamed.map_err(|source| ArchiveError::Local {
            action: "rename",
            path: target.path().to_owned(),
            source,
        })?;
        let mut part = Self::open(target, layer)?;
        // A power cut must not bring the final name back when the end is gone.
        part.sync_directory()?;
        part.truncate(end)?;
        Ok(part)
    }

    /// Drops what lies behind the last entry that is durable and known.
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

    fn open(target: DownloadPaths, layer: &StorageLayer) -> Result<Self, ArchiveError> {
        let file = PartialFile::open(&target.partial()).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => ArchiveError::Locked {
                path: target.path().to_owned(),
            },
            _ => ArchiveError::Local {
                action: "create",
                path: target.partial(),
                source,
            },
        })?;
        let file = Arc::new(file);
        Ok(Self {
            paths: target,
            storage: layer.wrap_file(Arc::clone(&file) as Arc<dyn PartialStorage>),
            file,
            end: 0,
            dirty: true,
            name_is_durable: false,
            sync_failed: false,
        })
    }

    /// Where the last whole entry ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Writes at an offset behind the last whole entry; [`UnfinishedShard::complete_entry`] or [`UnfinishedShard::discard_entry`] follows.
    pub(super) fn write(&mut self, at: u64, pieces: &[Bytes]) -> Result<(), ArchiveError> {
        self.dirty = true;
        let written = self.storage.write_at(at, pieces);
        written.map_err(|e| self.local("write to", e))
    }

    /// What was written up to here is a whole entry.
    pub(super) fn complete_entry(&mut self, end: u64) {
        self.end = end;
    }

    /// Drops what was written of an entry that failed. Should this fail too, the next entry overwrites it.
    pub(super) fn discard_entry(&mut self) {
        let _ = self.storage.set_len(self.end);
    }

    /// Writes what ends an archive; entries could still be appended in its place.
    pub(super) fn write_end(&mut self) -> Result<(), ArchiveError> {
        let end = self.end;
        self.write(end, &[Bytes::from_static(&END)])
            .inspect_err(|_| self.discard_entry())?;
        // What an entry left that could neither be finished nor taken back.
        let whole = end + END.len() as u64;
        self.storage
            .set_len(whole)
            .map_err(|e| self.local("write to", e))
    }

    /// Whether everything in it is durable.
    pub(super) fn is_synced(&self) -> bool {
        !self.dirty
    }

    /// Makes what was written durable, and the name under which it lies.
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

    /// Gives it its final name.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] when that is taken; [`ArchiveError::Local`].
    pub(super) fn publish(&self) -> Result<(), ArchiveError> {
        self.paths.publish(false).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Exists {
                path: self.paths.path().to_owned(),
            },
            _ => self.local("rename", e),
        })
    }

    /// Makes the names in its directory durable.
    pub(super) fn sync_directory(&self) -> Result<(), ArchiveError> {
        let synced = self.paths.sync_directory(self.file.file());
        synced.map_err(|e| self.local("sync the directory of", e))
    }

    /// Removes it, where nothing was put into it.
    pub(super) fn remove(&self) -> Result<(), ArchiveError> {
        std::fs::remove_file(self.paths.partial()).map_err(|e| self.local("remove", e))
    }

    /// Whether what lies there was written as an archive, as far as a crash left anything.
    fn is_archive(&self) -> io::Result<bool> {
        let mut front = [0; 512];
        let read = self.storage.read_at(0, &mut front)?;
        let (at, mark) = MARK;
        Ok(front.iter().all(|byte| *byte == 0)
            || (read == front.len() && front[at..].starts_with(mark)))
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

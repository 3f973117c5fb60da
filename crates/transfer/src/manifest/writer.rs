//! The open manifest. Rows are appended; nothing else in the file ever changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::format::ManifestFormat;
use super::previous_runs::{ManifestReading, PreviousRuns};
use super::row::ManifestRow;
use crate::disk::{DownloadPaths, PartialFile, PartialStorage, StorageWrapping};

/// Rows are written when they have this many bytes, and by [`Manifest::sync`].
const BUFFER: usize = 256 * 1024;

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file name has no extension of a known format.
    #[error("{} has neither the extension .jsonl (one object a line) nor .csv (a table)", .path.display())]
    UnknownExtension { path: PathBuf },
    /// The file is not a manifest. It was not changed.
    #[error("{} is not a manifest", .path.display())]
    NotAManifest { path: PathBuf },
    /// The manifest's rows record files in directories, which would be missing from the archive that is to be written.
    #[error("{} is a manifest of files, not of an archive", .path.display())]
    DescribesFiles { path: PathBuf },
    /// The manifest's rows record an archive's entries, for which there are no files.
    #[error("{} is a manifest of the archive {shard}, not of files", .path.display())]
    DescribesArchive {
        path: PathBuf,
        /// The archive, as the rows call it.
        shard: String,
    },
    /// A directory, a FIFO or a device, which cannot be read back.
    #[error("{} is not a regular file", .path.display())]
    NotARegularFile { path: PathBuf },
    /// Another process has the manifest open.
    #[error("another haul has {} open", .path.display())]
    Locked { path: PathBuf },
    /// An earlier sync failed, and it is unknown which rows were lost.
    #[error("an earlier sync of {} failed, so none of its new rows can be relied on", .path.display())]
    EarlierSyncFailed { path: PathBuf },
    /// A file operation failed.
    #[error("cannot {action} {}", .path.display())]
    Local {
        /// What failed: "open", "read", "write to" ...
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An open manifest, held by one process at a time.
///
/// The order of calls makes it safe: first the caller makes the files durable that the rows record, then it
/// [appends](Self::append) the rows, then it [syncs](Self::sync). Dropping the manifest may lose rows that were not
/// synced, which costs another fetch of their jobs and nothing else. Every method blocks.
#[derive(Debug)]
pub struct Manifest {
    /// Shared with [`PreviousRuns`], which reads in it. The file lock is released with the last of them.
    storage: Arc<dyn PartialStorage>,
    /// For messages.
    path: PathBuf,
    format: ManifestFormat,
    /// Rows that were not written yet.
    buffer: Vec<u8>,
    /// Where they go: behind the last complete row. Written by offset, so that what a failed write left there is
    /// overwritten.
    end: u64,
    /// Whether a sync failed. The system may then have dropped what it could not write, and a later sync would succeed.
    sync_failed: bool,
}

impl Manifest {
    /// Opens a manifest or creates one. Reads what earlier runs recorded, and cuts off an incomplete last row.
    ///
    /// # Errors
    /// Every [`ManifestError`] except `EarlierSyncFailed`. A file that is not a manifest is not changed.
    pub fn open(path: &Path) -> Result<(Self, PreviousRuns), ManifestError> {
        Self::open_with_layer(path, &StorageWrapping::default())
    }

    /// Like [`open`](Self::open), with a wrapper of its file.
    ///
    /// # Errors
    /// As [`Manifest::open`].
    pub fn open_with_layer(
        path: &Path,
        wrapping: &StorageWrapping,
    ) -> Result<(Self, PreviousRuns), ManifestError> {
        let path = path.to_owned();
        let Some(format) = ManifestFormat::from_path(&path) else {
            return Err(ManifestError::UnknownExtension { path });
        };
        let target = DownloadPaths::following_links(path.clone());
        if std::fs::metadata(target.path()).is_ok_and(|found| !found.is_file()) {
            return Err(ManifestError::NotARegularFile { path });
        }
        let local = |action, source| ManifestError::Local {
            action,
            path: path.clone(),
            source,
        };
        let file = PartialFile::open(target.path()).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => ManifestError::Locked { path: path.clone() },
            _ => local("open", e),
        })?;
        if !file.had_content() {
            // The new name must survive a power cut, like the rows.
            target
                .sync_directory(file.file())
                .map_err(|e| local("create", e))?;
        }
        let storage = wrapping.wrap_file(Arc::new(file));
        let Some(reading) = PreviousRuns::read(&storage, format).map_err(|e| local("read", e))?
        else {
            return Err(ManifestError::NotAManifest { path });
        };
        let ManifestReading {
            mut previous_runs,
            format,
            valid_bytes: whole,
        } = reading;
        previous_runs.set_path(target.path());
        if storage.length().is_ok_and(|length| length > whole) {
            storage.set_len(whole).map_err(|e| local("repair", e))?;
        }
        let buffer = if whole == 0 {
            format.header()
        } else {
            Vec::new()
        };
        let manifest = Self {
            storage,
            path,
            format,
            buffer,
            end: whole,
            sync_failed: false,
        };
        Ok((manifest, previous_runs))
    }

    /// Checks that `previous_runs` are of the same kind as this run, which writes an archive or files in directories.
    /// Files in directories are not in an archive, and the other way round, so rows of one kind must not count for the
    /// other. [`ShardWriter::open`](crate::archive::ShardWriter::open) checks that it is the same archive.
    ///
    /// # Errors
    /// [`ManifestError::DescribesFiles`], [`ManifestError::DescribesArchive`].
    pub fn check_destination(
        &self,
        previous_runs: &PreviousRuns,
        archive: bool,
    ) -> Result<(), ManifestError> {
        let path = self.path.clone();
        match previous_runs.shard_ends().next() {
            _ if archive && previous_runs.has_files() => {
                Err(ManifestError::DescribesFiles { path })
            }
            Some((shard, _)) if !archive => Err(ManifestError::DescribesArchive {
                path,
                shard: shard.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Appends rows, which [`Manifest::sync`] makes durable. The files that they record are durable already.
    ///
    /// # Errors
    /// [`ManifestError::Local`] when the disk takes no more. The file then ends with its last complete row, and the
    /// rows that were not written stay in this value for the next call. It is unknown which of `rows` those are;
    /// appending them all again is safe, because a repeated row changes nothing.
    pub fn append<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a ManifestRow>,
    ) -> Result<(), ManifestError> {
        // Rows of a failed write come first; otherwise the buffer could grow without bound.
        self.write_if_full()?;
        let rows: Vec<&ManifestRow> = rows.into_iter().collect();
        for rows in rows.chunks(64) {
            self.format.encode(rows, &mut self.buffer);
            self.write_if_full()?;
        }
        Ok(())
    }

    /// Writes all appended rows and returns when they would survive a power cut.
    ///
    /// # Errors
    /// [`ManifestError::Local`] as in [`Manifest::append`]. When the sync itself fails, no row since the last sync may
    /// be relied on, and every later call gives [`ManifestError::EarlierSyncFailed`].
    pub fn sync(&mut self) -> Result<(), ManifestError> {
        if self.sync_failed {
            return Err(ManifestError::EarlierSyncFailed {
                path: self.path.clone(),
            });
        }
        self.write()?;
        self.storage.sync().map_err(|e| {
            self.sync_failed = true;
            self.local("sync", e)
        })
    }

    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn write_if_full(&mut self) -> Result<(), ManifestError> {
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), ManifestError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let length = bytes.len() as u64;
        let written = self
            .storage
            .write_at(self.end, std::slice::from_ref(&bytes));
        if let Err(e) = written {
            self.buffer = Vec::from(bytes);
            // If this fails too, the next run cuts it off.
            let _ = self.storage.set_len(self.end);
            return Err(self.local("write to", e));
        }
        self.end += length;
        self.buffer.reserve(BUFFER);
        Ok(())
    }

    fn local(&self, action: &'static str, source: io::Error) -> ManifestError {
        let path = self.path.clone();
        ManifestError::Local {
            action,
            path,
            source,
        }
    }
}

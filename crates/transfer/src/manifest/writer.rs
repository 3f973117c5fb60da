//! The open manifest: rows go to its end, and nothing else is ever changed in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::format::ManifestFormat;
use super::previous_runs::{ManifestReading, PreviousRuns};
use super::row::ManifestRow;
use crate::disk::{DownloadPaths, PartialFile, PartialStorage, StorageLayer};

/// Rows are written when they come to so many bytes, and by [`Manifest::sync`].
const GATHERED: usize = 256 * 1024;

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The name has another ending than those that there are formats for.
    #[error("{} ends neither in .jsonl (an object a line) nor in .csv (a table)", .path.display())]
    UnknownExtension {
        /// The name.
        path: PathBuf,
    },
    /// A file of somebody else's. It was left as it is.
    #[error("{} holds something else than a manifest", .path.display())]
    NotAManifest {
        /// The name.
        path: PathBuf,
    },
    /// Its rows are of files in directories, none of which would be in the archive that is to be written.
    #[error("{} is the manifest of files, and not of an archive", .path.display())]
    DescribesFiles {
        /// The name.
        path: PathBuf,
    },
    /// Its rows are of an archive's entries, of which there are no files.
    #[error("{} is the manifest of the archive {shard}, and not of files", .path.display())]
    DescribesArchive {
        /// The name.
        path: PathBuf,
        /// The archive, as rows call it.
        shard: String,
    },
    /// A directory, a FIFO, a device: nothing that can be read back.
    #[error("{} is no regular file", .path.display())]
    NotARegularFile {
        /// The name.
        path: PathBuf,
    },
    /// Another process works with it.
    #[error("another haul is working with {}", .path.display())]
    Locked {
        /// The name.
        path: PathBuf,
    },
    /// An earlier sync failed, and what was lost by that cannot be told.
    #[error("{} could not be synced before, so nothing more can be relied on", .path.display())]
    EarlierSyncFailed {
        /// The name.
        path: PathBuf,
    },
    /// This machine's disk said no.
    #[error("cannot {action} {}", .path.display())]
    Local {
        /// What was being done: "open", "read", "write to" ...
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// An open manifest, held by one process at a time.
///
/// The order of calls is what makes it safe: first the files that rows speak of are made durable, then the rows are
/// [appended](Self::append), then [synced](Self::sync). Rows that were not synced when this value is dropped may be lost, which costs
/// their jobs another fetch and nothing else. Every method blocks.
#[derive(Debug)]
pub struct Manifest {
    /// Shared with [`PreviousRuns`], which reads in it; the file's lock goes with the last of them.
    storage: Arc<dyn PartialStorage>,
    /// For messages.
    path: PathBuf,
    format: ManifestFormat,
    /// Rows that were not written yet.
    buffer: Vec<u8>,
    /// Where they go: behind the last whole row. Written by offset, so that what a failed write left there is replaced.
    end: u64,
    /// Whether a sync failed: the system may have forgotten what it could not write, and a second call would say that all is well.
    sync_failed: bool,
}

impl Manifest {
    /// Opens a manifest, or begins one; reads what earlier runs left, and cuts off a last row that is not whole.
    ///
    /// # Errors
    /// Each kind of [`ManifestError`] but `EarlierSyncFailed`. A file that is no manifest is not changed.
    pub fn open(path: &Path) -> Result<(Self, PreviousRuns), ManifestError> {
        Self::open_with_layer(path, &StorageLayer::default())
    }

    /// The same with something between the manifest and its file.
    ///
    /// # Errors
    /// As [`Manifest::open`].
    pub fn open_with_layer(
        path: &Path,
        layer: &StorageLayer,
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
            // Its name has to survive a power cut as its rows do.
            target
                .sync_directory(file.file())
                .map_err(|e| local("create", e))?;
        }
        let storage = layer.wrap_file(Arc::new(file));
        let Some(reading) = PreviousRuns::read(&storage, format).map_err(|e| local("read", e))?
        else {
            return Err(ManifestError::NotAManifest { path });
        };
        let ManifestReading {
            previous_runs: mut past,
            format,
            valid_bytes: whole,
        } = reading;
        past.set_path(target.path());
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
        Ok((manifest, past))
    }

    /// Whether what `previous_runs` says is done is done for files in directories, or for an archive: of the one nothing is in the other, and rows
    /// of both would stand for each other. Which archive it is of [`ShardWriter::open`](crate::archive::ShardWriter::open) sees.
    ///
    /// # Errors
    /// [`ManifestError::DescribesFiles`], [`ManifestError::DescribesArchive`].
    pub fn check_destination(
        &self,
        past: &PreviousRuns,
        archive: bool,
    ) -> Result<(), ManifestError> {
        let path = self.path.clone();
        match past.shard_ends().next() {
            _ if archive && past.has_files() => Err(ManifestError::DescribesFiles { path }),
            Some((shard, _)) if !archive => Err(ManifestError::DescribesArchive {
                path,
                shard: shard.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Takes rows, which [`Manifest::sync`] makes durable. What they speak of is durable already.
    ///
    /// # Errors
    /// [`ManifestError::Local`] when the disk takes no more: the file then ends with its last whole row, and the rows that were
    /// not written stay with this value, to be tried again by the next call. Which of `rows` were taken is not known then: they may be
    /// appended again, since a row that stands twice says what it says once.
    pub fn append(&mut self, rows: &[ManifestRow]) -> Result<(), ManifestError> {
        // Those of a write that failed: were more taken, they would grow without bound.
        self.write_if_full()?;
        for rows in rows.chunks(64) {
            self.format.encode(rows, &mut self.buffer);
            self.write_if_full()?;
        }
        Ok(())
    }

    /// Writes what was taken and returns when it would survive a power cut.
    ///
    /// # Errors
    /// [`ManifestError::Local`] as [`Manifest::append`] has it. When the sync itself fails nothing that was appended since the last one
    /// may be relied on, and every later call gives [`ManifestError::EarlierSyncFailed`].
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

    /// Bytes that wait to be written.
    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn write_if_full(&mut self) -> Result<(), ManifestError> {
        if self.buffer.len() < GATHERED {
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
            // Where even this fails, the next run cuts it off.
            let _ = self.storage.set_len(self.end);
            return Err(self.local("write to", e));
        }
        self.end += length;
        self.buffer.reserve(GATHERED);
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

//! Writes files as entries of tar shards.
//!
//! An entry is appended as it comes, because it would otherwise wait in memory; its row waits until the shard is
//! synced. Large files come from a staging directory and are removed from it after they were appended, successfully or
//! not: a later run could not know whether such a file is still the origin's version, and it fetches every file without
//! a row again.

use std::fs::File;
use std::io;
use std::path::Path;

use super::directory::copy_error;
use super::{BatchSink, FileContent, VerifiedFile};
use crate::archive::{ArchiveError, ShardEntryContent, ShardWriter};
use crate::batch::group_commit::EndedJob;
use crate::batch::job::BatchJob;
use crate::error::GetError;
use crate::get::single_response::UnnamedBody;

/// A sink that appends entries to an archive.
#[derive(Debug)]
pub(in crate::batch) struct TarWriter {
    shards: ShardWriter,
    /// Files whose entries are not durable yet.
    group: Vec<VerifiedFile>,
    /// Bytes in the group.
    bytes: u64,
    /// Why the last sync failed.
    sync_error: Option<ArchiveError>,
}

impl TarWriter {
    pub(in crate::batch) fn new(shards: ShardWriter) -> Self {
        Self {
            shards,
            group: Vec::new(),
            bytes: 0,
            sync_error: None,
        }
    }

    /// Appends a file's content and drops it.
    fn append(&mut self, written: &mut VerifiedFile) -> Result<(), ArchiveError> {
        let (path, length) = (&written.job.path, written.row.bytes);
        let modified = written.modified;
        let mut append_file = |file: &mut File| {
            let reader = file;
            self.shards
                .append(path, ShardEntryContent::Reader { reader, length }, modified)
        };
        let location = match std::mem::replace(&mut written.content, FileContent::Taken) {
            FileContent::Unnamed(UnnamedBody::Memory(pieces, _room)) => {
                self.shards
                    .append(path, ShardEntryContent::Pieces(&pieces), modified)?
            }
            FileContent::Unnamed(UnnamedBody::File(file)) => append_file(&mut file.into_file())?,
            FileContent::Staged(staged) => {
                let mut file = File::open(&staged).map_err(ArchiveError::Content)?;
                let location = append_file(&mut file);
                // A leftover would take space and be in the way of the next run.
                unstage(&staged);
                location?
            }
            FileContent::Taken => unreachable!("a file is taken once"),
        };
        written.row.shard = Some(location);
        Ok(())
    }
}

impl BatchSink for TarWriter {
    fn add(&mut self, mut written: Box<VerifiedFile>) -> Result<(), Box<EndedJob>> {
        if let Err(error) = self.append(&mut written) {
            let error = archive_error(&written.job.path, error);
            return Err(Box::new(EndedJob::failed(&written.job, error)));
        }
        self.bytes += written.row.bytes;
        self.group.push(*written);
        Ok(())
    }

    fn pending(&self) -> (usize, u64) {
        (self.group.len(), self.bytes)
    }

    fn commit(&mut self) -> Vec<EndedJob> {
        let group = std::mem::take(&mut self.group);
        self.bytes = 0;
        if let Err(error) = self.shards.sync() {
            self.sync_error.get_or_insert(error);
        }
        let end = |written: VerifiedFile| match &self.sync_error {
            Some(ArchiveError::Stream(error)) => {
                let error = ArchiveError::Stream(copy_error(error));
                EndedJob::failed(&written.job, archive_error(&written.job.path, error))
            }
            Some(error) => {
                let (path, source) = (
                    written.job.path.clone(),
                    io::Error::other(error.to_string()),
                );
                EndedJob::failed(&written.job, GetError::local("archive", path, source))
            }
            None => EndedJob::succeeded(written.row),
        };
        group.into_iter().map(end).collect()
    }

    fn rows_written(&mut self) -> Result<(), GetError> {
        let settled = match self.sync_error.take() {
            Some(error) => Err(error),
            None => self.shards.publish_full(),
        };
        settled.map_err(|error| archive_error(Path::new("a full shard"), error))
    }

    fn finish(self: Box<Self>, nothing_succeeded: bool) -> Result<(), GetError> {
        let finished = match nothing_succeeded {
            true => self.shards.finish_unless_empty(),
            false => self.shards.finish(),
        };
        finished.map_err(|error| archive_error(Path::new("its end"), error))
    }
}

/// Removes a large file that a killed run left between its last byte and its row. The partial-file strategy would take
/// it for a user's file that must be kept. Anything but a regular file was not left by a run.
pub(in crate::batch) fn unstage(staged: &Path) {
    if staged.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // If this fails, the job reports what is in its way.
        let _ = std::fs::remove_file(staged);
    }
}

/// Removes a file with a wrong digest. Beside an archive there is no name where a user would look for it.
pub(in crate::batch) fn drop_aside(job: &BatchJob, error: &mut GetError) {
    if let GetError::Checksum {
        moved_to: aside, ..
    } = error
        && job.staging_path.is_some()
        && let Some(aside) = aside.take()
    {
        // A leftover would only take space.
        let _ = std::fs::remove_file(aside);
    }
}

fn archive_error(path: &Path, source: ArchiveError) -> GetError {
    GetError::Archive {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

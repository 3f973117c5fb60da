//! Writes files as entries of tar shards.
//!
//! An entry is appended as it comes, because it would otherwise wait in memory; its row waits until the shard is
//! synced. Large files come from a staging directory and are removed from it after they were appended, successfully or
//! not: a later run could not know whether such a file is still the origin's version, and it fetches every file without
//! a row again.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::{BatchSink, FetchedFileContent, VerifiedFile, copy_error};
use crate::archive::{ArchiveError, ShardEntryContent, ShardWriter};
use crate::batch::job::BatchJob;
use crate::batch::outcome::JobOutcome;
use crate::error::{GetError, LocalError, VerificationError};
use crate::get::UnnamedBody;

/// A sink that appends entries to an archive.
#[derive(Debug)]
pub(in crate::batch) struct TarWriter {
    shards: ShardWriter,
    /// Files whose entries are not durable yet.
    group: Vec<VerifiedFile>,
    /// Why the last sync failed.
    sync_error: Option<ArchiveError>,
}

impl TarWriter {
    pub(in crate::batch) fn new(shards: ShardWriter) -> Self {
        Self {
            shards,
            group: Vec::new(),
            sync_error: None,
        }
    }

    /// Appends a file's content and drops it.
    fn append(
        &mut self,
        file: &mut VerifiedFile,
        content: FetchedFileContent,
    ) -> Result<(), ArchiveError> {
        let (path, length) = (&file.job.path, file.row.bytes);
        let modified = file.last_modified.as_deref().map_or(0, unix_seconds);
        let mut append_from = |reader: &mut File| {
            let content = ShardEntryContent::Reader { reader, length };
            self.shards.append(path, content, modified)
        };
        let location = match content {
            FetchedFileContent::Unnamed(UnnamedBody::Memory(pieces, _permit)) => {
                let content = ShardEntryContent::Pieces(&pieces);
                self.shards.append(path, content, modified)?
            }
            FetchedFileContent::Unnamed(UnnamedBody::File(file)) => {
                append_from(&mut file.into_file())?
            }
            FetchedFileContent::Staged(staged) => {
                let mut reader = File::open(&staged).map_err(ArchiveError::Content)?;
                let location = append_from(&mut reader);
                // A leftover would take space and be in the way of the next run.
                remove_stale_staged(&staged);
                location?
            }
        };
        file.row.shard = Some(location);
        Ok(())
    }
}

impl BatchSink for TarWriter {
    fn add(
        &mut self,
        mut file: Box<VerifiedFile>,
        content: FetchedFileContent,
    ) -> Result<(), Box<JobOutcome>> {
        if let Err(error) = self.append(&mut file, content) {
            let error = archive_error(&file.job.path, error);
            return Err(Box::new(JobOutcome::failed(&file.job, error)));
        }
        self.group.push(*file);
        Ok(())
    }

    fn commit(&mut self) -> Vec<JobOutcome> {
        let group = std::mem::take(&mut self.group);
        if let Err(error) = self.shards.sync() {
            self.sync_error.get_or_insert(error);
        }
        let outcome = |file: VerifiedFile| {
            let path = &file.job.path;
            let error = match &self.sync_error {
                None => return JobOutcome::success(file.row),
                Some(ArchiveError::Stream(error)) => {
                    archive_error(path, ArchiveError::Stream(copy_error(error)))
                }
                Some(error) => {
                    let error = io::Error::other(error.to_string());
                    GetError::io("archive", path.clone(), error)
                }
            };
            JobOutcome::failed(&file.job, error)
        };
        group.into_iter().map(outcome).collect()
    }

    fn rows_written(&mut self) -> Result<(), GetError> {
        let published = match self.sync_error.take() {
            Some(error) => Err(error),
            None => self.shards.publish_full(),
        };
        published.map_err(|error| archive_error(Path::new("a full shard"), error))
    }

    fn finish(self: Box<Self>, nothing_succeeded: bool) -> Result<(), GetError> {
        let finished = if nothing_succeeded {
            self.shards.finish_unless_empty()
        } else {
            self.shards.finish()
        };
        finished.map_err(|error| archive_error(Path::new("its end"), error))
    }
}

/// Removes a large file that a killed run left between its last byte and its row. The partial-file strategy would take
/// it for a user's file that must be kept. Anything but a regular file was not left by a run.
pub(in crate::batch) fn remove_stale_staged(staged: &Path) {
    if staged.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // If this fails, the job reports what is in its way.
        let _ = std::fs::remove_file(staged);
    }
}

/// A date in seconds since 1970; 0 for one that cannot be read.
fn unix_seconds(date: &str) -> u64 {
    let date = httpdate::parse_http_date(date).ok();
    let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// Removes a file with a wrong digest. Beside an archive there is no name where a user would look for it.
pub(in crate::batch) fn remove_wrong_staged(job: &BatchJob, error: &mut GetError) {
    if let GetError::Verification {
        error: VerificationError::Checksum { moved_to, .. },
        ..
    } = error
        && job.staging_path.is_some()
        && let Some(path) = moved_to.take()
    {
        // A leftover would only take space.
        let _ = std::fs::remove_file(path);
    }
}

fn archive_error(path: &Path, source: ArchiveError) -> GetError {
    GetError::local(
        path.to_owned(),
        LocalError::Archive {
            source: Box::new(source),
        },
    )
}

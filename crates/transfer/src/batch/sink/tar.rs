//! Files become entries of tar shards.
//!
//! An entry is appended as it comes, since memory is what it would otherwise wait in; its row waits until the shard is synced.
//! Files that went the roads of partial files lie in a directory of their own until then, and go when they were taken, in or not:
//! whether such a file is still the origin's version nobody knows later, and one of no row is fetched again like every other.

use std::fs::File;
use std::io;
use std::path::Path;

use super::directory::again;
use super::{BatchSink, FileContent, VerifiedFile};
use crate::archive::{ArchiveError, ShardEntryContent, ShardWriter};
use crate::batch::group_commit::EndedJob;
use crate::batch::job::BatchJob;
use crate::error::GetError;
use crate::get::single_response::UnnamedBody;

/// Appends entries.
#[derive(Debug)]
pub(in crate::batch) struct TarWriter {
    shards: ShardWriter,
    /// Entries that are not durable yet: whose they are, and their rows.
    group: Vec<VerifiedFile>,
    /// Bytes in them.
    bytes: u64,
    /// Why entries are not durable.
    broken: Option<ArchiveError>,
}

impl TarWriter {
    pub(in crate::batch) fn new(shards: ShardWriter) -> Self {
        Self {
            shards,
            group: Vec::new(),
            bytes: 0,
            broken: None,
        }
    }

    /// Appends a file's bytes, and lets go of them.
    fn append(&mut self, written: &mut VerifiedFile) -> Result<(), ArchiveError> {
        let (path, length) = (&written.job.path, written.row.bytes);
        let modified = written.modified;
        let mut from = |file: &mut File| {
            let reader = file;
            self.shards
                .append(path, ShardEntryContent::Reader { reader, length }, modified)
        };
        let placed = match std::mem::replace(&mut written.content, FileContent::Taken) {
            FileContent::Unnamed(UnnamedBody::Memory(pieces, _room)) => {
                self.shards
                    .append(path, ShardEntryContent::Pieces(&pieces), modified)?
            }
            FileContent::Unnamed(UnnamedBody::File(file)) => from(&mut file.into_file())?,
            FileContent::Staged(staged) => {
                let mut file = File::open(&staged).map_err(ArchiveError::Content)?;
                let placed = from(&mut file);
                // Left over, it would take room and be in the way of the next run.
                unstage(&staged);
                placed?
            }
            FileContent::Taken => unreachable!("a file is taken once"),
        };
        written.row.shard = Some(placed);
        Ok(())
    }
}

impl BatchSink for TarWriter {
    fn add(&mut self, mut written: Box<VerifiedFile>) -> Result<(), Box<EndedJob>> {
        if let Err(error) = self.append(&mut written) {
            let error = archive(&written.job.path, error);
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
            self.broken.get_or_insert(error);
        }
        let end = |written: VerifiedFile| match &self.broken {
            Some(ArchiveError::Stream(error)) => {
                let error = ArchiveError::Stream(again(error));
                EndedJob::failed(&written.job, archive(&written.job.path, error))
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
        let settled = match self.broken.take() {
            Some(error) => Err(error),
            None => self.shards.publish_full(),
        };
        settled.map_err(|error| archive(Path::new("a full shard"), error))
    }

    fn finish(self: Box<Self>, fruitless: bool) -> Result<(), GetError> {
        let finished = match fruitless {
            true => self.shards.finish_unless_empty(),
            false => self.shards.finish(),
        };
        finished.map_err(|error| archive(Path::new("its end"), error))
    }
}

/// Removes what a run that was killed left of a large file between its last byte and its row: the roads of partial files would take
/// it for somebody's file that must be kept. What is no plain file was not put there by a run.
pub(in crate::batch) fn unstage(staged: &Path) {
    if staged.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // Should this fail, the job says what is in its way.
        let _ = std::fs::remove_file(staged);
    }
}

/// Drops bytes that are not the file meant: an archive has no name beside it where somebody would look for them.
pub(in crate::batch) fn drop_aside(job: &BatchJob, error: &mut GetError) {
    if let GetError::Checksum {
        moved_to: aside, ..
    } = error
        && job.staging_path.is_some()
        && let Some(aside) = aside.take()
    {
        // Left over, they would only take room.
        let _ = std::fs::remove_file(aside);
    }
}

fn archive(path: &Path, source: ArchiveError) -> GetError {
    GetError::Archive {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

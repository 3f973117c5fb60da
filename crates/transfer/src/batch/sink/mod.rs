//! Where files go: into [directories](directory) or into an [archive](tar).
//!
//! A sink takes files one by one and makes a group of them durable at once. Then the group's rows are written, and then
//! [`BatchSink::rows_written`] does what must come after the rows.

mod directory;
mod tar;

use std::path::PathBuf;

use tokio::sync::OwnedSemaphorePermit;

pub(super) use directory::DirectorySink;
pub(super) use tar::{TarWriter, drop_aside, unstage};

use super::group_commit::EndedJob;
use super::job::BatchJob;
use crate::error::GetError;
use crate::get::single_response::UnnamedBody;
use crate::manifest::ManifestRow;

/// A file with verified content.
#[derive(Debug)]
pub(super) struct VerifiedFile {
    pub(super) job: Box<BatchJob>,
    /// Its row, to be written when the file is durable.
    pub(super) row: ManifestRow,
    pub(super) content: FileContent,
    /// The last modification, in seconds since 1970.
    pub(super) modified: u64,
    /// The permit for an open file, returned when the file is in place.
    pub(super) _open_permit: Option<OwnedSemaphorePermit>,
}

/// Where the bytes of a file are.
#[derive(Debug)]
pub(super) enum FileContent {
    /// In memory, or in an unnamed file.
    Unnamed(UnnamedBody),
    /// In a file of the staging directory, to be removed when its bytes are in the archive.
    Staged(PathBuf),
    /// Moved out by the sink.
    Taken,
}

/// A place for files.
pub(super) trait BatchSink: Send {
    /// Adds a file to the current group.
    ///
    /// # Errors
    /// The outcome of the job, if the file cannot be added.
    fn add(&mut self, written: Box<VerifiedFile>) -> Result<(), Box<EndedJob>>;

    /// Number of files and bytes in the current group.
    fn pending(&self) -> (usize, u64);

    /// Makes the group durable and returns the outcomes of its jobs.
    fn commit(&mut self) -> Vec<EndedJob>;

    /// The rows of all committed groups are durable.
    ///
    /// # Errors
    /// When nothing more can be added.
    fn rows_written(&mut self) -> Result<(), GetError>;

    /// Ends the batch. `nothing_succeeded`: jobs failed and none succeeded.
    ///
    /// # Errors
    /// When the last files are not in place.
    fn finish(self: Box<Self>, nothing_succeeded: bool) -> Result<(), GetError>;
}

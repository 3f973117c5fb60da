//! Where files that came go: [names](folder) in directories, or [entries](tape) of an archive.
//!
//! Either takes files one by one and makes a group of them durable at once; only then does it give their rows, and what it does after
//! those are durable, too, is [`BatchSink::rows_written`].

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

/// A file that came, hashed and found right.
#[derive(Debug)]
pub(super) struct VerifiedFile {
    /// Whose it is.
    pub(super) job: Box<BatchJob>,
    /// Its row, as soon as it is durable.
    pub(super) row: ManifestRow,
    /// Its bytes.
    pub(super) content: FileContent,
    /// When it was last modified, in seconds since 1970.
    pub(super) modified: u64,
    /// Leave for it to be open, given back when it is in its place.
    pub(super) _open_permit: Option<OwnedSemaphorePermit>,
}

/// Where the bytes of a file lie.
#[derive(Debug)]
pub(super) enum FileContent {
    /// In memory, or in a file without a name.
    Unnamed(UnnamedBody),
    /// In a file that is in the way of nobody, and goes when its bytes are in the archive.
    Staged(PathBuf),
    /// Nowhere any more: they were taken.
    Taken,
}

/// Where files go.
pub(super) trait BatchSink: Send {
    /// Takes a file into the present group, or says why it cannot.
    fn add(&mut self, written: Box<VerifiedFile>) -> Result<(), Box<EndedJob>>;

    /// Files in the present group, and bytes.
    fn pending(&self) -> (usize, u64);

    /// Makes the group durable, and says what came of its files.
    fn commit(&mut self) -> Vec<EndedJob>;

    /// What the last commits gave is written down, durably.
    ///
    /// # Errors
    /// When nothing more can be taken.
    fn rows_written(&mut self) -> Result<(), GetError>;

    /// Nothing more comes; `fruitless` is whether nothing came, though something was to.
    ///
    /// # Errors
    /// When what was taken last is not in its place.
    fn finish(self: Box<Self>, fruitless: bool) -> Result<(), GetError>;
}

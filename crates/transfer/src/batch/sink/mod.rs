//! Where files that came go: [names](folder) in directories, or [entries](tape) of an archive.
//!
//! Either takes files one by one and makes a group of them durable at once; only then does it give their rows, and what it does after
//! those are durable, too, is [`Sink::settle`].

mod folder;
mod tape;

use std::path::PathBuf;

use tokio::sync::OwnedSemaphorePermit;

pub(super) use folder::Folder;
pub(super) use tape::{Tape, drop_aside, unstage};

use super::clerk::Ended;
use super::errand::Errand;
use crate::error::GetError;
use crate::get::quick::Body;
use crate::manifest::Row;

/// A file that came, hashed and found right.
#[derive(Debug)]
pub(super) struct Written {
    /// Whose it is.
    pub(super) errand: Box<Errand>,
    /// Its row, as soon as it is durable.
    pub(super) row: Row,
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// When it was last modified, in seconds since 1970.
    pub(super) modified: u64,
    /// Leave for it to be open, given back when it is in its place.
    pub(super) _open: Option<OwnedSemaphorePermit>,
}

/// Where the bytes of a file lie.
#[derive(Debug)]
pub(super) enum Bytes {
    /// In memory, or in a file without a name.
    Body(Body),
    /// In a file that is in the way of nobody, and goes when its bytes are in the archive.
    Staged(PathBuf),
    /// Nowhere any more: they were taken.
    Taken,
}

/// Where files go.
pub(super) trait Sink: Send {
    /// Takes a file into the present group, or says why it cannot.
    fn take(&mut self, written: Box<Written>) -> Result<(), Box<Ended>>;

    /// Files in the present group, and bytes.
    fn group(&self) -> (usize, u64);

    /// Makes the group durable, and says what came of its files.
    fn commit(&mut self) -> Vec<Ended>;

    /// What the last commits gave is written down, durably.
    ///
    /// # Errors
    /// When nothing more can be taken.
    fn settle(&mut self) -> Result<(), GetError>;

    /// Nothing more comes; `fruitless` is whether nothing came, though something was to.
    ///
    /// # Errors
    /// When what was taken last is not in its place.
    fn finish(self: Box<Self>, fruitless: bool) -> Result<(), GetError>;
}

//! What people and programs see of a folder: a page, JSON, a tar.
//!
//! [`ListQuery`] reads what was asked for, [`ListingFormat::negotiate`] settles the form of the answer, [`OpenFolder`](crate::store::OpenFolder)
//! is read on a thread that may wait for a disk, and what is here writes it out, all in the same way: an iterator of pieces of some
//! 64 KiB, of which one exists at a time. Nobody has to keep up, and no thread waits for a slow reader: whoever drives the iterator asks
//! for the next piece when the last one is on its way.
//!
//! [`html::render`] and [`json::render`] write a page that was read before; they only compute. [`json::JsonLines`] and [`tar::FolderTar`] read as
//! they go, so each of their steps may wait for a disk, and an error in the middle must cut the connection short.
//!
//! [`form`] is the way back: the page's upload form, for browsers without a script.

pub mod form;
pub mod html;
pub mod json;
pub mod tar;

mod display;
mod query;
mod text_chunks;

pub(crate) use display::DisplaySize;

pub use query::{
    HTML_LIMIT, JSON_LIMIT, ListQuery, ListQueryError, ListQueryParameter, ListingFormat, MAX_LIMIT,
};

use crate::ObjectKey;
use crate::store::{FolderPage, PageRequest};

/// A page of a folder, and what it is a page of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderListing {
    /// The folder.
    pub key: ObjectKey,
    /// What was asked for, of which links to other pages are made.
    pub request: PageRequest,
    /// What there is.
    pub page: FolderPage,
}

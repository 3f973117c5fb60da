//! Listings of folders: HTML pages, JSON and tar archives.
//!
//! [`ListQuery`] parses the request, [`ListingFormat::negotiate`] chooses the format,
//! [`OpenFolder`](crate::store::OpenFolder) reads the folder on a thread that may wait for a disk,
//! and this module renders it. Every renderer is an iterator of chunks of some 64 KiB, one of which
//! exists at a time. No thread waits for a slow reader: the driver asks for the next chunk when the
//! last one is being sent.
//!
//! [`html::render`] and [`json::render`] render a page that was read before; they only compute.
//! [`json::JsonLines`] and [`tar::FolderTar`] read while they render, so each step may wait for a
//! disk, and an error in the middle must close the connection early.
//!
//! [`form`] parses the page's upload form, for browsers without scripts.

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

/// A page of a folder with its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderListing {
    pub key: ObjectKey,
    /// The request, from which the links to other pages are made.
    pub request: PageRequest,
    pub page: FolderPage,
}

//! Operations on the objects of a bucket that move no file: lists and deletions, with retries.
//!
//! [`ObjectLister`] lists a prefix in the order of keys, several parts of it at a time. [`retrying`] is how every such request is
//! sent.

mod lister;
mod retries;

pub use lister::{ListProgress, ListedPage, ObjectLister};
pub use retries::{BucketError, retrying};

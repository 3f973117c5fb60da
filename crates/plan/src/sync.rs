//! What a sync of two trees does: two lists in the order of their keys go in, one decision a key comes out.
//!
//! Both lists are read once, side by side, so memory does not grow with them. Where they come from, and carrying the decisions out, is
//! the business of others.

mod comparison;
mod content;
mod listed;
mod merge;
#[cfg(test)]
mod tests;

pub use comparison::{SyncComparison, SyncDecision, SyncEntry, SyncOptions};
pub use content::ObjectDigests;
pub use listed::{ListedVersion, ListedVersionDecision, NotedVersion, VersionDifference};
pub use merge::{SyncMerge, SyncMergeError, SyncSide};

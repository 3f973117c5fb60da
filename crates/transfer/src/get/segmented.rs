//! The segmented strategy: several workers, one plan, one file.
//!
//! [`download`](mod@download) prepares the file, its journal and its workers. The [`coordinator`] owns the workers and everything that changes their
//! number. A [`worker`] claims a range, fetches it over its connection and writes it; what all workers share is in [`state`], under
//! one lock in [`claim_table`]. [`piece_check`] compares pieces with their digests.

mod claim_table;
mod coordinator;
mod download;
mod piece_check;
mod retry_report;
mod state;
mod worker;

pub(super) use download::{SegmentedStart, download};

//! The record of a batch: one row a job with its outcome, which later runs read.
//!
//! People and their tools read the file, too (`.jsonl` or `.csv`). It is only ever appended to. Its safety comes from
//! the order of writes: the bytes of a file are durable under their name, *then* its row is appended, then the manifest
//! is synced. So a row never claims more than the truth, and a crash loses at most the rows that were not synced. The
//! caller keeps that order. Nothing here knows files, tars or the network.
//!
//! **Crashes and damage.** A last line that is torn (after a kill, or on a full disk) or zeros (after a power cut) is
//! cut off when the manifest is opened. A damaged line elsewhere is reported and ignored, but not changed: an earlier
//! row of its job counts, or the job runs again. Each row carries a CRC-32C over the fields that a later run acts on,
//! because a flipped bit in a path could otherwise mark another job as done. The CRC covers values, not text, so tools
//! may reformat a row or add fields of their own; a row whose values they *change* counts as damaged. To have a job
//! fetched again, delete its rows.
//!
//! [`ManifestRow`] is what is known of a job. [`Manifest`] is the open file. [`PreviousRuns`] is the content that was
//! there before. [`COLUMNS`] is the table of what is written of a row.

mod columns;
mod csv;
mod fields;
mod format;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod index;
mod previous_runs;
mod row;
mod scan;
mod writer;

pub use columns::{COLUMNS, ColumnScope, ColumnType, ColumnValue, ManifestColumn};
pub use fields::ManifestRowFields;
pub(crate) use fields::ParsedFields;
#[cfg(feature = "fuzzing")]
pub(crate) use fuzzing::{encode_manifest, read_manifest};
pub use previous_runs::{ManifestWarning, PreviousRuns};
pub use row::{JobRowState, ManifestRow, ManifestRowError, RowTimings};
pub use writer::{Manifest, ManifestError};

#[cfg(test)]
mod tests;

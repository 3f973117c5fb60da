//! The record of a batch: one row a job, what came of it; and what a later run reads in it.
//!
//! A file that people and their tools read, too (`.jsonl` or `.csv`), that is only ever appended to. What makes it safe is the
//! order: the bytes of a file are durable and stand under their name, *then* its row is appended, then the manifest is synced. So a
//! row claims less than the truth or exactly it, and a crash costs at most what was not synced yet. The caller sees to that order;
//! nothing here knows files, tars or the network.
//!
//! **What a crash or a disk does to it.** A last line that is torn (a kill, a full disk) or zeros
//! (a power cut) is cut off when the manifest is opened. A damaged line elsewhere is reported, left where it is and otherwise
//! ignored: its job counts as what an earlier row says of it, and else is fetched again. Each row carries a CRC-32C over
//! those of its fields that a later run acts on, since a flipped bit in a path would else mark another job as done. It is over the
//! values and not over the text, so tools may write a row anew in other spelling or with fields of their own; a row that they *change*
//! counts as damaged. To have a job fetched again, delete its rows.
//!
//! [`ManifestRow`] is what is known of a job; `wire` turns it into named fields and back, `table` those into columns, `format` either
//! into lines; `scan` finds rows in a file that may be damaged; `index` remembers which jobs are done in 20 bytes each;
//! [`PreviousRuns`] answers for it; [`Manifest`] is the open file.

mod csv;
mod csv_record;
mod format;
mod index;
mod previous_runs;
mod row;
mod scan;
mod serialized_row;
mod writer;

pub use previous_runs::{ManifestWarning, PreviousRuns};
pub use row::{ManifestRow, RowError, RowState, RowTimings};
pub use writer::{Manifest, ManifestError};

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod past_tests;
#[cfg(test)]
mod tests;

//! The crash-safe record beside a partial file of which ranges are on disk.
//!
//! A line a record, each with its own checksum, appended and never rewritten: the first says which version of which
//! resource the bytes belong to, the others which ranges are in the file and the CRC-32C of what is there. The order
//! is what makes it safe: bytes are written, the file is synced, and only then is a record appended (row B2). So a
//! record claims less than the truth or exactly it, never more. On resume every claimed range is read back and its
//! CRC compared, which finds a partial file that was cut, flipped or swapped under us (row B3).
//!
//! A piece that turned out to be bad is taken back by a record of its own, before other bytes are written there. It takes back
//! every earlier record that touches it, for what is left of such a one has no CRC: less is claimed than the truth.
//!
//! Where validators do not cover all bytes, because some came from other hosts and only digests can verify, the header says so.
//! A run that goes on with such digests where there were none writes the header again, ahead of the bytes that rest on them.
//!
//! The first line is written before the first byte of the file, so that the journal is also what tells our partial files from
//! files of others under the same name: those are never touched.
//!
//! [`record`] is the format, [`Journal`] the open file, [`resume`] the reading back.

mod file;
mod record;
mod resume;

pub use file::Journal;
pub use record::{
    DiscardedRange, JournalEvidence, JournalHeader, JournalRecord, SavedRange, UnresumableRecord,
};
pub(crate) use resume::{
    ResumableDownload, SavedRangesCheck, UnusableJournal, is_journal, load_journal,
};

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;

//! The journal next to a partial file: a crash-safe record of the ranges that are on disk.
//!
//! One record per line, each with its own checksum; lines are appended and never rewritten. The first says which version of
//! which resource the bytes belong to, the others which ranges are in the file and the CRC-32C of their bytes. It is safe
//! because of the order: bytes are written, the file is synced, and only then is a record appended (row B2). So the journal
//! never claims a range that is not on disk. On resume every claimed range is read back and its CRC compared, which detects
//! a partial file that was truncated, corrupted or replaced (row B3).
//!
//! A piece with a wrong digest is taken back by a record of its own, before other bytes are written there. That record
//! cancels every earlier record that overlaps it: the rest of such a range has no CRC of its own, so it is fetched again
//! too.
//!
//! If validators do not cover all bytes, because some came from other hosts and only digests can verify them, the header
//! says so. A run that starts to depend on such digests writes the header again, before the bytes that depend on them.
//!
//! The first line is written before the first byte of the file, so that the journal also shows that a partial file is haul's
//! and not another program's file with the same name: those are never touched.
//!
//! [`record`] is the format, [`Journal`] the open file, [`resume`] reads a journal back.

mod file;
mod record;
mod resume;

pub use file::Journal;
pub use record::{
    DiscardedRange, JournalEvidence, JournalHeader, JournalRecord, SavedRange, UnresumableRecord,
};
#[cfg(feature = "fuzzing")]
pub(crate) use resume::read_journal;
pub(crate) use resume::{
    ResumableDownload, SavedRangesCheck, UnusableJournal, is_journal, load_journal,
};

#[cfg(test)]
mod tests;

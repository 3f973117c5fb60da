//! The open journal: appends records and syncs them.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::disk::{refuse_planted, remove_if_exists};

use super::record::{
    DiscardedRange, FORMAT, JournalHeader, JournalRecord, SavedRange, UnresumableRecord,
};

/// An open journal, only ever appended to.
#[derive(Debug)]
pub struct Journal {
    /// The open file, its position at the end of the last whole record.
    file: File,
}

impl Journal {
    /// Creates a journal and replaces an existing one. The caller has locked the partial file and has not written to it yet:
    /// a partial file with bytes but without a journal is never haul's.
    ///
    /// Not synced: a kill loses nothing of it, and the first [`Journal::append`] makes it durable with its records.
    pub fn create(path: &Path, header: &JournalHeader) -> io::Result<Self> {
        Self::begin(path, &JournalRecord::Header(header.clone()))
    }

    /// Marks a partial file as haul's if no state is kept for a later run.
    pub fn mark_unresumable(path: &Path) -> io::Result<()> {
        Self::begin(
            path,
            &JournalRecord::Mark(UnresumableRecord { format: FORMAT }),
        )
        .map(drop)
    }

    fn begin(path: &Path, first: &JournalRecord) -> io::Result<Self> {
        remove_if_exists(path)?;
        let mut file = options().write(true).create_new(true).open(path)?;
        file.write_all(first.to_line().as_bytes())?;
        Ok(Self { file })
    }

    /// Reopens a journal of which `length` bytes are complete records, and truncates an incomplete record after them.
    pub fn reopen(path: &Path, length: u64) -> io::Result<Self> {
        let mut file = options().write(true).open(path)?;
        refuse_planted(&file, path)?;
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Writes the header again, with what is true of the bytes from now on. To be called before bytes depend on it.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn rewrite_header(&mut self, header: &JournalHeader) -> io::Result<()> {
        let line = JournalRecord::Header(header.clone()).to_line();
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }

    /// Appends one record for each range and syncs them. The caller has synced the bytes of these ranges.
    ///
    /// # Errors
    /// The error of the system; the journal may then end in an incomplete line, which a reader ignores.
    pub fn append(&mut self, ranges: &[SavedRange]) -> io::Result<()> {
        self.append_and_discard(ranges, &[])
    }

    /// Appends these ranges, and then takes back the claims on the `discarded` ranges, even those just appended. Only when
    /// this has returned may the discarded ranges be written again: if a claimed range held other bytes, its CRC would be
    /// wrong, and the whole file would be discarded.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_and_discard(
        &mut self,
        ranges: &[SavedRange],
        discarded: &[DiscardedRange],
    ) -> io::Result<()> {
        let done = ranges
            .iter()
            .map(|range| JournalRecord::Done(range.clone()).to_line());
        let void = discarded
            .iter()
            .map(|discarded| JournalRecord::Void(discarded.clone()).to_line());
        let lines: String = done.chain(void).collect();
        self.file.write_all(lines.as_bytes())?;
        self.file.sync_data()
    }
}

/// Opens an existing journal for reading; a symbolic link is not followed, and what another user may have planted is refused.
pub(super) fn open_journal(path: &Path) -> io::Result<File> {
    let file = options().read(true).open(path)?;
    refuse_planted(&file, path)?;
    Ok(file)
}

/// Readable by its owner only, since the download may be private; never through a symbolic link that someone created.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

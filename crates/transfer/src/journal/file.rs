//! The open journal: appends records and syncs them.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
    /// Begins a new journal, replacing one that is there. The caller holds the partial file's lock, and has written nothing
    /// to it yet: a partial file with bytes and without a journal is never ours.
    ///
    /// Not synced: a kill takes nothing from it, and the first [`Journal::append`] makes it durable with its records.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, header: &JournalHeader) -> io::Result<Self> {
        Self::begin(path, &JournalRecord::Header(header.clone()))
    }

    /// Marks a partial file as ours where nothing can be kept for a later run.
    ///
    /// # Errors
    /// What the system says.
    pub fn mark_unresumable(path: &Path) -> io::Result<()> {
        Self::begin(
            path,
            &JournalRecord::Mark(UnresumableRecord { format: FORMAT }),
        )
        .map(drop)
    }

    fn begin(path: &Path, first: &JournalRecord) -> io::Result<Self> {
        let mut file = options()
            .write(true)
            .truncate(true)
            .create(true)
            .open(path)?;
        file.write_all(first.to_line().as_bytes())?;
        Ok(Self { file })
    }

    /// Goes on with a journal of which `length` bytes are whole records; a torn end is cut off.
    ///
    /// # Errors
    /// What the system says.
    pub fn reopen(path: &Path, length: u64) -> io::Result<Self> {
        let mut file = options().write(true).open(path)?;
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Writes the header again, with what holds of the bytes from now on. To be called before bytes rest on it.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn rewrite_header(&mut self, header: &JournalHeader) -> io::Result<()> {
        let line = JournalRecord::Header(header.clone()).to_line();
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }

    /// Appends one record a span and syncs them. The caller has synced the bytes they speak of.
    ///
    /// # Errors
    /// What the system says; the journal may then end in a torn line, which a reader cuts off.
    pub fn append(&mut self, spans: &[SavedRange]) -> io::Result<()> {
        self.append_and_discard(spans, &[])
    }

    /// The same, and then takes back what is claimed of some ranges, these spans among it. Only when this has returned may the
    /// ranges be written anew: a claim and bytes that are not those it was made of would cost the whole file its trust.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_and_discard(
        &mut self,
        spans: &[SavedRange],
        gone: &[DiscardedRange],
    ) -> io::Result<()> {
        let done = spans
            .iter()
            .map(|span| JournalRecord::Done(span.clone()).to_line());
        let void = gone
            .iter()
            .map(|gone| JournalRecord::Void(gone.clone()).to_line());
        let lines: String = done.chain(void).collect();
        self.file.write_all(lines.as_bytes())?;
        self.file.sync_data()
    }
}

/// Opens what is there to read it, but no link.
pub(super) fn open_journal(path: &Path) -> io::Result<File> {
    options().read(true).open(path)
}

/// Written by us alone, so that a download of something private stays so; never through a link someone laid there.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

//! Reads a journal back: the state of an earlier run, if it can be trusted.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use url::Url;

use super::file::open_journal;
use super::record::{FORMAT, JournalHeader, JournalRecord, MAX_LINE, SavedRange};
use crate::checksum::Crc32c;
use crate::disk::PartialStorage;
use crate::range_set::RangeSet;

/// The state of an earlier run.
#[derive(Debug)]
pub(crate) struct ResumableDownload {
    /// The version of the bytes.
    pub(crate) header: JournalHeader,
    /// The claimed ranges, in the order they were written.
    pub(crate) saved_ranges: Vec<SavedRange>,
    /// The length of the complete records in the journal, in bytes.
    pub(crate) journal_length: u64,
}

impl ResumableDownload {
    /// The ranges on disk.
    pub(crate) fn ranges(&self) -> RangeSet {
        self.saved_ranges
            .iter()
            .map(|range| range.start..range.end)
            .collect()
    }
}

/// Why an earlier run's state cannot be used. Display is the reason that a warning gives.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableJournal {
    /// The first line is not that of a journal, or a record is damaged.
    #[error("its journal is damaged")]
    Damaged,
    /// Another version of haul wrote it.
    #[error("its journal has format {0}, which this haul does not know")]
    Format(u32),
    /// It belongs to another URL.
    #[error("it belongs to another URL")]
    OtherUrl,
    /// The bytes on disk are not those that were written.
    #[error("its bytes are not those that were written")]
    Bytes,
    /// The files cannot be read.
    #[error("it cannot be read ({0})")]
    Unreadable(#[from] io::Error),
}

/// Whether a file was written as a journal. A journal damaged by a kill, a power cut or a flipped bit still counts (empty,
/// or zeros, if it was never synced); a file that another program put there does not.
pub(crate) fn is_journal(path: &Path) -> io::Result<bool> {
    let mut front = Vec::new();
    open_journal(path)?
        .take(2 * MAX_LINE as u64)
        .read_to_end(&mut front)?;
    if front.iter().all(|byte| *byte == 0) {
        return Ok(true);
    }
    let json = front.get(8..).unwrap_or_default();
    let begins = |beginning: &&str| json.starts_with(beginning.as_bytes());
    let mut lines = front.split(|byte| *byte == b'\n');
    Ok(JournalRecord::BEGINNINGS.iter().any(begins)
        || lines.any(|line| JournalRecord::from_line(line).is_some()))
}

/// Reads a journal; `None` if there is none, or if it says that there is nothing to resume.
///
/// A kill leaves a last line without its newline, which is ignored; damage anywhere else makes the whole journal unusable,
/// since the bytes may be damaged too.
pub(crate) fn load_journal(
    path: &Path,
    url: &Url,
) -> Result<Option<ResumableDownload>, UnusableJournal> {
    let file = match open_journal(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    read_journal(BufReader::new(file), url)
}

/// The same, of an open journal.
pub(crate) fn read_journal(
    mut reader: impl BufRead,
    url: &Url,
) -> Result<Option<ResumableDownload>, UnusableJournal> {
    let (mut header, mut length) = match next_record(&mut reader)? {
        Some((JournalRecord::Header(header), length)) => (header, length),
        Some((JournalRecord::Mark(_), _)) => return Ok(None),
        _ => return Err(UnusableJournal::Damaged),
    };
    if header.format != FORMAT {
        return Err(UnusableJournal::Format(header.format));
    }
    if !header.belongs_to(url) {
        return Err(UnusableJournal::OtherUrl);
    }
    let mut ranges = Vec::new();
    while let Some((record, bytes)) = next_record(&mut reader)? {
        match record {
            JournalRecord::Done(range) if range.start < range.end && range.end <= header.length => {
                ranges.push(range)
            }
            JournalRecord::Void(discarded)
                if discarded.start < discarded.end && discarded.end <= header.length =>
            {
                ranges.retain(|range| range.end <= discarded.start || discarded.end <= range.start);
            }
            JournalRecord::Header(newer)
                if (newer.format, newer.length) == (FORMAT, header.length)
                    && newer.url == header.url =>
            {
                header = newer;
            }
            _ => return Err(UnusableJournal::Damaged),
        }
        length += bytes;
    }
    Ok(Some(ResumableDownload {
        header,
        saved_ranges: ranges,
        journal_length: length,
    }))
}

/// The next record and its length in bytes; `None` at the end. An incomplete last line counts as the end.
fn next_record(reader: &mut impl BufRead) -> Result<Option<(JournalRecord, u64)>, UnusableJournal> {
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(MAX_LINE as u64)
        .read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return if line.len() < MAX_LINE {
            Ok(None)
        } else {
            Err(UnusableJournal::Damaged)
        };
    }
    match JournalRecord::from_line(&line[..line.len() - 1]) {
        Some(record) => Ok(Some((record, line.len() as u64))),
        None => Err(newer_format(&line).unwrap_or(UnusableJournal::Damaged)),
    }
}

/// A header that does not parse may be of a newer format with other fields: then the error names that format's number.
fn newer_format(line: &[u8]) -> Option<UnusableJournal> {
    #[derive(serde::Deserialize)]
    struct JournalFormatNumber {
        format: u32,
    }
    #[derive(serde::Deserialize)]
    struct AnyJournalHeader {
        header: JournalFormatNumber,
    }
    let unknown: AnyJournalHeader = serde_json::from_slice(line.get(9..)?).ok()?;
    (unknown.header.format != FORMAT).then_some(UnusableJournal::Format(unknown.header.format))
}

/// About how many bytes one step of a [`SavedRangesCheck`] reads: few enough that a caller can wait for it on any disk.
const STEP_BYTES: usize = 8 << 20;

/// Reads every range back and compares its CRC, step by step.
#[derive(Debug)]
pub(crate) struct SavedRangesCheck<'a> {
    storage: &'a dyn PartialStorage,
    /// Ranges not yet read.
    remaining: std::slice::Iter<'a, SavedRange>,
    /// The range being read, the offset in it, and the CRC so far.
    current: Option<(&'a SavedRange, u64, Crc32c)>,
    buffer: Vec<u8>,
}

impl<'a> SavedRangesCheck<'a> {
    pub(crate) fn new(storage: &'a dyn PartialStorage, saved: &'a ResumableDownload) -> Self {
        Self {
            storage,
            remaining: saved.saved_ranges.iter(),
            current: None,
            buffer: vec![0; 1 << 20],
        }
    }

    /// Reads on; false when all ranges have been verified. Blocks for as long as the disk takes to read some megabytes.
    pub(crate) fn step(&mut self) -> Result<bool, UnusableJournal> {
        let mut read = 0;
        while read < STEP_BYTES {
            let next = || {
                self.remaining
                    .next()
                    .map(|range| (range, range.start, Crc32c::new()))
            };
            let Some((range, mut at, mut crc)) = self.current.take().or_else(next) else {
                return Ok(false);
            };
            let remaining = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let want = remaining.min(self.buffer.len());
            let piece = &mut self.buffer[..want];
            if self.storage.read_at(at, piece)? < want {
                return Err(UnusableJournal::Bytes);
            }
            crc.update(piece);
            (at, read) = (at + want as u64, read + want);
            if at < range.end {
                self.current = Some((range, at, crc));
            } else if crc.finish() != range.crc {
                return Err(UnusableJournal::Bytes);
            }
        }
        Ok(true)
    }
}

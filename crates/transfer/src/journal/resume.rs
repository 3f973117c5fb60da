//! Reading a journal back: what an earlier run left, if it can be trusted.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use haul_plan::RangeSet;
use url::Url;

use super::file::open_journal;
use super::record::{FORMAT, JournalHeader, JournalRecord, MAX_LINE, SavedRange};
use crate::checksum::Crc32c;
use crate::disk::PartialStorage;

/// What an earlier run left.
#[derive(Debug)]
pub(crate) struct ResumableDownload {
    /// Which version the bytes are of.
    pub(crate) header: JournalHeader,
    /// What is said to be on disk, in the order it was written.
    pub(crate) saved_ranges: Vec<SavedRange>,
    /// Bytes of the journal that are whole records; what follows is torn.
    pub(crate) journal_length: u64,
}

impl ResumableDownload {
    /// The ranges on disk.
    pub(crate) fn ranges(&self) -> RangeSet {
        self.saved_ranges
            .iter()
            .map(|span| span.start..span.end)
            .collect()
    }
}

/// Why what an earlier run left is of no use. Display is the reason as a warning gives it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableJournal {
    /// The journal does not begin as one, or a record in it is damaged.
    #[error("its journal is damaged")]
    Damaged,
    /// Another version of haul wrote it.
    #[error("its journal has format {0}, which this haul does not know")]
    Format(u32),
    /// It belongs to something else.
    #[error("it belongs to another URL")]
    OtherUrl,
    /// The bytes on disk are not those that were written.
    #[error("its bytes are not those that were written")]
    Bytes,
    /// The files cannot be read.
    #[error("it cannot be read ({0})")]
    Unreadable(#[from] io::Error),
}

/// Whether a file was written as a journal. What a kill, a power cut or a flipped bit leaves of one still counts (nothing at
/// all, or zeros, for what was never synced); what somebody else put there does not.
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

/// Reads a journal; `None` when there is none, or when it says that there is nothing to resume.
///
/// A last line without its newline is what a kill leaves and is dropped; damage anywhere else makes the whole journal
/// unusable, since what damaged it may have damaged the bytes too.
pub(crate) fn load_journal(
    path: &Path,
    url: &Url,
) -> Result<Option<ResumableDownload>, UnusableJournal> {
    let file = match open_journal(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut reader = BufReader::new(file);
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
    let mut spans = Vec::new();
    while let Some((record, bytes)) = next_record(&mut reader)? {
        match record {
            JournalRecord::Done(span) if span.start < span.end && span.end <= header.length => {
                spans.push(span)
            }
            JournalRecord::Void(gone) if gone.start < gone.end && gone.end <= header.length => {
                spans.retain(|span| span.end <= gone.start || gone.end <= span.start);
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
        saved_ranges: spans,
        journal_length: length,
    }))
}

/// The next record and its length in bytes; `None` at the end, a torn last line counted as the end.
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

/// A header that does not parse may be of a newer format with other fields: its number is worth telling.
fn newer_format(line: &[u8]) -> Option<UnusableJournal> {
    #[derive(serde::Deserialize)]
    struct JournalFormatNumber {
        format: u32,
    }
    #[derive(serde::Deserialize)]
    struct AnyJournalHeader {
        header: JournalFormatNumber,
    }
    let any: AnyJournalHeader = serde_json::from_slice(line.get(9..)?).ok()?;
    (any.header.format != FORMAT).then_some(UnusableJournal::Format(any.header.format))
}

/// Bytes that one step of a [`SavedRangesCheck`] reads, about: soon enough done on any disk for the caller that waits for its end.
const STEP_BYTES: usize = 8 << 20;

/// Reads every span back and compares its CRC, step by step.
#[derive(Debug)]
pub(crate) struct SavedRangesCheck<'a> {
    storage: &'a dyn PartialStorage,
    /// Spans still to be read.
    remaining: std::slice::Iter<'a, SavedRange>,
    /// The span that is being read, how far, and the CRC so far.
    current: Option<(&'a SavedRange, u64, Crc32c)>,
    buffer: Vec<u8>,
}

impl<'a> SavedRangesCheck<'a> {
    pub(crate) fn new(storage: &'a dyn PartialStorage, kept: &'a ResumableDownload) -> Self {
        Self {
            storage,
            remaining: kept.saved_ranges.iter(),
            current: None,
            buffer: vec![0; 1 << 20],
        }
    }

    /// Reads on; false when everything was found right. Blocks for as long as the disk takes for some megabytes.
    pub(crate) fn step(&mut self) -> Result<bool, UnusableJournal> {
        let mut read = 0;
        while read < STEP_BYTES {
            let next = || {
                self.remaining
                    .next()
                    .map(|span| (span, span.start, Crc32c::new()))
            };
            let Some((span, mut at, mut crc)) = self.current.take().or_else(next) else {
                return Ok(false);
            };
            let left = usize::try_from(span.end - at).unwrap_or(usize::MAX);
            let want = left.min(self.buffer.len());
            let piece = &mut self.buffer[..want];
            if self.storage.read_at(at, piece)? < want {
                return Err(UnusableJournal::Bytes);
            }
            crc.update(piece);
            (at, read) = (at + want as u64, read + want);
            if at < span.end {
                self.current = Some((span, at, crc));
            } else if crc.finish() != span.crc {
                return Err(UnusableJournal::Bytes);
            }
        }
        Ok(true)
    }
}

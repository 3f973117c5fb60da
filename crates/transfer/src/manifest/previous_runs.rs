//! What earlier runs with a manifest came to.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::csv::ManifestColumns;
use super::csv_record::{CsvFields, CsvRecordParser};
use super::format::ManifestFormat;
use super::index::{LastRow, ManifestIndex};
use super::row::{ManifestRow, RowState};
use super::scan::{ManifestScan, ScannedLine, ScannedRow, StorageLines};
use crate::archive::ShardEntryLocation;
use crate::disk::PartialStorage;

/// So many damaged lines are named; the others are only counted.
const NAMED: usize = 10;

/// So many shards are remembered, the latest: more than can be without their final names at once, since each of those is open.
const SHARDS: usize = 1024;

/// Worth telling the user, though the manifest is of use. Display is the text of a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestWarning {
    /// What the end of the last run tore: a row that was not whole was cut off.
    Torn {
        /// Bytes cut off.
        bytes: u64,
    },
    /// Lines that are no rows any more. They were left as they are.
    Damaged {
        /// How many.
        count: u64,
        /// The numbers of the first of them, counted from 1.
        lines: Vec<u64>,
    },
    /// Rows of files that were handed to the reader of an archive. What became of them there nobody knows here, so those jobs are not
    /// done for a later run.
    StreamedRows {
        /// How many rows.
        count: u64,
    },
}

impl fmt::Display for ManifestWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { bytes } => {
                write!(
                    f,
                    "its last {bytes} bytes were not written whole and were cut off"
                )
            }
            Self::Damaged { count, lines } => {
                let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                let more = if *count > lines.len() as u64 {
                    " and others"
                } else {
                    ""
                };
                write!(
                    f,
                    "{count} of its lines are damaged and count for nothing: {}{more}",
                    lines.join(", ")
                )
            }
            Self::StreamedRows { count } => write!(
                f,
                "{count} of its rows are of archives that were read as they came, and count for nothing: what became of those files nobody knows here"
            ),
        }
    }
}

/// What earlier runs came to: for each job its last row. Rows that are appended meanwhile are not in it.
///
/// Holds 20 bytes for each row that was there, and reads in the file what is asked for more rarely.
#[derive(Debug)]
pub struct PreviousRuns {
    storage: Arc<dyn PartialStorage>,
    /// Where the file lies, behind all links; `None` where that cannot be told.
    path: Option<PathBuf>,
    format: ManifestFormat,
    index: ManifestIndex,
    shards: VecDeque<(String, u64)>,
    /// Whether rows are of files in directories.
    has_files: bool,
    warnings: Vec<ManifestWarning>,
}

/// A file that was read as a manifest.
pub(super) struct ManifestReading {
    /// What it says.
    pub(super) previous_runs: PreviousRuns,
    /// How rows are written in it.
    pub(super) format: ManifestFormat,
    /// So many bytes of it are whole lines; what follows is torn.
    pub(super) valid_bytes: u64,
}

impl PreviousRuns {
    /// Whether a job was done: its last row says so. A row that says it was skipped, unless nothing had changed, is passed over.
    #[must_use]
    pub fn is_done(&self, url: &str, path: Option<&str>) -> bool {
        self.index.find(url, path).is_some_and(|last| last.done)
    }

    /// The last row of a job that was done. Reads it in the file, which blocks; one that cannot be read is as if there were none, and
    /// the job is fetched again.
    #[must_use]
    pub fn done_row(&self, url: &str, path: Option<&str>) -> Option<ManifestRow> {
        let last = self.index.find(url, path).filter(|last| last.done)?;
        match ManifestScan::from_offset(&*self.storage, &self.format, last.offset).next() {
            // Somebody may have written to the file in spite of the lock, and two jobs may have one hash.
            Ok(ScannedRow::Row { row, .. }) if row.url == url && row.path.as_deref() == path => {
                Some(*row)
            }
            _ => None,
        }
    }

    /// The URL of the job that was the last to be done under a path, if that is another job than the one of `url`. Reads in the file
    /// only if it is.
    #[must_use]
    pub fn other_url_done_at(&self, url: &str, path: &str) -> Option<String> {
        let last = self.index.last_done_at(path)?;
        if self.index.find(url, Some(path)) == Some(last) {
            return None;
        }
        match ManifestScan::from_offset(&*self.storage, &self.format, last.offset).next() {
            Ok(ScannedRow::Row { row, .. })
                if row.url != url && row.path.as_deref() == Some(path) =>
            {
                Some(row.url)
            }
            _ => None,
        }
    }

    /// Takes nothing for done any more: for a run whose result is to hold all of it.
    pub fn forget_all(&mut self) {
        self.index = ManifestIndex::default();
        self.shards.clear();
        self.has_files = false;
    }

    /// How many jobs are done.
    #[must_use]
    pub fn done_count(&self) -> u64 {
        self.index.counts().0
    }

    /// How many jobs failed, so that they are tried again.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        self.index.counts().1
    }

    /// For each of the latest shards the end of the last entry that a row speaks of, in the order in which they were begun.
    pub fn shard_ends(&self) -> impl Iterator<Item = (&str, u64)> {
        self.shards.iter().map(|(name, end)| (&**name, *end))
    }

    /// Whether rows are of files in directories, which are in no archive.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// Whether this path leads to the manifest itself: what is written there would take the place of all rows.
    #[must_use]
    pub fn is_manifest_path(&self, path: &Path) -> bool {
        let leads = path.canonicalize().ok();
        leads.is_some() && leads == self.path
    }

    /// Says where the file lies.
    pub(super) fn set_path(&mut self, path: &Path) {
        self.path = path.canonicalize().ok();
    }

    /// What was wrong with the file.
    #[must_use]
    pub fn warnings(&self) -> &[ManifestWarning] {
        &self.warnings
    }

    /// Reads a file; `None` when it is no manifest. Changes nothing in it.
    pub(super) fn read(
        storage: &Arc<dyn PartialStorage>,
        format: ManifestFormat,
    ) -> io::Result<Option<ManifestReading>> {
        let length = storage.length()?;
        let mut lines = StorageLines::new(&**storage);
        let Some(opened) = read_head(&mut lines, format)? else {
            return Ok(None);
        };
        let rows = StorageLines::new(&**storage).count()?;
        let mut past = Self {
            storage: Arc::clone(storage),
            path: None,
            format: opened.format.clone(),
            index: ManifestIndex::with_capacity(rows).map_err(io::Error::other)?,
            shards: VecDeque::new(),
            has_files: false,
            warnings: Vec::new(),
        };
        let mut tally = ManifestDamage::new(opened.is_manifest);
        let mut handed = 0;
        let mut scan = ManifestScan::after(lines, &**storage, &opened.format);
        let mut whole = loop {
            match scan.next()? {
                ScannedRow::Row { at, row } => {
                    tally.row();
                    handed += u64::from(past.add_row(at, &row));
                }
                ScannedRow::Damaged {
                    at,
                    line,
                    ours,
                    open,
                } => tally.damaged(at, line, ours, open),
                ScannedRow::End { whole } => break whole,
            }
        };
        let ours = tally.is_manifest || (whole == 0 && opened.torn);
        if !ours {
            return Ok(None);
        }
        if let Some(at) = tally.torn_row() {
            whole = at;
        }
        past.index.sort();
        past.warnings = tally.warnings(length - whole);
        if handed > 0 {
            past.warnings
                .push(ManifestWarning::StreamedRows { count: handed });
        }
        let format = opened.format;
        Ok(Some(ManifestReading {
            previous_runs: past,
            format,
            valid_bytes: whole,
        }))
    }

    /// Takes what a row says; whether it is of a file that was handed to a reader.
    fn add_row(&mut self, at: u64, row: &ManifestRow) -> bool {
        // A line that could not be read: nothing that could be asked about.
        if row.url.is_empty() {
            return false;
        }
        let handed = row.state == RowState::Done
            && row
                .shard
                .as_ref()
                .is_some_and(ShardEntryLocation::is_streamed);
        let done = match row.state {
            RowState::Done => !handed,
            RowState::Failed => false,
            RowState::Skipped if row.status == Some(304) => true,
            RowState::Skipped => return false,
        };
        self.index
            .push(&row.url, row.path.as_deref(), LastRow { offset: at, done });
        self.has_files |= row.state == RowState::Done && row.shard.is_none();
        let placed = row.shard.as_ref().filter(|_| done);
        let Some(placed) = placed else { return handed };
        let known = self
            .shards
            .iter_mut()
            .rev()
            .find(|(name, _)| *name == placed.shard);
        if let Some((_, end)) = known {
            *end = placed.end.max(*end);
            return false;
        }
        if self.shards.len() == SHARDS {
            self.shards.pop_front();
        }
        self.shards.push_back((placed.shard.clone(), placed.end));
        false
    }
}

/// What the front of a file says about it.
struct ManifestHead {
    format: ManifestFormat,
    /// Whether it is a manifest already, or rows have to show that.
    is_manifest: bool,
    /// Whether it is one if nothing stands in it but this.
    torn: bool,
}

/// Reads the header, where the format has one; `None` when it is another's.
fn read_head(
    lines: &mut StorageLines<'_>,
    format: ManifestFormat,
) -> io::Result<Option<ManifestHead>> {
    let mut first = Vec::new();
    if format == ManifestFormat::JsonLines {
        // Looked at without being taken: it is a row.
        let torn = lines.peek_without_newline(&mut first)? && format.may_be_torn_start(&first);
        return Ok(Some(ManifestHead {
            format,
            is_manifest: false,
            torn,
        }));
    }
    let mut splitter = CsvRecordParser::new();
    let header = match lines.next(&mut first)? {
        ScannedLine::End => {
            return Ok(Some(ManifestHead {
                format,
                is_manifest: false,
                torn: true,
            }));
        }
        ScannedLine::Torn => {
            let torn = format.may_be_torn_start(&first);
            return Ok(torn.then_some(ManifestHead {
                format,
                is_manifest: false,
                torn,
            }));
        }
        ScannedLine::TooLong => return Ok(None),
        ScannedLine::Complete => splitter.parse(&first),
    };
    let CsvFields::Complete(columns) = header else {
        return Ok(None);
    };
    let columns = columns.into_iter().map(str::to_owned).collect();
    Ok(
        ManifestColumns::from_header(columns).map(|table| ManifestHead {
            format: ManifestFormat::Csv(table),
            is_manifest: true,
            torn: false,
        }),
    )
}

/// Counts what is wrong.
struct ManifestDamage {
    /// Whether anything showed that the file is a manifest.
    is_manifest: bool,
    count: u64,
    lines: Vec<u64>,
    /// Where a row begins that the end of the file cuts off, and how many lines were damaged before it.
    open: Option<(u64, u64)>,
}

impl ManifestDamage {
    fn new(is_manifest: bool) -> Self {
        Self {
            is_manifest,
            count: 0,
            lines: Vec::new(),
            open: None,
        }
    }

    fn row(&mut self) {
        self.is_manifest = true;
        self.open = None;
    }

    fn damaged(&mut self, at: u64, line: u64, ours: bool, open: bool) {
        self.is_manifest |= ours;
        if open && self.open.is_none() {
            self.open = Some((at, self.count));
        }
        self.count += 1;
        if self.lines.len() < NAMED {
            self.lines.push(line);
        }
    }

    /// Where a torn row of several lines begins; its lines are not damaged, then.
    fn torn_row(&mut self) -> Option<u64> {
        let (at, count) = self.open?;
        self.count = count;
        self.lines.truncate(usize::try_from(count).unwrap_or(NAMED));
        Some(at)
    }

    fn warnings(self, torn: u64) -> Vec<ManifestWarning> {
        let damaged = ManifestWarning::Damaged {
            count: self.count,
            lines: self.lines,
        };
        let torn = (torn > 0).then_some(ManifestWarning::Torn { bytes: torn });
        torn.into_iter()
            .chain((self.count > 0).then_some(damaged))
            .collect()
    }
}

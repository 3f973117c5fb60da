//! What earlier runs recorded in a manifest.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::csv::{CsvRecordParser, ManifestHeader};
use super::format::ManifestFormat;
use super::index::{LastJobRow, ManifestIndex};
use super::row::{JobRowState, ManifestRow};
use super::scan::{ManifestLines, ManifestScan, ScannedLine, ScannedRow};
use crate::archive::ShardEntryLocation;
use crate::disk::PartialStorage;

/// How many damaged lines a warning names; further ones are only counted.
const MAX_REPORTED_LINES: usize = 10;

/// How many shards are remembered, the latest ones. Only unfinished shards matter, and each of those was an open file,
/// so there are never as many.
const MAX_SHARDS: usize = 1024;

/// Something that the user should know about a usable manifest. `Display` is the text of the warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestWarning {
    /// The last run was interrupted while it wrote a row, which was cut off.
    Torn {
        /// Bytes that were cut off.
        bytes: u64,
    },
    /// Lines that are not valid rows. They were not changed.
    Damaged {
        /// How many.
        count: u64,
        /// The numbers of the first of them, from 1.
        lines: Vec<u64>,
    },
    /// Rows of files that went to a stream. haul does not know what became of them, so those jobs are not done for a
    /// later run.
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
                    "its last {bytes} bytes were an incomplete row and were cut off"
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
                    "{count} of its lines are damaged and are ignored: {}{more}",
                    lines.join(", ")
                )
            }
            Self::StreamedRows { count } => write!(
                f,
                "{count} of its rows are of streamed archives and are ignored, because their files may be gone"
            ),
        }
    }
}

/// What earlier runs recorded: the last row of each job. Rows that this run appends are not in it. Takes 20 bytes of
/// memory for each row, and reads rows in the file where more is needed.
#[derive(Debug)]
pub struct PreviousRuns {
    storage: Arc<dyn PartialStorage>,
    /// The resolved path of the manifest; `None` when it cannot be resolved.
    path: Option<PathBuf>,
    format: ManifestFormat,
    index: ManifestIndex,
    shards: VecDeque<(String, u64)>,
    /// Whether a row records a file in a directory.
    has_files: bool,
    warnings: Vec<ManifestWarning>,
}

pub(super) struct ManifestReading {
    pub(super) previous_runs: PreviousRuns,
    /// The format, with the columns that the file has.
    pub(super) format: ManifestFormat,
    /// Bytes of the file up to the last complete line. The rest is torn.
    pub(super) valid_bytes: u64,
}

impl PreviousRuns {
    /// Whether a job is done by its last row. A row that says "skipped" does not count, unless it is for an unchanged
    /// file.
    #[must_use]
    pub fn is_done(&self, url: &str, path: Option<&str>) -> bool {
        self.index.find(url, path).is_some_and(|last| last.done)
    }

    /// The last row of a job that is done. Reads it in the file, which blocks. A row that cannot be read counts as
    /// missing, and the job is fetched again.
    #[must_use]
    pub fn done_row(&self, url: &str, path: Option<&str>) -> Option<ManifestRow> {
        let last = self.index.find(url, path).filter(|last| last.done)?;
        match ManifestScan::from_offset(&*self.storage, &self.format, last.offset).next() {
            // Somebody may have written to the file in spite of the lock, and two jobs may have the same hash.
            Ok(ScannedRow::Row { row, .. }) if row.url == url && row.path.as_deref() == path => {
                Some(*row)
            }
            _ => None,
        }
    }

    /// The URL of the last job that was done under a path, if that job is not the one of `url`. Reads in the file only
    /// in that case.
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

    /// Treats no job as done any more, for a run whose result must hold all files.
    pub fn forget_all(&mut self) {
        self.index = ManifestIndex::default();
        self.shards.clear();
        self.has_files = false;
    }

    /// How many jobs are done.
    #[must_use]
    pub fn done_count(&self) -> u64 {
        self.index.done_count()
    }

    /// For each of the latest shards, the end of the last entry that a row records. Shards come in the order of their
    /// first rows.
    pub fn shard_ends(&self) -> impl Iterator<Item = (&str, u64)> {
        self.shards.iter().map(|(name, end)| (&**name, *end))
    }

    /// Whether rows record files in directories, which are in no archive.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// Whether a path leads to the manifest itself. A file written there would replace it.
    #[must_use]
    pub fn is_manifest_path(&self, path: &Path) -> bool {
        let leads = path.canonicalize().ok();
        leads.is_some() && leads == self.path
    }

    pub(super) fn set_path(&mut self, path: &Path) {
        self.path = path.canonicalize().ok();
    }

    /// What was wrong with the file.
    #[must_use]
    pub fn warnings(&self) -> &[ManifestWarning] {
        &self.warnings
    }

    /// Reads a file without changing it; `None` when it is not a manifest.
    pub(super) fn read(
        storage: &Arc<dyn PartialStorage>,
        format: ManifestFormat,
    ) -> io::Result<Option<ManifestReading>> {
        let length = storage.length()?;
        let mut lines = ManifestLines::new(&**storage);
        let Some(opened) = read_head(&mut lines, format)? else {
            return Ok(None);
        };
        let rows = ManifestLines::new(&**storage).count()?;
        let mut previous_runs = Self {
            storage: Arc::clone(storage),
            path: None,
            format: opened.format.clone(),
            index: ManifestIndex::with_capacity(rows).map_err(io::Error::other)?,
            shards: VecDeque::new(),
            has_files: false,
            warnings: Vec::new(),
        };
        let mut damage = ManifestDamage::new(opened.is_manifest);
        let mut streamed = 0;
        let mut scan = ManifestScan::after(lines, &opened.format);
        let valid_bytes = loop {
            match scan.next()? {
                ScannedRow::Row { offset, row } => {
                    damage.is_manifest = true;
                    streamed += u64::from(previous_runs.add_row(offset, &row));
                }
                ScannedRow::Damaged {
                    line,
                    looks_like_row,
                } => damage.add_line(line, looks_like_row),
                ScannedRow::End { valid_bytes } => break valid_bytes,
            }
        };
        let is_manifest = damage.is_manifest || (valid_bytes == 0 && opened.torn);
        if !is_manifest {
            return Ok(None);
        }
        previous_runs.index.sort();
        previous_runs.warnings = damage.warnings(length - valid_bytes);
        if streamed > 0 {
            previous_runs
                .warnings
                .push(ManifestWarning::StreamedRows { count: streamed });
        }
        let format = opened.format;
        Ok(Some(ManifestReading {
            previous_runs,
            format,
            valid_bytes,
        }))
    }

    /// Adds a row to the index. Returns whether the row records a streamed file.
    fn add_row(&mut self, offset: u64, row: &ManifestRow) -> bool {
        // The row of an unreadable line names no job.
        if row.url.is_empty() {
            return false;
        }
        let streamed = row.state == JobRowState::Done
            && row
                .shard
                .as_ref()
                .is_some_and(ShardEntryLocation::is_streamed);
        let done = match row.state {
            JobRowState::Done => !streamed,
            JobRowState::Failed => false,
            JobRowState::Skipped if row.status == Some(304) => true,
            JobRowState::Skipped => return false,
        };
        self.index
            .push(&row.url, row.path.as_deref(), LastJobRow { offset, done });
        self.has_files |= row.state == JobRowState::Done && row.shard.is_none();
        let location = row.shard.as_ref().filter(|_| done);
        let Some(location) = location else {
            return streamed;
        };
        let known = self
            .shards
            .iter_mut()
            .rev()
            .find(|(name, _)| *name == location.shard);
        if let Some((_, end)) = known {
            *end = location.end.max(*end);
            return false;
        }
        if self.shards.len() == MAX_SHARDS {
            self.shards.pop_front();
        }
        self.shards
            .push_back((location.shard.clone(), location.end));
        false
    }
}

/// What the beginning of a file tells.
struct ManifestHead {
    format: ManifestFormat,
    /// Whether this is a manifest for certain. Otherwise a row must show it.
    is_manifest: bool,
    /// Whether this is a manifest if the file holds nothing else.
    torn: bool,
}

/// Reads the header, if the format has one; `None` when it is not a manifest's.
fn read_head(
    lines: &mut ManifestLines<'_>,
    format: ManifestFormat,
) -> io::Result<Option<ManifestHead>> {
    let mut first = Vec::new();
    if format == ManifestFormat::JsonLines {
        // The bytes are only looked at: they belong to a row.
        let torn = lines.peek_without_newline(&mut first)? && format.may_be_torn_start(&first);
        return Ok(Some(ManifestHead {
            format,
            is_manifest: false,
            torn,
        }));
    }
    let mut parser = CsvRecordParser::new();
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
        ScannedLine::Complete => parser.parse(&first),
    };
    let Some(columns) = header else {
        return Ok(None);
    };
    let columns = columns.into_iter().map(str::to_owned).collect();
    Ok(ManifestHeader::parse(columns).map(|header| ManifestHead {
        format: ManifestFormat::Csv(header),
        is_manifest: true,
        torn: false,
    }))
}

/// Counts damaged lines.
struct ManifestDamage {
    /// Whether anything showed that the file is a manifest.
    is_manifest: bool,
    count: u64,
    lines: Vec<u64>,
}

impl ManifestDamage {
    fn new(is_manifest: bool) -> Self {
        Self {
            is_manifest,
            count: 0,
            lines: Vec::new(),
        }
    }

    fn add_line(&mut self, line: u64, looks_like_row: bool) {
        self.is_manifest |= looks_like_row;
        self.count += 1;
        if self.lines.len() < MAX_REPORTED_LINES {
            self.lines.push(line);
        }
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

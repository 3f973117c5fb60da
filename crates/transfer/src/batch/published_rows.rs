//! The rows that a batch has published, for entries that repeat a URL: their rows have the result of the first one.
//!
//! Nobody knows which URLs come again, so the result of every file is kept: in an unnamed file, with some 40 bytes of memory for each. The
//! newest results are in memory until they fill a block; all of them, where the file system has no unnamed files. An entry that comes
//! before the first one has ended waits for it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::disk::{UnnamedFile, or_current_directory};
use crate::manifest::{ManifestRow, ParsedFields, RowTimings};

/// Bytes that are written at once: some 200 results.
const BLOCK: usize = 64 << 10;

/// Bytes of results to keep, for some millions of files. The repeats of later files only say that they were skipped.
const MAX_BYTES: u64 = 1 << 30;

/// The same limit if the file system has no unnamed files, so that the results stay in memory.
const MAX_MEMORY: u64 = 32 << 20;

/// The published rows of files.
#[derive(Debug)]
pub(super) struct PublishedRows {
    /// `None` where the file system has no unnamed files.
    file: Option<UnnamedFile>,
    /// Bytes in the file, and the offset of the first of the newest records.
    written: u64,
    /// The newest records, which are not in the file yet.
    newest: Vec<u8>,
    /// Where the records are, by the hashes of paths.
    records: HashMap<u64, Range<u64>>,
    /// Repeats of files that are not published, by the same hashes.
    waiting: HashMap<u64, WaitingRepeats>,
    hasher: RandomState,
    max_bytes: u64,
    /// Whether a result was not kept. Then a file without a result may have been published.
    is_full: bool,
}

/// Entries that repeat one file.
#[derive(Debug)]
struct WaitingRepeats {
    /// The row of the first entry, without a result.
    row: ManifestRow,
    /// The lines of all.
    lines: Vec<Option<u64>>,
}

impl PublishedRows {
    /// No rows. Records go into a file in the file system of this directory.
    pub(super) fn new(directory: &Path) -> Self {
        let file = UnnamedFile::create_in(or_current_directory(directory)).ok();
        Self {
            max_bytes: if file.is_some() {
                MAX_BYTES
            } else {
                MAX_MEMORY
            },
            file,
            written: 0,
            newest: Vec::new(),
            records: HashMap::new(),
            waiting: HashMap::new(),
            hasher: RandomState::new(),
            is_full: false,
        }
    }

    /// Keeps the result in a row, and returns the rows of the repeats that have waited for it.
    pub(super) fn add(&mut self, row: &ManifestRow) -> Vec<ManifestRow> {
        let Some(path) = &row.path else {
            return Vec::new();
        };
        let key = self.hasher.hash_one(path);
        match self.store(row) {
            Some(record) => {
                self.records.insert(key, record);
            }
            None => self.is_full = true,
        }
        let waiting = self.waiting.remove(&key);
        let lines = waiting.into_iter().flat_map(|waiting| waiting.lines);
        lines.map(|line| repeat_of(row.clone(), line)).collect()
    }

    /// The row of an entry that repeats the file with this path. `None` while the file is under way: the row comes from [`Self::add`]
    /// or [`Self::take_waiting`].
    pub(super) fn repeat(&mut self, repeat: ManifestRow, path: &str) -> Option<ManifestRow> {
        let key = self.hasher.hash_one(path);
        if let Some(record) = self.records.get(&key) {
            return Some(match self.load(record) {
                Some(first) if first.path.as_deref() == Some(path) => repeat_of(first, repeat.line),
                _ => repeat,
            });
        }
        if self.is_full {
            return Some(repeat);
        }
        let line = repeat.line;
        let waiting = self.waiting.entry(key).or_insert_with(|| WaitingRepeats {
            row: repeat,
            lines: Vec::new(),
        });
        waiting.lines.push(line);
        None
    }

    /// The rows of repeats whose file has no row.
    pub(super) fn take_waiting(&mut self) -> Vec<ManifestRow> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let rows = waiting.flat_map(|WaitingRepeats { row, lines }| {
            lines.into_iter().map(move |line| ManifestRow {
                line,
                ..row.clone()
            })
        });
        rows.collect()
    }

    fn store(&mut self, row: &ManifestRow) -> Option<Range<u64>> {
        let start = self.written + self.newest.len() as u64;
        if self.is_full || start >= self.max_bytes {
            return None;
        }
        // What a manifest has of an error is less than all of it.
        let record = serde_json::to_vec(&(row.fields(), &row.error)).ok()?;
        if self.newest.len() + record.len() > BLOCK
            && let Some(file) = &self.file
        {
            file.file().write_all_at(&self.newest, self.written).ok()?;
            self.written = start;
            self.newest.clear();
        }
        self.newest.extend_from_slice(&record);
        Some(start..start + record.len() as u64)
    }

    fn load(&self, record: &Range<u64>) -> Option<ManifestRow> {
        let length = usize::try_from(record.end - record.start).ok()?;
        let bytes = match record.start.checked_sub(self.written) {
            Some(start) => {
                let start = usize::try_from(start).ok()?;
                self.newest.get(start..start + length)?.to_vec()
            }
            None => {
                let mut bytes = vec![0; length];
                let file = self.file.as_ref()?.file();
                file.read_exact_at(&mut bytes, record.start).ok()?;
                bytes
            }
        };
        let (fields, error): (ParsedFields<'_>, _) = serde_json::from_slice(&bytes).ok()?;
        Some(ManifestRow {
            error,
            ..fields.into_row()?
        })
    }
}

/// The row of an entry that repeats the first one. Nothing was requested for it.
fn repeat_of(first: ManifestRow, line: Option<u64>) -> ManifestRow {
    ManifestRow {
        line,
        attempts: 0,
        timings: RowTimings::default(),
        ..first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::ShardEntryLocation;
    use crate::error::ErrorClass;
    use crate::manifest::{JobRowState, ManifestRowError};

    fn row(line: u64, path: Option<&str>) -> ManifestRow {
        ManifestRow {
            path: path.map(str::to_owned),
            ..ManifestRow::new(
                Some(line),
                format!("http://h.test/{line}"),
                JobRowState::Skipped,
            )
        }
    }

    fn done(line: u64, path: &str) -> ManifestRow {
        ManifestRow {
            state: JobRowState::Done,
            status: Some(200),
            bytes: 7,
            checksums: vec![("sha256".parse().unwrap(), "00ff".into())],
            etag: Some("\"e\"".into()),
            attempts: 3,
            shard: Some(ShardEntryLocation {
                shard: "t.tar".into(),
                offset: 512,
                end: 1536,
            }),
            ..row(line, Some(path))
        }
    }

    #[test]
    fn repeats_have_the_result_of_the_first_whichever_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut rows = PublishedRows::new(dir.path());
        assert_eq!(rows.repeat(row(2, None), "a"), None);
        assert_eq!(rows.repeat(row(3, None), "a"), None);
        assert_eq!(rows.repeat(row(4, None), "b"), None);
        let expected = |line| ManifestRow {
            line: Some(line),
            attempts: 0,
            ..done(1, "a")
        };
        let first = done(1, "a");
        assert_eq!(rows.add(&first), [expected(2), expected(3)]);
        assert_eq!(rows.repeat(row(5, None), "a"), Some(expected(5)));
        let error = ManifestRowError::new(ErrorClass::Network, "404".into());
        let failed = ManifestRow {
            state: JobRowState::Failed,
            error: Some(error.clone()),
            ..row(6, Some("c"))
        };
        assert_eq!(rows.add(&failed), []);
        let repeat = rows.repeat(row(7, None), "c").unwrap();
        assert_eq!(
            (repeat.state, repeat.error),
            (JobRowState::Failed, Some(error))
        );
        assert_eq!(rows.take_waiting(), [row(4, None)]);
        assert_eq!(rows.take_waiting(), []);
    }

    #[test]
    fn behind_the_limit_repeats_are_skipped_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut rows = PublishedRows::new(dir.path());
        rows.max_bytes = 1000;
        assert_eq!(rows.repeat(row(9000, None), "p40"), None);
        for line in 1..40 {
            rows.add(&done(line, &format!("p{line}")));
        }
        assert!(rows.newest.len() < 2000 && rows.records.len() < 20);
        assert_eq!(rows.repeat(row(9001, None), "p39"), Some(row(9001, None)));
        let kept = rows.repeat(row(9002, None), "p1").unwrap();
        assert_eq!(kept.state, JobRowState::Done);
        // Those that waited before have the result.
        assert_eq!(rows.add(&done(40, "p40"))[0].line, Some(9000));
    }

    #[test]
    fn many_results_are_found_again_on_the_disk_and_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let no_dir = Path::new("/dev/null/none");
        for directory in [dir.path(), no_dir] {
            let mut rows = PublishedRows::new(directory);
            for line in 1..5000 {
                assert_eq!(rows.add(&done(line, &format!("p{line}"))), []);
                assert!(rows.file.is_none() || rows.newest.len() <= BLOCK);
            }
            assert_eq!(rows.file.is_none(), rows.written == 0);
            for line in (1..5000).rev() {
                let path = format!("p{line}");
                let found = rows.repeat(row(9000, None), &path).unwrap();
                assert_eq!((found.path, found.line), (Some(path), Some(9000)));
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

//! Finds rows in a file that may be torn, damaged or not a manifest at all, with one row in memory at a time.

use std::io::{self, BufRead, BufReader, Read};

use super::csv::CsvRecordParser;
use super::format::{ManifestFormat, ParsedRow};
use super::row::ManifestRow;
use crate::disk::PartialStorage;

/// The longest row that is read, in bytes. A longer one counts as damaged, and its job is fetched again.
const MAX_ROW: usize = 1024 * 1024;

/// How far a row with an open quotation is followed over line ends. A path of the greatest length fits. It also bounds
/// the cost of one flipped quotation mark, because the rows behind it are parsed twice.
const MAX_CONTINUED_ROW: usize = 64 * 1024;

/// Bytes that are read at a time.
const CHUNK: usize = 64 * 1024;

/// Reads a storage from front to back.
struct StorageReader<'a> {
    storage: &'a dyn PartialStorage,
    at: u64,
}

impl Read for StorageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.storage.read_at(self.at, buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The result of [`StorageLines::next`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScannedLine {
    /// A line with its newline.
    Complete,
    /// A line longer than [`MAX_ROW`], of which only the beginning was read.
    TooLong,
    /// Bytes without a newline at the end of the file.
    Torn,
    /// The end of the file.
    End,
}

/// The lines of a file and their offsets.
pub(super) struct StorageLines<'a> {
    reader: BufReader<StorageReader<'a>>,
    /// Where the next line begins.
    pub(super) offset: u64,
    /// How many lines came before it.
    pub(super) lines_read: u64,
}

impl<'a> StorageLines<'a> {
    /// Lines from an offset on, behind `lines_read` other lines. Reads `chunk` bytes at a time.
    fn from(storage: &'a dyn PartialStorage, offset: u64, lines_read: u64, chunk: usize) -> Self {
        let reader = BufReader::with_capacity(
            chunk,
            StorageReader {
                storage,
                at: offset,
            },
        );
        Self {
            reader,
            offset,
            lines_read,
        }
    }

    /// All lines.
    pub(super) fn new(storage: &'a dyn PartialStorage) -> Self {
        Self::from(storage, 0, 0, CHUNK)
    }

    /// How many lines there are.
    pub(super) fn count(mut self) -> io::Result<u64> {
        let mut lines = 0;
        while self.reader.skip_until(b'\n')? > 0 {
            lines += 1;
        }
        Ok(lines)
    }

    /// Whether the file has no newline within the first buffer. Puts the buffer's bytes into `buffer` without taking
    /// them. To be called first.
    pub(super) fn peek_without_newline(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        buffer.extend_from_slice(self.reader.fill_buf()?);
        Ok(!buffer.contains(&b'\n'))
    }

    /// Appends the next line to a buffer.
    pub(super) fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<ScannedLine> {
        let before = buffer.len();
        let mut taken = self
            .reader
            .by_ref()
            .take(MAX_ROW as u64)
            .read_until(b'\n', buffer)? as u64;
        let first = self.offset == 0;
        let ended = buffer.ends_with(b"\n") && taken > 0;
        let mut line = if ended {
            ScannedLine::Complete
        } else {
            ScannedLine::Torn
        };
        if taken == MAX_ROW as u64 && !ended {
            let rest = self.reader.skip_until(b'\n')? as u64;
            taken += rest;
            // Without a newline the rest is a torn line. Where that cannot be told, nothing follows either way.
            line = if rest > 0 && !self.reader.fill_buf()?.is_empty() {
                ScannedLine::TooLong
            } else {
                ScannedLine::Torn
            };
        }
        if taken == 0 {
            return Ok(ScannedLine::End);
        }
        if line == ScannedLine::Torn {
            return Ok(line);
        }
        self.offset += taken;
        self.lines_read += 1;
        // Some editors put a byte order mark in front.
        if first && buffer[before..].starts_with("\u{feff}".as_bytes()) {
            buffer.drain(before..before + 3);
        }
        Ok(line)
    }
}

/// The next item of a manifest.
#[derive(Debug)]
pub(super) enum ScannedRow {
    /// A row, and where it begins.
    Row { at: u64, row: Box<ManifestRow> },
    /// A line that is not a row.
    Damaged {
        /// Where it begins.
        at: u64,
        /// Its number, from 1.
        line: u64,
        /// Whether it looks like a damaged row, which shows that the file is a manifest.
        looks_like_row: bool,
        /// Whether the end of the file may cut it off: a quotation is open.
        may_be_torn: bool,
    },
    /// The end. Bytes behind the last complete line are torn.
    End { whole: u64 },
}

/// Reads the rows of a manifest and what is between them.
pub(super) struct ManifestScan<'a> {
    storage: &'a dyn PartialStorage,
    format: &'a ManifestFormat,
    lines: StorageLines<'a>,
    /// The bytes of the current row, kept to reuse the memory.
    buffer: Vec<u8>,
    parser: CsvRecordParser,
}

impl<'a> ManifestScan<'a> {
    /// The rows behind the lines that were read already.
    pub(super) fn after(
        lines: StorageLines<'a>,
        storage: &'a dyn PartialStorage,
        format: &'a ManifestFormat,
    ) -> Self {
        Self {
            storage,
            format,
            lines,
            buffer: Vec::new(),
            parser: CsvRecordParser::new(),
        }
    }

    /// The rows from this offset on. Reads little at a time, because only one row is wanted.
    pub(super) fn from_offset(
        storage: &'a dyn PartialStorage,
        format: &'a ManifestFormat,
        at: u64,
    ) -> Self {
        Self::after(StorageLines::from(storage, at, 0, 2048), storage, format)
    }

    /// The next row or damaged line.
    pub(super) fn next(&mut self) -> io::Result<ScannedRow> {
        loop {
            let (at, line) = (self.lines.offset, self.lines.lines_read + 1);
            self.buffer.clear();
            let damaged_line = |looks_like_row| ScannedRow::Damaged {
                at,
                line,
                looks_like_row,
                may_be_torn: false,
            };
            match self.lines.next(&mut self.buffer)? {
                ScannedLine::End | ScannedLine::Torn => return Ok(ScannedRow::End { whole: at }),
                ScannedLine::TooLong => return Ok(damaged_line(false)),
                ScannedLine::Complete if self.buffer.trim_ascii().is_empty() => {}
                ScannedLine::Complete => {
                    return match self.format.decode(&self.buffer, &mut self.parser) {
                        ParsedRow::Row(row) => Ok(ScannedRow::Row { at, row }),
                        ParsedRow::Damaged => Ok(damaged_line(true)),
                        ParsedRow::NotARow => Ok(damaged_line(false)),
                        ParsedRow::Incomplete => self.read_continuation(at, line),
                    };
                }
            }
        }
    }

    /// Reads a row that goes on in the next line. If that fails, its first line counts as damaged and the next line may
    /// be a row.
    fn read_continuation(&mut self, at: u64, line: u64) -> io::Result<ScannedRow> {
        let second = self.lines.offset;
        let mut may_be_torn = true;
        while self.buffer.len() < MAX_CONTINUED_ROW {
            if self.lines.next(&mut self.buffer)? != ScannedLine::Complete {
                break;
            }
            match self.format.decode(&self.buffer, &mut self.parser) {
                ParsedRow::Incomplete => {}
                ParsedRow::Row(row) => return Ok(ScannedRow::Row { at, row }),
                ParsedRow::Damaged | ParsedRow::NotARow => {
                    may_be_torn = false;
                    break;
                }
            }
        }
        may_be_torn &= self.buffer.len() < MAX_CONTINUED_ROW;
        self.lines = StorageLines::from(self.storage, second, line, CHUNK);
        Ok(ScannedRow::Damaged {
            at,
            line,
            looks_like_row: true,
            may_be_torn,
        })
    }
}

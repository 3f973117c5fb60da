//! Finds rows in a file that may be torn, damaged or not a manifest at all, with one row in memory at a time.

use std::io::{self, BufRead, BufReader, Read};

use super::csv::CsvRecordParser;
use super::format::{ManifestFormat, ParsedRow};
use super::row::ManifestRow;
use crate::disk::PartialStorage;

/// The longest row that is read, in bytes. A longer one counts as damaged, and its job is fetched again.
const MAX_ROW: usize = 1024 * 1024;

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

/// The result of [`ManifestLines::next`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScannedLine {
    /// A line with its newline.
    Complete,
    /// A line longer than [`MAX_ROW`], of which only the beginning was read.
    TooLong,
    /// Bytes without a newline at the end of the file.
    Torn,
    End,
}

/// The lines of a file and their offsets.
pub(super) struct ManifestLines<'a> {
    reader: BufReader<StorageReader<'a>>,
    /// Where the next line begins.
    pub(super) offset: u64,
    /// How many lines are before it.
    pub(super) lines_read: u64,
}

impl<'a> ManifestLines<'a> {
    /// Lines from an offset on. Reads `chunk` bytes at a time.
    fn from(storage: &'a dyn PartialStorage, offset: u64, chunk: usize) -> Self {
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
            lines_read: 0,
        }
    }

    pub(super) fn new(storage: &'a dyn PartialStorage) -> Self {
        Self::from(storage, 0, CHUNK)
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
    Row { offset: u64, row: Box<ManifestRow> },
    /// A line that is not a row.
    Damaged {
        /// Its number, from 1.
        line: u64,
        /// Whether it looks like a damaged row, which shows that the file is a manifest.
        looks_like_row: bool,
    },
    /// The end. Bytes behind the last complete line are torn.
    End { valid_bytes: u64 },
}

/// Reads the rows of a manifest and what is between them.
pub(super) struct ManifestScan<'a> {
    format: &'a ManifestFormat,
    lines: ManifestLines<'a>,
    /// The bytes of the current row, kept to reuse the memory.
    buffer: Vec<u8>,
    parser: CsvRecordParser,
}

impl<'a> ManifestScan<'a> {
    /// The rows behind the lines that were read already.
    pub(super) fn after(lines: ManifestLines<'a>, format: &'a ManifestFormat) -> Self {
        Self {
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
        Self::after(ManifestLines::from(storage, at, 2048), format)
    }

    /// The next row or damaged line.
    pub(super) fn next(&mut self) -> io::Result<ScannedRow> {
        loop {
            let (offset, line) = (self.lines.offset, self.lines.lines_read + 1);
            self.buffer.clear();
            let damaged_line = |looks_like_row| ScannedRow::Damaged {
                line,
                looks_like_row,
            };
            match self.lines.next(&mut self.buffer)? {
                ScannedLine::End | ScannedLine::Torn => {
                    return Ok(ScannedRow::End {
                        valid_bytes: offset,
                    });
                }
                ScannedLine::TooLong => return Ok(damaged_line(false)),
                ScannedLine::Complete if self.buffer.trim_ascii().is_empty() => {}
                ScannedLine::Complete => {
                    return match self.format.decode(&self.buffer, &mut self.parser) {
                        ParsedRow::Row(row) => Ok(ScannedRow::Row { offset, row }),
                        ParsedRow::Damaged => Ok(damaged_line(true)),
                        ParsedRow::NotARow => Ok(damaged_line(false)),
                    };
                }
            }
        }
    }
}

//! Finds rows in a file that may be torn, damaged or none of ours, without holding more of it than a row.

use std::io::{self, BufRead, BufReader, Read};

use super::csv_record::CsvRecordParser;
use super::format::{ManifestFormat, ParsedRow};
use super::row::ManifestRow;
use crate::disk::PartialStorage;

/// The longest row that is read, in bytes. One that is longer counts as damaged: its job is fetched again.
const LONGEST: usize = 1024 * 1024;

/// How far a row is followed over line ends within a quotation: a path of the greatest length has room. It is also what one flipped
/// quotation mark costs, since the rows behind it are looked at twice.
const FOLLOWED: usize = 64 * 1024;

/// Bytes read at a time.
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

/// What [`StorageLines::next`] met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScannedLine {
    /// A line with its end.
    Complete,
    /// One longer than [`LONGEST`], of which only the front was taken.
    TooLong,
    /// Bytes without a line's end, and then nothing.
    Torn,
    /// Nothing.
    End,
}

/// The lines of a file, with their places.
pub(super) struct StorageLines<'a> {
    reader: BufReader<StorageReader<'a>>,
    /// Where the next line begins.
    pub(super) offset: u64,
    /// How many lines came before it.
    pub(super) lines_read: u64,
}

impl<'a> StorageLines<'a> {
    /// Lines from an offset on, before which so many lie; reads so many bytes at a time.
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

    /// Whether there is no line with an end at all; then what there is goes to the buffer, up to the length of a line. Takes nothing
    /// otherwise, and is asked first.
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
            .take(LONGEST as u64)
            .read_until(b'\n', buffer)? as u64;
        let first = self.offset == 0;
        let ended = buffer.ends_with(b"\n") && taken > 0;
        let mut line = if ended {
            ScannedLine::Complete
        } else {
            ScannedLine::Torn
        };
        if taken == LONGEST as u64 && !ended {
            let rest = self.reader.skip_until(b'\n')? as u64;
            taken += rest;
            // Without its end the rest is as torn as a short line; where it cannot be told, nothing follows either way.
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
        // What some editors put in front of a text.
        if first && buffer[before..].starts_with("\u{feff}".as_bytes()) {
            buffer.drain(before..before + 3);
        }
        Ok(line)
    }
}

/// What was found next in a manifest.
#[derive(Debug)]
pub(super) enum ScannedRow {
    /// A row, and where it begins.
    Row { at: u64, row: Box<ManifestRow> },
    /// A line that is no row.
    Damaged {
        /// Where it begins.
        at: u64,
        /// Its number, counted from 1.
        line: u64,
        /// Whether it was a row once.
        ours: bool,
        /// Whether it begins a row that the end of the file cuts off.
        open: bool,
    },
    /// Nothing more; whole lines end here, and what follows is torn.
    End { whole: u64 },
}

/// The rows of a manifest, and what lies between them.
pub(super) struct ManifestScan<'a> {
    storage: &'a dyn PartialStorage,
    format: &'a ManifestFormat,
    lines: StorageLines<'a>,
    /// The row that is being read: kept for its memory.
    buffer: Vec<u8>,
    splitter: CsvRecordParser,
}

impl<'a> ManifestScan<'a> {
    /// Everything behind the lines that were read already.
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
            splitter: CsvRecordParser::new(),
        }
    }

    /// From the row on that begins at this offset. Reads little at a time: only that row is wanted.
    pub(super) fn from_offset(
        storage: &'a dyn PartialStorage,
        format: &'a ManifestFormat,
        at: u64,
    ) -> Self {
        Self::after(StorageLines::from(storage, at, 0, 2048), storage, format)
    }

    /// The next row, or what is in its place.
    pub(super) fn next(&mut self) -> io::Result<ScannedRow> {
        loop {
            let (at, line) = (self.lines.offset, self.lines.lines_read + 1);
            self.buffer.clear();
            let damaged = |ours| ScannedRow::Damaged {
                at,
                line,
                ours,
                open: false,
            };
            match self.lines.next(&mut self.buffer)? {
                ScannedLine::End | ScannedLine::Torn => return Ok(ScannedRow::End { whole: at }),
                ScannedLine::TooLong => return Ok(damaged(false)),
                ScannedLine::Complete if self.buffer.trim_ascii().is_empty() => {}
                ScannedLine::Complete => {
                    return match self.format.decode(&self.buffer, &mut self.splitter) {
                        ParsedRow::Row(row) => Ok(ScannedRow::Row { at, row }),
                        ParsedRow::Damaged => Ok(damaged(true)),
                        ParsedRow::NotARow => Ok(damaged(false)),
                        ParsedRow::Incomplete => self.read_continuation(at, line),
                    };
                }
            }
        }
    }

    /// A row that goes on in the next line. Where nothing comes of it, its first line is damaged, and the next may be a row.
    fn read_continuation(&mut self, at: u64, line: u64) -> io::Result<ScannedRow> {
        let second = self.lines.offset;
        let mut open = true;
        while self.buffer.len() < FOLLOWED {
            if self.lines.next(&mut self.buffer)? != ScannedLine::Complete {
                break;
            }
            match self.format.decode(&self.buffer, &mut self.splitter) {
                ParsedRow::Incomplete => {}
                ParsedRow::Row(row) => return Ok(ScannedRow::Row { at, row }),
                ParsedRow::Damaged | ParsedRow::NotARow => {
                    open = false;
                    break;
                }
            }
        }
        open &= self.buffer.len() < FOLLOWED;
        self.lines = StorageLines::from(self.storage, second, line, CHUNK);
        Ok(ScannedRow::Damaged {
            at,
            line,
            ours: true,
            open,
        })
    }
}

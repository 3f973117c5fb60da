//! CSV and TSV lists: quotes as in RFC 4180, and a first line that names the columns.
//!
//! A quoted value may contain newlines (captions of images do), so a record may have several lines. It is split into
//! values line by line. Where it becomes too long, because a quotation mark is not closed, the next line begins a new
//! record: a stray quotation mark costs at most a megabyte of a list, not the rest of it.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::bad_line::{BadLineProblem, LineError};
use super::entry::{ListEntry, ListField};
use super::lines::{LineReader, MAX_LINE, ReadLine, too_long};
use super::source::is_content;

pub(super) struct CsvList {
    lines: LineReader,
    /// Splits records into values, a line at a time.
    core: Reader,
    /// The field of each column; empty until the header was read.
    columns: Vec<Option<ListField>>,
    record: CsvRecord,
}

struct CsvRecord {
    /// The values, one after another. Grows up to the longest record.
    text: Vec<u8>,
    /// Filled bytes of `text`.
    len: usize,
    /// The end of each value.
    ends: Vec<usize>,
    /// Number of values.
    count: usize,
}

impl CsvList {
    pub(super) fn new(lines: LineReader, delimiter: u8) -> Self {
        let mut core = ReaderBuilder::new();
        // As in the other formats, a carriage return alone does not end a line.
        core.delimiter(delimiter).terminator(Terminator::Any(b'\n'));
        Self {
            lines,
            core: core.build(),
            columns: Vec::new(),
            record: CsvRecord {
                text: vec![0; 4096],
                len: 0,
                ends: vec![0; 64],
                count: 0,
            },
        }
    }

    /// Whether the next line does not come within a moment.
    pub(super) fn is_idle(&mut self) -> bool {
        self.lines.is_idle()
    }

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, LineError>> {
        if self.columns.is_empty() {
            match self.header()? {
                Ok(columns) => self.columns = columns,
                Err(bad) => return Some(Err(bad)),
            }
        }
        let line = self.record()?;
        Some(line.and_then(|line| self.entry(line)))
    }

    /// Reads the columns from the first line that is neither blank nor a comment. `None` for an empty list.
    fn header(&mut self) -> Option<Result<Vec<Option<ListField>>, LineError>> {
        let line = match self.record()? {
            Ok(line) => line,
            Err(bad) if bad.problem.ends_list() => return Some(Err(bad)),
            // Without a header nothing can be read.
            Err(bad) => {
                return Some(Err(LineError::new(
                    bad.line,
                    "",
                    BadLineProblem::NoUrlColumn,
                )));
            }
        };
        let mut columns: Vec<Option<ListField>> = Vec::with_capacity(self.record.count);
        for at in 0..self.record.count {
            let name = str::from_utf8(self.record.value(at))
                .ok()
                .and_then(ListField::parse);
            // The first of two columns with the same name counts.
            let is_first = !columns.contains(&name);
            columns.push(name.filter(|_| is_first));
        }
        if columns.contains(&Some(ListField::Url)) {
            Some(Ok(columns))
        } else {
            let first = String::from_utf8_lossy(self.record.value(0));
            Some(Err(LineError::new(
                line,
                &first,
                BadLineProblem::NoUrlColumn,
            )))
        }
    }

    /// The current record as an entry.
    fn entry(&self, line: u64) -> Result<ListEntry, LineError> {
        let (found, named) = (self.record.count, self.columns.len());
        if found > named {
            let shown = self.text(0, line).unwrap_or_default();
            return Err(LineError::new(
                line,
                shown,
                BadLineProblem::TooManyColumns { found, named },
            ));
        }
        let mut values = Vec::with_capacity(named);
        for (at, name) in self.columns[..found].iter().enumerate() {
            if let Some(name) = name {
                values.push((name.clone(), self.text(at, line)?));
            }
        }
        let urls = values.iter().filter(|(name, _)| *name == ListField::Url);
        ListEntry::from_record(line, urls.map(|(_, url)| *url), values.iter().cloned())
    }

    fn text(&self, at: usize, line: u64) -> Result<&str, LineError> {
        let value = self.record.value(at);
        str::from_utf8(value).map_err(|_| {
            let readable = String::from_utf8_lossy(value);
            LineError::new(line, &readable, BadLineProblem::NotUtf8)
        })
    }

    /// Reads the next record and returns the number of its first line. Skips blank lines, and comments before the
    /// header.
    fn record(&mut self) -> Option<Result<u64, LineError>> {
        (self.record.len, self.record.count) = (0, 0);
        let (mut first, mut bytes) = (None, 0);
        loop {
            let got = self.lines.read_line();
            let line = self.lines.line_number();
            let begin = *first.get_or_insert(line);
            let bad = |problem| Some(Err(LineError::new(begin, "", problem)));
            match got {
                Err(error) => return Some(Err(LineError::read(line, error))),
                Ok(ReadLine::End) if bytes == 0 => return None,
                Ok(ReadLine::End) => return bad(BadLineProblem::UnclosedQuote),
                Ok(ReadLine::TooLong) => {
                    self.core.reset();
                    return Some(Err(too_long(begin)));
                }
                Ok(ReadLine::Line) if bytes == 0 && self.is_blank_or_comment() => {
                    first = None;
                    continue;
                }
                Ok(ReadLine::Line) => bytes += self.lines.line_with_newline().len(),
            }
            if bytes > MAX_LINE + 1 {
                self.core.reset();
                return Some(Err(too_long(begin)));
            }
            if self
                .record
                .add_line(&mut self.core, self.lines.line_with_newline())
            {
                return Some(Ok(begin));
            }
        }
    }

    /// Whether the current line is blank, or a comment before the header.
    fn is_blank_or_comment(&self) -> bool {
        let text = self.lines.line();
        text.trim_ascii().is_empty() || self.columns.is_empty() && !is_content(text)
    }
}

impl CsvRecord {
    /// Adds a line, and returns whether the record ends with it.
    fn add_line(&mut self, core: &mut Reader, mut line: &[u8]) -> bool {
        while !line.is_empty() {
            let (text, ends) = (&mut self.text[self.len..], &mut self.ends[self.count..]);
            let (result, read, written, ended) = core.read_record(line, text, ends);
            line = &line[read..];
            self.len += written;
            self.count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => return true,
            }
        }
        false
    }

    /// The value of a column; empty if the record has fewer columns.
    fn value(&self, at: usize) -> &[u8] {
        if at >= self.count {
            return &[];
        }
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(begin..self.ends[at]).unwrap_or_default()
    }
}

//! Tables: commas or tabs, quotes as in RFC 4180, and a first line that names the columns.
//!
//! A quoted value may have line feeds (captions of images do), so a record may have several lines. It is cut into values line by
//! line; where it becomes too long, which is what a quote does that nobody closed, the next line begins a new record. So one
//! stray quote costs a megabyte of a list at most, and not the rest of it.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::bad_line::{BadLineProblem, UnplacedBadLine};
use super::entry::ListEntry;
use super::lines::{LineReader, MAX_LINE, ReadLine};
use super::peek::is_content;
use super::record::{self, ListField};

/// A table.
pub(super) struct CsvList {
    lines: LineReader,
    /// Cuts records into values, a line at a time.
    core: Reader,
    /// What each column says; empty until the header was read.
    columns: Vec<Option<ListField>>,
    /// The current record.
    record: CsvRecord,
}

/// A record's values.
struct CsvRecord {
    /// All of them, one behind the other. It grows as it must, up to the longest record.
    text: Vec<u8>,
    /// How many bytes of it are filled.
    len: usize,
    /// Where each value ends.
    ends: Vec<usize>,
    /// How many values there are.
    count: usize,
}

impl CsvList {
    pub(super) fn new(lines: LineReader, delimiter: u8) -> Self {
        let mut core = ReaderBuilder::new();
        // A carriage return alone ends no line here, as it ends none in the other formats.
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

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, UnplacedBadLine>> {
        if self.columns.is_empty() {
            match self.header()? {
                Ok(columns) => self.columns = columns,
                Err(bad) => return Some(Err(bad)),
            }
        }
        let line = self.record()?;
        Some(line.and_then(|line| self.entry(line)))
    }

    /// The columns, by the first line that is neither blank nor a comment. `None` for an empty list.
    fn header(&mut self) -> Option<Result<Vec<Option<ListField>>, UnplacedBadLine>> {
        let line = match self.record()? {
            Ok(line) => line,
            Err(bad) if bad.problem.ends_list() => return Some(Err(bad)),
            // Without a header nothing else can be read.
            Err(bad) => {
                return Some(Err(UnplacedBadLine::new(
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
            // Of two columns of one name the first counts.
            columns.push(name.filter(|_| !columns.contains(&name)));
        }
        if columns.contains(&Some(ListField::Url)) {
            Some(Ok(columns))
        } else {
            let first = String::from_utf8_lossy(self.record.value(0));
            Some(Err(UnplacedBadLine::new(
                line,
                &first,
                BadLineProblem::NoUrlColumn,
            )))
        }
    }

    /// The current record as an entry.
    fn entry(&self, line: u64) -> Result<ListEntry, UnplacedBadLine> {
        let (found, named) = (self.record.count, self.columns.len());
        if found > named {
            let shown = self.text(0, line).unwrap_or_default();
            return Err(UnplacedBadLine::new(
                line,
                shown,
                BadLineProblem::TooManyColumns { found, named },
            ));
        }
        let mut values = Vec::with_capacity(named);
        for (at, name) in self.columns[..found].iter().enumerate() {
            if let Some(name) = name {
                values.push((*name, self.text(at, line)?));
            }
        }
        let urls = values.iter().filter(|(name, _)| *name == ListField::Url);
        record::entry_of_record(line, urls.map(|(_, url)| *url), values.iter().copied())
    }

    fn text(&self, at: usize, line: u64) -> Result<&str, UnplacedBadLine> {
        let value = self.record.value(at);
        str::from_utf8(value).map_err(|_| {
            let readable = String::from_utf8_lossy(value);
            UnplacedBadLine::new(line, &readable, BadLineProblem::NotUtf8)
        })
    }

    /// Reads the next record and says in which line it begins. Blank lines are passed over; so are comments before the header.
    fn record(&mut self) -> Option<Result<u64, UnplacedBadLine>> {
        (self.record.len, self.record.count) = (0, 0);
        let (mut first, mut bytes) = (None, 0);
        loop {
            let got = self.lines.read_line();
            let line = self.lines.line_number();
            let begin = *first.get_or_insert(line);
            let bad = |problem| Some(Err(UnplacedBadLine::new(begin, "", problem)));
            match got {
                Err(error) => return Some(Err(UnplacedBadLine::read(line, error))),
                Ok(ReadLine::End) if bytes == 0 => return None,
                Ok(ReadLine::End) => return bad(BadLineProblem::UnclosedQuote),
                Ok(ReadLine::TooLong) => {
                    self.core.reset();
                    return bad(BadLineProblem::LineTooLong);
                }
                Ok(ReadLine::Line) if bytes == 0 && self.says_nothing() => {
                    first = None;
                    continue;
                }
                Ok(ReadLine::Line) => bytes += self.lines.line_with_newline().len(),
            }
            if bytes > MAX_LINE + 1 {
                self.core.reset();
                return bad(BadLineProblem::LineTooLong);
            }
            if self
                .record
                .take(&mut self.core, self.lines.line_with_newline())
            {
                return Some(Ok(begin));
            }
        }
    }

    /// Whether the current line is none of the table.
    fn says_nothing(&self) -> bool {
        let text = self.lines.line();
        text.trim_ascii().is_empty() || self.columns.is_empty() && !is_content(text)
    }
}

impl CsvRecord {
    /// Takes a line, and says whether the record ends with it.
    fn take(&mut self, core: &mut Reader, mut line: &[u8]) -> bool {
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

    /// A value by its column; one that is not there is empty.
    fn value(&self, at: usize) -> &[u8] {
        if at >= self.count {
            return &[];
        }
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(begin..self.ends[at]).unwrap_or_default()
    }
}

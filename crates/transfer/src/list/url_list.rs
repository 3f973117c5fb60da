//! Lists with one URL a line: plain, or in aria2's input format with mirrors and indented options.
//!
//! aria2's format: tabs separate the URLs of one file. Lines behind it that begin with a blank and have the form
//! `name=value` are its options. Blank lines and comments may be anywhere. An indented line of another form is a URL,
//! which aria2 would not accept.

use std::collections::BTreeSet;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;
use super::lines::{LineReader, MAX_LINE, PeekedByte, ReadLine};
use super::peek::is_content;
use super::{aria2_option, entry_urls};

/// A plain list or one in aria2's format.
pub(super) struct UrlList {
    lines: LineReader,
    /// Whether tabs and indented lines have their meaning of aria2.
    has_options: bool,
    /// See [`DownloadList::ignored_options`](super::DownloadList::ignored_options).
    ignored_options: BTreeSet<&'static str>,
}

impl UrlList {
    pub(super) fn plain(lines: LineReader) -> Self {
        Self {
            lines,
            has_options: false,
            ignored_options: BTreeSet::new(),
        }
    }

    pub(super) fn aria2(lines: LineReader) -> Self {
        let plain = Self::plain(lines);
        Self {
            has_options: true,
            ..plain
        }
    }

    pub(super) fn ignored_options(&self) -> &BTreeSet<&'static str> {
        &self.ignored_options
    }

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, LineError>> {
        loop {
            let got = self.lines.read_line();
            let line = self.lines.line_number();
            let entry = match got {
                Err(error) => return Some(Err(LineError::read(line, error))),
                Ok(ReadLine::End) => return None,
                Ok(ReadLine::TooLong) => Err(LineError::new(line, "", BadLineProblem::LineTooLong)),
                Ok(ReadLine::Line) if !is_content(self.lines.line()) => continue,
                Ok(ReadLine::Line) if self.has_options => self.first_line(),
                Ok(ReadLine::Line) => text(&self.lines).and_then(|text| entry_of_url(line, text)),
            };
            return Some(if self.has_options {
                self.with_options(line, entry)
            } else {
                entry
            });
        }
    }

    /// Parses the first line of an entry.
    fn first_line(&self) -> Result<ListEntry, LineError> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        match option_of(&self.lines, text) {
            Some(option) => Err(aria2_option::option_error(
                line,
                option,
                BadLineProblem::OptionWithoutUrl,
            )),
            None if text.contains('\t') => entry_urls::entry_of_urls(line, text.split('\t')),
            None => entry_of_url(line, text),
        }
    }

    /// Reads the options behind an entry that begins in line `first`. The first bad option is the entry's error; later
    /// options are skipped.
    fn with_options(
        &mut self,
        first: u64,
        entry: Result<ListEntry, LineError>,
    ) -> Result<ListEntry, LineError> {
        let (mut entry, mut bytes) = (entry, 0);
        loop {
            match self.after_url() {
                AfterUrl::Nothing => return entry,
                // Its name or its checksum may be missing.
                AfterUrl::Failure => {
                    return entry.and_then(|entry| {
                        Err(LineError::new(
                            first,
                            entry.url.as_str(),
                            BadLineProblem::Truncated,
                        ))
                    });
                }
                AfterUrl::Blank => {}
                AfterUrl::Bad(bad) => entry = entry.and(Err(bad)),
                AfterUrl::Option => {
                    bytes += self.lines.line().len();
                    entry = entry.and_then(|entry| self.with_option(entry, bytes));
                }
            }
        }
    }

    /// Reads the next line if it may belong to the entry before it.
    fn after_url(&mut self) -> AfterUrl {
        match self.lines.peek_byte() {
            PeekedByte::Byte(b' ' | b'\t' | b'#' | b'\r' | b'\n') => {}
            PeekedByte::Byte(_) | PeekedByte::End => return AfterUrl::Nothing,
            PeekedByte::Failed => return AfterUrl::Failure,
        }
        match self.lines.read_line() {
            Err(error) => {
                self.lines.unread_error(error);
                AfterUrl::Failure
            }
            Ok(ReadLine::End) => AfterUrl::Nothing,
            Ok(ReadLine::TooLong) => AfterUrl::Bad(LineError::new(
                self.lines.line_number(),
                "",
                BadLineProblem::LineTooLong,
            )),
            Ok(ReadLine::Line) if !is_content(self.lines.line()) => AfterUrl::Blank,
            Ok(ReadLine::Line) => match text(&self.lines) {
                Err(bad) => AfterUrl::Bad(bad),
                Ok(text) if option_of(&self.lines, text).is_some() => AfterUrl::Option,
                Ok(_) => {
                    self.lines.unread();
                    AfterUrl::Nothing
                }
            },
        }
    }

    /// Applies the current line, an option, to an entry whose options have this many bytes.
    fn with_option(&mut self, mut entry: ListEntry, bytes: usize) -> Result<ListEntry, LineError> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        if bytes > MAX_LINE {
            return Err(LineError::new(line, "", BadLineProblem::LineTooLong));
        }
        if let Some(option) = option_of(&self.lines, text) {
            let applied = aria2_option::apply(option, &mut entry, &mut self.ignored_options);
            applied.map_err(|problem| aria2_option::option_error(line, option, problem))?;
        }
        Ok(entry)
    }
}

/// What follows an entry.
enum AfterUrl {
    /// Another entry, or the end.
    Nothing,
    /// A read error, which the next read returns.
    Failure,
    /// A blank line or a comment.
    Blank,
    /// An option, which is now the current line.
    Option,
    /// An unreadable line, which may have been an option.
    Bad(LineError),
}

/// The current line without blanks around it.
fn text(lines: &LineReader) -> Result<&str, LineError> {
    let text = lines.line().trim_ascii();
    str::from_utf8(text).map_err(|_| {
        let readable = String::from_utf8_lossy(text);
        LineError::new(lines.line_number(), &readable, BadLineProblem::NotUtf8)
    })
}

/// The current line as an option, if it is one.
fn option_of<'a>(lines: &LineReader, text: &'a str) -> Option<(&'a str, &'a str)> {
    let is_indented = matches!(lines.line().first(), Some(b' ' | b'\t'));
    is_indented.then(|| aria2_option::parse(text)).flatten()
}

/// An entry with one URL.
fn entry_of_url(line: u64, text: &str) -> Result<ListEntry, LineError> {
    let url = entry_urls::parse_url(text).map_err(|problem| LineError::new(line, text, problem))?;
    Ok(ListEntry::new(line, url))
}

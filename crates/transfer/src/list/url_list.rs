//! Lists of a URL a line: plain, or as aria2 has them, with mirrors and indented options.
//!
//! aria2's input files, in our own words: tabs part the URLs of one file; lines behind it that begin with a blank and have the
//! form `name=value` are its options; blank lines and comments may stand anywhere. An indented line of another form is a URL,
//! which aria2 would not take.

use std::collections::BTreeSet;

use super::bad_line::{BadLineProblem, UnplacedBadLine};
use super::entry::ListEntry;
use super::lines::{LineReader, MAX_LINE, PeekedByte, ReadLine};
use super::peek::is_content;
use super::{aria2_option, entry_urls};

/// A list of URLs.
pub(super) struct UrlList {
    lines: LineReader,
    /// Whether tabs and indented lines mean what they mean to aria2.
    aria2: bool,
    /// See [`DownloadList::ignored`](super::DownloadList::ignored).
    ignored: BTreeSet<&'static str>,
}

impl UrlList {
    pub(super) fn plain(lines: LineReader) -> Self {
        Self {
            lines,
            aria2: false,
            ignored: BTreeSet::new(),
        }
    }

    pub(super) fn aria2(lines: LineReader) -> Self {
        let plain = Self::plain(lines);
        Self {
            aria2: true,
            ..plain
        }
    }

    pub(super) fn ignored(&self) -> &BTreeSet<&'static str> {
        &self.ignored
    }

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, UnplacedBadLine>> {
        loop {
            let got = self.lines.read_line();
            let line = self.lines.line_number();
            let entry = match got {
                Err(error) => return Some(Err(UnplacedBadLine::read(line, error))),
                Ok(ReadLine::End) => return None,
                Ok(ReadLine::TooLong) => {
                    Err(UnplacedBadLine::new(line, "", BadLineProblem::LineTooLong))
                }
                Ok(ReadLine::Line) if !is_content(self.lines.line()) => continue,
                Ok(ReadLine::Line) if self.aria2 => self.first_line(),
                Ok(ReadLine::Line) => text(&self.lines).and_then(|text| single(line, text)),
            };
            return Some(if self.aria2 {
                self.with_options(line, entry)
            } else {
                entry
            });
        }
    }

    /// The line that an entry begins with.
    fn first_line(&self) -> Result<ListEntry, UnplacedBadLine> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        match option_of(&self.lines, text) {
            Some(option) => Err(aria2_option::bad(
                line,
                option,
                BadLineProblem::OptionWithoutUrl,
            )),
            None if text.contains('\t') => entry_urls::entry_of_urls(line, text.split('\t')),
            None => single(line, text),
        }
    }

    /// Reads the options behind an entry that begins in line `first`. A bad one is told once, and what follows of it passed over.
    fn with_options(
        &mut self,
        first: u64,
        begun: Result<ListEntry, UnplacedBadLine>,
    ) -> Result<ListEntry, UnplacedBadLine> {
        let (mut entry, mut bytes) = (begun, 0);
        loop {
            match self.after_url() {
                AfterUrl::Nothing => return entry,
                // Its name or its checksum may have been to come.
                AfterUrl::Failure => {
                    return entry.and_then(|entry| {
                        Err(UnplacedBadLine::new(
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

    /// Goes to the next line if that may belong to the entry before it.
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
            Ok(ReadLine::TooLong) => AfterUrl::Bad(UnplacedBadLine::new(
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

    /// Applies the current line, an option, to an entry whose options have so many bytes by now.
    fn with_option(
        &mut self,
        mut entry: ListEntry,
        bytes: usize,
    ) -> Result<ListEntry, UnplacedBadLine> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        if bytes > MAX_LINE {
            return Err(UnplacedBadLine::new(line, "", BadLineProblem::LineTooLong));
        }
        if let Some(option) = option_of(&self.lines, text) {
            let applied = aria2_option::apply(option, &mut entry, &mut self.ignored);
            applied.map_err(|problem| aria2_option::bad(line, option, problem))?;
        }
        Ok(entry)
    }
}

/// What stands behind an entry.
enum AfterUrl {
    /// Another entry, or the end.
    Nothing,
    /// An error of the source, which the next line is told instead of.
    Failure,
    /// A line that says nothing.
    Blank,
    /// An option, the current line now.
    Option,
    /// A line that may have been an option and cannot be read.
    Bad(UnplacedBadLine),
}

/// The current line's text, blanks around it left out.
fn text(lines: &LineReader) -> Result<&str, UnplacedBadLine> {
    let text = lines.line().trim_ascii();
    str::from_utf8(text).map_err(|_| {
        let readable = String::from_utf8_lossy(text);
        UnplacedBadLine::new(lines.line_number(), &readable, BadLineProblem::NotUtf8)
    })
}

/// The current line as an option, if it is one.
fn option_of<'a>(lines: &LineReader, text: &'a str) -> Option<(&'a str, &'a str)> {
    let is_indented = matches!(lines.line().first(), Some(b' ' | b'\t'));
    is_indented.then(|| aria2_option::parse(text)).flatten()
}

/// An entry of one URL.
fn single(line: u64, text: &str) -> Result<ListEntry, UnplacedBadLine> {
    let url =
        entry_urls::parse_url(text).map_err(|problem| UnplacedBadLine::new(line, text, problem))?;
    Ok(ListEntry::new(line, url))
}

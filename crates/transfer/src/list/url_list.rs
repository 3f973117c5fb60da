//! Lists with one URL a line: plain, or in aria2's input format with mirrors and indented options.
//!
//! aria2's format: tabs separate the URLs of one file. Lines behind it that begin with a blank and have the form
//! `name=value` are its options. Blank lines and comments may be anywhere. An indented line of another form is a URL,
//! which aria2 would not accept.

use std::collections::BTreeSet;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;
use super::fields::{self, ListUrlParser};
use super::lines::{LineReader, MAX_LINE, PeekedByte, ReadLine, too_long};
use super::source::is_content;

/// Options that haul ignores although they would change what is requested, or from which host. The user gets a warning
/// about each of them once, at the end of a list. All other ignored options (number of connections, timeouts, retries)
/// are set on haul's command line, or have no meaning for it.
const IGNORED_OPTIONS: [&str; 10] = [
    "all-proxy",
    "http-passwd",
    "http-proxy",
    "http-user",
    "https-proxy",
    "load-cookies",
    "metalink-file",
    "parameterized-uri",
    "select-file",
    "torrent-file",
];

/// A plain list or one in aria2's format.
pub(super) struct UrlList {
    lines: LineReader,
    urls: ListUrlParser,
    /// Whether tabs and indented lines have their meaning of aria2.
    has_options: bool,
    /// Whether an entry is complete when the first byte behind it has come, whenever that is: options may follow.
    waits_for_options: bool,
    /// Whether the last entry was given although more might have followed.
    is_given_early: bool,
    /// See [`DownloadList::ignored_options`](super::DownloadList::ignored_options).
    ignored_options: BTreeSet<&'static str>,
}

impl UrlList {
    pub(super) fn plain(lines: LineReader) -> Self {
        Self {
            lines,
            urls: ListUrlParser::default(),
            has_options: false,
            waits_for_options: false,
            is_given_early: false,
            ignored_options: BTreeSet::new(),
        }
    }

    /// A list in aria2's format, or, unless that is given, one that may be plain: then a line waits for options as soon as any had some.
    pub(super) fn aria2(lines: LineReader, is_given: bool) -> Self {
        let plain = Self::plain(lines);
        Self {
            has_options: true,
            waits_for_options: is_given,
            ..plain
        }
    }

    /// Whether the next line does not come within a moment.
    pub(super) fn is_idle(&mut self) -> bool {
        self.lines.is_idle()
    }

    pub(super) fn ignored_options(&self) -> &BTreeSet<&'static str> {
        &self.ignored_options
    }

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, LineError>> {
        let line = match self.lines.next_content()? {
            Err(error) if error.problem.ends_list() => return Some(Err(error)),
            line => line,
        };
        if !self.has_options {
            return Some(line.and_then(|_| self.parse_url_line()));
        }
        let first = self.lines.line_number();
        let entry = line.and_then(|_| self.first_line());
        Some(self.with_options(first, entry))
    }

    fn parse_url_line(&mut self) -> Result<ListEntry, LineError> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        let url = self
            .urls
            .parse(text)
            .map_err(|problem| LineError::new(line, text, problem))?;
        Ok(ListEntry::new(line, url))
    }

    fn first_line(&mut self) -> Result<ListEntry, LineError> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        match option_of(&self.lines, text) {
            Some(option) => {
                self.waits_for_options = true;
                let problem = if self.is_given_early {
                    BadLineProblem::LateOption
                } else {
                    BadLineProblem::OptionWithoutUrl
                };
                Err(option_error(line, option, problem))
            }
            None if text.contains('\t') => ListEntry::from_urls(line, text.split('\t')),
            None => self.parse_url_line(),
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
        self.is_given_early = false;
        loop {
            match self.after_url() {
                UrlDelimiter::Nothing => return entry,
                UrlDelimiter::NotYet => {
                    self.is_given_early = entry.is_ok();
                    return entry;
                }
                // Its name or its checksum may be missing.
                UrlDelimiter::Failure => {
                    return entry.and_then(|entry| {
                        Err(LineError::new(
                            first,
                            entry.url.as_str(),
                            BadLineProblem::Truncated,
                        ))
                    });
                }
                UrlDelimiter::Blank => {}
                UrlDelimiter::Bad(bad) => entry = entry.and(Err(bad)),
                UrlDelimiter::Option => {
                    self.waits_for_options = true;
                    bytes += self.lines.line().len();
                    entry = entry.and_then(|entry| self.with_option(entry, bytes));
                }
            }
        }
    }

    /// Reads the next line if it may belong to the entry before it.
    fn after_url(&mut self) -> UrlDelimiter {
        match self.lines.peek_byte(self.waits_for_options) {
            PeekedByte::Later => return UrlDelimiter::NotYet,
            PeekedByte::Byte(b' ' | b'\t' | b'#' | b'\r' | b'\n') => {}
            PeekedByte::Byte(_) | PeekedByte::End => return UrlDelimiter::Nothing,
            PeekedByte::Failed => return UrlDelimiter::Failure,
        }
        match self.lines.read_line() {
            Err(error) => {
                self.lines.unread_error(error);
                UrlDelimiter::Failure
            }
            Ok(ReadLine::End) => UrlDelimiter::Nothing,
            Ok(ReadLine::TooLong) => UrlDelimiter::Bad(too_long(self.lines.line_number())),
            Ok(ReadLine::Line) if !is_content(self.lines.line()) => UrlDelimiter::Blank,
            Ok(ReadLine::Line) => match text(&self.lines) {
                Err(bad) => UrlDelimiter::Bad(bad),
                Ok(text) if option_of(&self.lines, text).is_some() => UrlDelimiter::Option,
                Ok(_) => {
                    self.lines.unread();
                    UrlDelimiter::Nothing
                }
            },
        }
    }

    /// Applies the current line, an option, to an entry whose options have this many bytes.
    fn with_option(&mut self, mut entry: ListEntry, bytes: usize) -> Result<ListEntry, LineError> {
        let (line, text) = (self.lines.line_number(), text(&self.lines)?);
        if bytes > MAX_LINE {
            return Err(too_long(line));
        }
        if let Some(option) = option_of(&self.lines, text) {
            let applied = apply_option(option, &mut entry, &mut self.ignored_options);
            applied.map_err(|problem| option_error(line, option, problem))?;
        }
        Ok(entry)
    }
}

/// What follows an entry.
enum UrlDelimiter {
    /// Another entry, or the end.
    Nothing,
    /// Nothing so far.
    NotYet,
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
    is_indented.then(|| parse_option(text)).flatten()
}

/// Splits text of the form `name=value`. A URL never has this form, whatever follows its first `=`.
fn parse_option(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim_end();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!name.is_empty() && name.bytes().all(is_name)).then(|| (name, value.trim()))
}

/// Applies an option to its entry.
fn apply_option(
    (name, value): (&str, &str),
    entry: &mut ListEntry,
    ignored: &mut BTreeSet<&'static str>,
) -> Result<(), BadLineProblem> {
    match name {
        "out" => entry.path = Some(fields::parse_path(value)?),
        "dir" => entry.directory = Some(fields::parse_directory(value)?),
        "checksum" => entry.checksums.push(fields::parse_checksum(value)?),
        "header" => fields::add_header_line(&mut entry.headers, value)?,
        "referer" => fields::add_header(&mut entry.headers, name, value)?,
        "user-agent" => fields::add_header(&mut entry.headers, name, value)?,
        _ => ignored.extend(
            IGNORED_OPTIONS
                .iter()
                .find(|ignored_option| **ignored_option == name),
        ),
    }
    Ok(())
}

/// An error in an option. Values that may be secret are not shown.
fn option_error(line: u64, (name, value): (&str, &str), problem: BadLineProblem) -> LineError {
    match name {
        "out" | "dir" | "checksum" => LineError::new(line, &format!("{name}={value}"), problem),
        _ => LineError::new(line, &format!("{name}="), problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_url_is_taken_for_an_option() {
        assert_eq!(parse_option("out=a=b "), Some(("out", "a=b")));
        assert_eq!(parse_option("max-tries = 5"), Some(("max-tries", "5")));
        assert_eq!(parse_option("out="), Some(("out", "")));
        for url in ["http://h/?a=b", "h.test/a=b", "=b", "out", "a b=c", "OUT=x"] {
            assert_eq!(parse_option(url), None, "{url}");
        }
    }

    #[test]
    fn ignored_options_are_remembered_if_they_matter() {
        let mut entry = ListEntry::new(1, "http://h/".parse().unwrap());
        let mut ignored = BTreeSet::new();
        for option in [
            ("split", "5"),
            ("http-user", "me"),
            ("gid", "1"),
            ("http-user", "you"),
            ("nobody", ""),
        ] {
            apply_option(option, &mut entry, &mut ignored).unwrap();
        }
        assert_eq!(ignored.into_iter().collect::<Vec<_>>(), ["http-user"]);
        assert_eq!(entry, ListEntry::new(1, "http://h/".parse().unwrap()));
    }
}

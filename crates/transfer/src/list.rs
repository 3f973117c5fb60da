//! Lists of downloads: bytes in, a [`ListEntry`] or a [`BadLine`] out, one at a time.
//!
//! The bytes are decompressed, the first line tells the format, and one reader for each format makes the entries. An
//! error in a line is reported with its number, and the rest goes on. The list is never in memory: a line has at most a
//! megabyte and a longer one is skipped as it comes. Only a Metalink document is read as a whole, and its size is
//! bounded.
//!
//! Nothing here decides where a file goes when its line does not say, or whether two lines want the same path. That is
//! the task of [`crate::layout::PathLayout`] and [`crate::layout::AssignedPaths`].

mod bad_line;
mod checksum_list;
mod csv;
mod entry;
mod fields;
mod format;
mod json_lines;
mod lines;
mod metalink;
mod patience;
mod source;
mod url_list;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

pub use bad_line::{BadLine, BadLineProblem};
pub use checksum_list::{ChecksumList, ChecksumListError};
pub use entry::ListEntry;
pub use fields::{ListUrlParser, parse_list_url};
pub use format::ListFormat;

use bad_line::LineError;
use csv::CsvList;
use json_lines::JsonLinesList;
use lines::LineReader;
use metalink::MetalinkList;
use patience::{PatientFile, ReadPatience};
use source::PeekedReader;
use url_list::UrlList;

/// A file that begins with this number of unusable lines is not a list.
const MAX_BAD_LINES_BEFORE_ENTRY: usize = 1000;

/// The entries of a list, read on demand. Reading blocks, so a list needs a thread of its own.
///
/// An entry is returned when its line is complete. In the format of aria2, options may follow: if the user gave this format, or an entry had
/// options, each is returned when the first byte behind it has come. A [`ListFormat::Metalink`] list is read to its
/// end for the first entry. Errors in lines before the first entry come with it, or when the next line does not come: if there is no entry in
/// a thousand lines, the only error is that this is not a list.
pub struct DownloadList {
    /// The name of the list for messages.
    name: Arc<str>,
    reader: ListReader,
    /// Whether the list has ended. The source is then not read again.
    ended: bool,
    /// Whether there was an entry.
    has_entries: bool,
    /// The items that come next: errors in lines before the first entry, and that.
    held: VecDeque<Result<ListEntry, BadLine>>,
    format: ListFormat,
    /// The compression, for the message when it is damaged.
    compression: Option<&'static str>,
}

/// One reader for each format.
enum ListReader {
    Urls(UrlList),
    Csv(Box<CsvList>),
    JsonLines(JsonLinesList),
    Metalink(MetalinkList),
    /// A list that cannot be read; its error until it was returned.
    Unreadable(Option<LineError>),
}

impl DownloadList {
    /// Opens a list. Reads its first bytes to detect compression, and its first lines to detect the format if it is not
    /// given. The first item reports an error.
    #[must_use]
    pub fn open(source: Box<dyn Read + Send>, format: Option<ListFormat>, name: &str) -> Self {
        Self::open_source(source, ReadPatience::default(), format, name)
    }

    /// Opens a list in a file, a pipe or a terminal: an entry is returned when its line is complete, also where the next one is waited for.
    #[must_use]
    pub fn open_file(file: File, format: Option<ListFormat>, name: &str) -> Self {
        let patience = ReadPatience::default();
        let source = PatientFile {
            file,
            patience: patience.clone(),
        };
        Self::open_source(Box::new(source), patience, format, name)
    }

    fn open_source(
        source: Box<dyn Read + Send>,
        patience: ReadPatience,
        format: Option<ListFormat>,
        name: &str,
    ) -> Self {
        let is_given = format.is_some();
        let (source, compression) = source::decompressed(source);
        let source = PeekedReader::peek_list(source, format.is_none());
        let format = format.unwrap_or_else(|| format::detect(source.peeked()));
        let unreadable = |problem| ListReader::Unreadable(Some(LineError::new(1, "", problem)));
        let reader = if source.is_utf16() {
            unreadable(BadLineProblem::Utf16)
        } else if source.is_binary() {
            unreadable(BadLineProblem::NotAList {
                reason: "it is binary",
            })
        } else {
            ListReader::new(format, is_given, source, patience)
        };
        Self {
            name: name.into(),
            reader,
            ended: false,
            has_entries: false,
            held: VecDeque::new(),
            format,
            compression,
        }
    }

    /// The format, as given or detected.
    #[must_use]
    pub fn format(&self) -> ListFormat {
        self.format
    }

    /// Options of aria2 that were found so far and that haul ignores although they would change what is requested, or
    /// from which host. Other ignored options change only how the same bytes are fetched.
    #[must_use]
    pub fn ignored_options(&self) -> BTreeSet<&'static str> {
        match &self.reader {
            ListReader::Urls(urls) => urls.ignored_options().clone(),
            _ => BTreeSet::new(),
        }
    }

    /// Adds the name of the list, and tells damaged compression from a failed read.
    fn bad_line(&self, bad: LineError) -> BadLine {
        let problem = match (bad.problem, self.compression) {
            // A decoder has errors of its own; a system error comes from the source.
            (BadLineProblem::Read(source), Some(compression))
                if source.raw_os_error().is_none() =>
            {
                BadLineProblem::DamagedCompression {
                    compression,
                    source,
                }
            }
            (problem, _) => problem,
        };
        BadLine {
            list_name: Arc::clone(&self.name),
            line: bad.line,
            excerpt: bad.excerpt,
            url: None,
            problem,
        }
    }

    /// The next item of the reader.
    fn read(&mut self) -> Option<Result<ListEntry, BadLine>> {
        if self.ended {
            return None;
        }
        let item = match &mut self.reader {
            ListReader::Urls(urls) => urls.next(),
            ListReader::Csv(csv) => csv.next(),
            ListReader::JsonLines(json) => json.next(),
            ListReader::Metalink(metalink) => metalink.next(),
            ListReader::Unreadable(bad) => bad.take().map(Err),
        };
        self.ended = match &item {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(bad)) => bad.problem.ends_list(),
        };
        item.map(|item| item.map_err(|bad| self.bad_line(bad)))
    }
}

impl ListReader {
    fn new(
        format: ListFormat,
        is_given: bool,
        source: PeekedReader,
        patience: ReadPatience,
    ) -> Self {
        let lines = |source| LineReader::new(Box::new(source)).with_patience(patience);
        match format {
            ListFormat::Plain => Self::Urls(UrlList::plain(lines(source))),
            ListFormat::Aria2 => Self::Urls(UrlList::aria2(lines(source), is_given)),
            ListFormat::Csv => Self::Csv(Box::new(CsvList::new(lines(source), b','))),
            ListFormat::Tsv => Self::Csv(Box::new(CsvList::new(lines(source), b'\t'))),
            ListFormat::JsonLines => Self::JsonLines(JsonLinesList::new(lines(source))),
            ListFormat::Metalink => Self::Metalink(MetalinkList::new(Box::new(source))),
        }
    }

    /// Whether the next line does not come within a moment.
    fn is_idle(&mut self) -> bool {
        match self {
            Self::Urls(urls) => urls.is_idle(),
            Self::Csv(csv) => csv.is_idle(),
            Self::JsonLines(json) => json.is_idle(),
            Self::Metalink(_) | Self::Unreadable(_) => false,
        }
    }
}

impl Iterator for DownloadList {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(held) = self.held.pop_front() {
            return Some(held);
        }
        while !self.has_entries
            && (self.held.is_empty() || !self.reader.is_idle())
            && let Some(item) = self.read()
        {
            self.has_entries = item.is_ok();
            let is_end = matches!(&item, Err(bad) if bad.problem.ends_list());
            self.held.push_back(item);
            if is_end {
                break;
            }
            if self.held.len() == MAX_BAD_LINES_BEFORE_ENTRY && !self.has_entries {
                self.ended = true;
                self.held.clear();
                let problem = BadLineProblem::NotAList {
                    reason: "none of its first 1000 lines can be used",
                };
                return Some(Err(self.bad_line(LineError::new(1, "", problem))));
            }
        }
        match self.held.pop_front() {
            Some(held) => Some(held),
            None => self.read(),
        }
    }
}

impl fmt::Debug for DownloadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DownloadList");
        shown
            .field("name", &self.name)
            .field("format", &self.format);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

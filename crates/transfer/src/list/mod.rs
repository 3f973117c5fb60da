//! Lists of downloads: bytes in, an [`ListEntry`] or a [`BadLine`] out, one at a time.
//!
//! From the source on: `unpack` undoes gzip or zstd, `front` looks at the first lines without taking them, `format` tells from
//! them how the list is written, `lines` cuts it, and a reader for each way to write it (`links`, `table`, `json`) makes entries. A
//! Metalink document is no lines; `document` reads it as a whole, which is bounded.
//! What one line says wrong is told with its number and the rest goes on. The list is never held: a line may have a megabyte,
//! what is longer is skipped as it comes, and whatever is compressed is undone piece by piece.
//!
//! Where a file goes when its line does not say, and whether two lines want the same, is not decided here but by
//! [`haul_plan::PathLayout`] and [`haul_plan::AssignedPaths`].

mod aria2_option;
mod bad_line;
mod csv;
mod decompress;
mod entry;
mod entry_urls;
mod fields;
mod format;
mod json_lines;
mod lines;
mod metalink;
mod peek;
mod record;
mod url_list;

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

pub use bad_line::{BadLine, BadLineProblem};
pub use entry::ListEntry;
pub use format::{ListFormat, ListFormatError};

use bad_line::UnplacedBadLine;
use lines::LineReader;
use peek::PeekedReader;

/// The entries of a list, read as they are asked for: blocking, so for a thread of its own.
///
/// In the format of aria2 an entry is given when the first byte behind it has come, since options may follow;
/// [`ListFormat::Plain`] gives each as soon as its line is whole. A [`ListFormat::Metalink`] is read to its end for the first one.
pub struct DownloadList {
    /// What messages call the list.
    name: Arc<str>,
    /// What reads it.
    reader: ListReader,
    /// Nothing more can come: whatever the source would say, it is not asked again.
    ended: bool,
    /// How it is written.
    format: ListFormat,
    /// How it is compressed: for the message when that fails.
    packing: Option<&'static str>,
}

/// One reader for each way to write a list.
enum ListReader {
    Links(url_list::UrlList),
    Table(Box<csv::CsvList>),
    Json(json_lines::JsonLinesList),
    Document(metalink::MetalinkList),
    /// A list that nothing can be read of, until that was told.
    Unreadable(Option<UnplacedBadLine>),
}

impl DownloadList {
    /// Begins a list: looks at its first bytes, and its first lines where the format is not given. Compression is found by
    /// itself. What fails here is told by the first item.
    #[must_use]
    pub fn open(source: Box<dyn Read + Send>, format: Option<ListFormat>, name: &str) -> Self {
        let (unpacked, packing) = decompress::decompressed(source);
        let front = PeekedReader::peek_list(unpacked, format.is_none());
        let format = format.unwrap_or_else(|| format::detect(front.peeked()));
        let reader = if front.is_utf16() {
            ListReader::Unreadable(Some(UnplacedBadLine::new(1, "", BadLineProblem::Utf16)))
        } else {
            ListReader::new(format, front)
        };
        Self {
            name: name.into(),
            reader,
            ended: false,
            format,
            packing,
        }
    }

    /// How the list is written, as given or found.
    #[must_use]
    pub fn format(&self) -> ListFormat {
        self.format
    }

    /// Options of aria2 that were seen so far, are not obeyed, and would have changed what is asked for or of whom. All others
    /// that are not obeyed change only the way to the same bytes.
    #[must_use]
    pub fn ignored_options(&self) -> BTreeSet<&'static str> {
        match &self.reader {
            ListReader::Links(links) => links.ignored().clone(),
            _ => BTreeSet::new(),
        }
    }

    /// Gives a bad line the list's name, and a failed source its reason.
    fn told(&self, bad: UnplacedBadLine) -> BadLine {
        let problem = match (bad.problem, self.packing) {
            // Decoders have errors of their own; one of the system comes from below them.
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
            problem,
        }
    }
}

impl ListReader {
    fn new(format: ListFormat, front: PeekedReader) -> Self {
        let lines = |front| LineReader::new(Box::new(front));
        match format {
            ListFormat::Plain => Self::Links(url_list::UrlList::plain(lines(front))),
            ListFormat::Aria2 => Self::Links(url_list::UrlList::aria2(lines(front))),
            ListFormat::Csv => Self::Table(Box::new(csv::CsvList::new(lines(front), b','))),
            ListFormat::Tsv => Self::Table(Box::new(csv::CsvList::new(lines(front), b'\t'))),
            ListFormat::JsonLines => Self::Json(json_lines::JsonLinesList::new(lines(front))),
            ListFormat::Metalink => Self::Document(metalink::MetalinkList::new(Box::new(front))),
        }
    }
}

impl Iterator for DownloadList {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match &mut self.reader {
            ListReader::Links(links) => links.next(),
            ListReader::Table(table) => table.next(),
            ListReader::Json(json) => json.next(),
            ListReader::Document(document) => document.next(),
            ListReader::Unreadable(bad) => bad.take().map(Err),
        };
        self.ended = match &item {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(bad)) => bad.problem.ends_list(),
        };
        item.map(|item| item.map_err(|bad| self.told(bad)))
    }
}

impl fmt::Debug for DownloadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("List");
        shown
            .field("name", &self.name)
            .field("format", &self.format);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod tests;

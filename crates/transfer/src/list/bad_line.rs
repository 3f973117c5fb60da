//! Errors in the lines of a list, and how much of a line a message may show.

use std::io;
use std::sync::Arc;

use haul_net::{UrlError, redacted_text};
use haul_plan::{ChecksumError, DigestAlgorithm};

use crate::layout::RelativePathError;
use crate::metalink;

/// The most characters of a line that a message shows.
const MAX_EXCERPT: usize = 80;

/// An error in one line or entry. Only that entry is left out, unless the problem ends the list.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", line_of_list(*.line, .list_name), quoted_excerpt(.excerpt))]
pub struct BadLine {
    /// The name of the list for messages; empty where the numbers of its lines say nothing.
    pub list_name: Arc<str>,
    /// The line's number, from 1.
    pub line: u64,
    /// The wrong text, shortened, without secrets and control characters. Empty where nothing can be shown safely.
    pub excerpt: String,
    /// The URL for the row of the result, without secrets, where the caller knows it.
    pub url: Option<String>,
    /// What is wrong.
    #[source]
    pub problem: BadLineProblem,
}

fn line_of_list(line: u64, list_name: &str) -> String {
    match list_name {
        "" => "the row".to_owned(),
        list_name => format!("line {line} of {list_name}"),
    }
}

fn quoted_excerpt(excerpt: &str) -> String {
    if excerpt.is_empty() {
        String::new()
    } else {
        format!(": \"{excerpt}\"")
    }
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum BadLineProblem {
    /// The text cannot be parsed as a URL.
    #[error("not a valid URL: {}", invalid_url(.0))]
    InvalidUrl(UrlError),
    /// The text is a host and a path.
    #[error("a URL must begin with https:// or http://; this one has no scheme")]
    NoScheme,
    /// The URL has another scheme than `http`, `https` or `s3`.
    #[error("a URL must begin with http://, https:// or s3://")]
    UnsupportedScheme,
    /// The text behind `s3://` is not an address.
    #[error(transparent)]
    InvalidAddress(haul_s3::S3AddressError),
    /// The URL contains a tab, a NUL or the like. One program would drop it and another would end the URL there.
    #[error("the URL contains control characters")]
    ControlCharacter,
    /// The URL is longer than any server accepts.
    #[error("the URL is longer than {limit} bytes")]
    UrlTooLong {
        /// The longest that is accepted.
        limit: usize,
    },
    /// The key of an object is not a path.
    #[error(transparent)]
    InvalidKey(crate::bucket::KeyPathError),
    /// A record has no URL.
    #[error("there is no URL")]
    NoUrl,
    /// A Metalink file has only URLs of other schemes.
    #[error("it has no URL that begins with http:// or https://")]
    NoHttpUrl,
    /// The text is not a checksum.
    #[error("not a valid checksum: {0}")]
    InvalidChecksum(ChecksumError),
    /// The column or key is the name of a digest that haul does not know. The file could not be compared with it.
    #[error(
        "{name} is a digest that haul cannot compare; it knows {}",
        DigestAlgorithm::names()
    )]
    UnknownDigest {
        /// The name in the list.
        name: String,
    },
    /// The text is the name of an algorithm alone.
    #[error("the checksum has no digest")]
    ChecksumWithoutDigest,
    /// The text is not a number of bytes.
    #[error("not a size in bytes")]
    InvalidSize,
    /// The path points outside the directory, or is empty.
    #[error(transparent)]
    InvalidPath(RelativePathError),
    /// The header field is malformed, or one that haul sets itself.
    #[error("{0}")]
    InvalidHeader(&'static str),
    /// An option comes before any URL.
    #[error("the option has no URL before it")]
    OptionWithoutUrl,
    /// An option comes after its URL was given to the batch, in a list that had none before.
    #[error("the option came too late: the download of the URL before it has begun")]
    LateOption,
    /// A line or an entry exceeds the limit.
    #[error("the line is longer than {limit} bytes")]
    LineTooLong {
        /// The longest that is accepted.
        limit: usize,
    },
    /// An entry has too many mirrors or header fields.
    #[error("there are more than {limit} {what}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The line is not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// The list is in UTF-16. This ends the list.
    #[error("the list is in UTF-16; save it as UTF-8")]
    Utf16,
    /// The first line of a table has no column for URLs. This ends the list.
    #[error("the first line has no column 'url'")]
    NoUrlColumn,
    /// The file is not a list. Reading ends.
    #[error("this is not a list of URLs: {reason}")]
    NotAList {
        /// How that was found out.
        reason: &'static str,
    },
    /// A record has more columns than the header. Most likely a URL contains a comma and is not quoted.
    #[error("the line has {found} columns and the header names {named}")]
    TooManyColumns {
        /// Columns of the record.
        found: usize,
        /// Columns of the header.
        named: usize,
    },
    /// The list ends inside quotation marks.
    #[error("a quotation mark is not closed")]
    UnclosedQuote,
    /// The line is not a JSON object.
    #[error("not a JSON object (character {column})")]
    InvalidJson {
        /// Where parsing stopped, from 1.
        column: usize,
    },
    /// A known key of a JSON object has a value of another type.
    #[error("a value has the wrong type (before character {column})")]
    InvalidJsonType {
        /// Where parsing stopped, from 1.
        column: usize,
    },
    /// A value that a program gives is none that the field can have.
    #[error("{field}: {reason}")]
    UnusableValue {
        field: String,
        /// What the value is.
        reason: String,
    },
    /// A Metalink document, or one file in it, cannot be used. An error of the document ends the list.
    #[error(transparent)]
    Metalink(metalink::MetalinkProblem),
    /// The list broke off behind this entry, whose options may be missing.
    #[error("the list breaks off within this entry")]
    Truncated,
    /// The compressed data are damaged or incomplete. This ends the list.
    #[error("the list's {compression} data are damaged or incomplete")]
    DamagedCompression {
        compression: &'static str,
        /// The decoder's error.
        source: io::Error,
    },
    /// The list could not be read. This ends the list.
    #[error("the list cannot be read")]
    Read(#[source] io::Error),
}

/// What is wrong with a URL.
fn invalid_url(error: &UrlError) -> String {
    match error {
        UrlError::Malformed(url::ParseError::RelativeUrlWithoutBase) => {
            "it does not begin with http://, https:// or s3://".to_owned()
        }
        error => error.to_string(),
    }
}

impl BadLineProblem {
    /// Whether the list ends here: the problem is in the list, not in a line.
    #[must_use]
    pub fn ends_list(&self) -> bool {
        match self {
            Self::Read(_) | Self::DamagedCompression { .. } => true,
            problem if problem.is_wrong_file() => true,
            Self::Metalink(wrong) => !wrong.affects_one_file(),
            _ => false,
        }
    }

    /// Whether the user most likely meant another file: it can be read, and is not a list.
    #[must_use]
    pub fn is_wrong_file(&self) -> bool {
        matches!(
            self,
            Self::Utf16 | Self::NoUrlColumn | Self::NotAList { .. }
        )
    }
}

/// An error in a line, without the name of the list.
#[derive(Debug)]
pub(super) struct LineError {
    /// The line's number, from 1.
    pub(super) line: u64,
    /// As in [`BadLine`].
    pub(super) excerpt: String,
    /// What is wrong.
    pub(super) problem: BadLineProblem,
}

impl LineError {
    pub(super) fn new(line: u64, text: &str, problem: BadLineProblem) -> Self {
        Self {
            line,
            excerpt: excerpt(text),
            problem,
        }
    }

    /// The list could not be read at this line.
    pub(super) fn read(line: u64, error: io::Error) -> Self {
        Self::new(line, "", BadLineProblem::Read(error))
    }
}

/// The part of a text that a message shows. The text is redacted as a whole before it is cut, because a login ends only
/// at its `@`.
fn excerpt(text: &str) -> String {
    let masked = redacted_text(text);
    let mut chars = masked
        .chars()
        .map(|c| if is_printable(c) { c } else { '\u{fffd}' });
    let mut excerpt: String = chars.by_ref().take(MAX_EXCERPT).collect();
    if chars.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}

/// Whether a character is neither a control character nor one that changes the direction of the text around it.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_without_secrets() {
        assert_eq!(
            excerpt("ftp://me:s3cret@h/?sig=s3cret&a=1"),
            "ftp://***@h/?sig=***&a=1"
        );
        assert_eq!(
            excerpt("a\u{1b}[31m\u{202e}\0b"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b"
        );
        let long = format!("http://me:{}@h/f", "s3cret".repeat(1000));
        assert_eq!(excerpt(&long), "http://***@h/f");
        assert_eq!(excerpt(&"ä".repeat(81)), format!("{}…", "ä".repeat(80)));
        assert_eq!(excerpt(&"ä".repeat(80)), "ä".repeat(80));
    }

    #[test]
    fn messages_name_list_line_and_problem() {
        let bad = BadLine {
            list_name: "urls.txt".into(),
            line: 7,
            excerpt: "ftp://h/".into(),
            url: None,
            problem: BadLineProblem::UnsupportedScheme,
        };
        assert_eq!(bad.to_string(), "line 7 of urls.txt: \"ftp://h/\"");
        let source = std::error::Error::source(&bad).unwrap().to_string();
        assert_eq!(source, "a URL must begin with http://, https:// or s3://");
    }
}

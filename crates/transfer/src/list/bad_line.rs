//! What may be wrong with a line, and how much of the line a message may show.

use std::io;
use std::sync::Arc;

use haul_net::redacted_text;
use haul_plan::{ChecksumError, RelativePathError, metalink};

use super::entry_urls::MAX_URL;
use super::lines::MAX_LINE;

/// The most characters of a line that a message shows.
const EXCERPT: usize = 80;

/// A line (or an entry of several) that is no download. It is the only one that is left out, unless the list itself broke off.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of {list_name}{}", quoted(.excerpt))]
pub struct BadLine {
    /// What messages call the list.
    pub list_name: Arc<str>,
    /// Which line, from one.
    pub line: u64,
    /// What is wrong of it, short, without secrets and control characters. Empty where nothing can be shown safely.
    pub excerpt: String,
    /// What is wrong.
    #[source]
    pub problem: BadLineProblem,
}

fn quoted(excerpt: &str) -> String {
    if excerpt.is_empty() {
        String::new()
    } else {
        format!(": \"{excerpt}\"")
    }
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum BadLineProblem {
    /// Not a URL.
    #[error("this is no URL")]
    InvalidUrl(#[source] url::ParseError),
    /// A URL, of a kind that is not downloaded.
    #[error("a URL must begin with http:// or https://")]
    UnsupportedScheme,
    /// A URL with a tab, NUL or the like in it, which would vanish in one program and end the URL in another.
    #[error("a URL has no control characters")]
    ControlCharacter,
    /// A URL longer than any server takes.
    #[error("a URL has at most {MAX_URL} bytes")]
    UrlTooLong,
    /// A record without a URL.
    #[error("there is no URL")]
    NoUrl,
    /// A file that can only be had in ways that are not ours.
    #[error("it has no URL that begins with http:// or https://")]
    NoHttpUrl,
    /// Not a checksum.
    #[error("this is no checksum")]
    InvalidChecksum(#[source] ChecksumError),
    /// The name of an algorithm alone.
    #[error("a checksum in a list has a digest")]
    ChecksumWithoutDigest,
    /// Not a number of bytes.
    #[error("this is no size in bytes")]
    InvalidSize,
    /// A path that leads elsewhere, or nowhere.
    #[error(transparent)]
    InvalidPath(RelativePathError),
    /// A header field that is none, or one that the program itself sets.
    #[error("{0}")]
    InvalidHeader(&'static str),
    /// An option before any URL.
    #[error("this option belongs to no URL")]
    OptionWithoutUrl,
    /// A line or an entry that is longer than the limit.
    #[error("this is longer than {MAX_LINE} bytes")]
    LineTooLong,
    /// More of something than anybody needs.
    #[error("there are more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("this is not UTF-8")]
    NotUtf8,
    /// A list in UTF-16. Nothing follows.
    #[error("the list is in UTF-16; save it as UTF-8")]
    Utf16,
    /// A table whose first line does not name a column for URLs. Nothing follows.
    #[error("the first line names no column 'url'")]
    NoUrlColumn,
    /// More columns than the header names: a comma in a URL without quotes, most likely, which would cut it.
    #[error("there are {found} columns and {named} names for them")]
    TooManyColumns {
        /// In this line.
        found: usize,
        /// In the header.
        named: usize,
    },
    /// The list ended within quotes.
    #[error("a quote does not end")]
    UnclosedQuote,
    /// Not a JSON object.
    #[error("this is no JSON object (character {column})")]
    InvalidJson {
        /// Where reading stopped, from one.
        column: usize,
    },
    /// A JSON object with something else under a known name.
    #[error("a value is not of the type that it should be (before character {column})")]
    InvalidJsonType {
        /// Where reading stopped, from one.
        column: usize,
    },
    /// A Metalink document, or one file of it, that cannot be used. In the former case nothing of it is.
    #[error(transparent)]
    Metalink(metalink::MetalinkProblem),
    /// The list broke off behind this entry, and with it options that the entry may have.
    #[error("the list breaks off before this entry ends")]
    Truncated,
    /// Compression that is damaged or breaks off. Nothing follows.
    #[error("the list's {compression} data are damaged or incomplete")]
    DamagedCompression {
        /// Which compression.
        compression: &'static str,
        /// What its decoder says.
        source: io::Error,
    },
    /// The source failed. Nothing follows.
    #[error("the list cannot be read")]
    Read(#[source] io::Error),
}

impl BadLineProblem {
    /// Whether nothing can follow: it is wrong with the list, and not with a line.
    #[must_use]
    pub fn ends_list(&self) -> bool {
        match self {
            Self::Read(_) | Self::DamagedCompression { .. } | Self::Utf16 | Self::NoUrlColumn => {
                true
            }
            Self::Metalink(wrong) => !wrong.affects_one_file(),
            _ => false,
        }
    }
}

/// A bad line before it is told of which list.
#[derive(Debug)]
pub(super) struct UnplacedBadLine {
    /// Which line, from one.
    pub(super) line: u64,
    /// See [`BadLine`].
    pub(super) excerpt: String,
    /// What is wrong.
    pub(super) problem: BadLineProblem,
}

impl UnplacedBadLine {
    /// A bad line of which this text is wrong.
    pub(super) fn new(line: u64, text: &str, problem: BadLineProblem) -> Self {
        Self {
            line,
            excerpt: excerpt(text),
            problem,
        }
    }

    /// The source failed while it brought this line.
    pub(super) fn read(line: u64, error: io::Error) -> Self {
        Self::new(line, "", BadLineProblem::Read(error))
    }
}

/// As much of a text as a message shows: masked as a whole, since a login ends only at its `@`, and cut then.
fn excerpt(text: &str) -> String {
    let masked = redacted_text(text);
    let mut chars = masked
        .chars()
        .map(|c| if is_shown(c) { c } else { '\u{fffd}' });
    let mut excerpt: String = chars.by_ref().take(EXCERPT).collect();
    if chars.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}

/// Neither a control character nor one that turns the direction of the text around it.
fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_show_no_secret() {
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
    fn messages_say_list_line_and_problem() {
        let bad = BadLine {
            list_name: "urls.txt".into(),
            line: 7,
            excerpt: "ftp://h/".into(),
            problem: BadLineProblem::UnsupportedScheme,
        };
        assert_eq!(bad.to_string(), "line 7 of urls.txt: \"ftp://h/\"");
        let source = std::error::Error::source(&bad).unwrap().to_string();
        assert_eq!(source, "a URL must begin with http:// or https://");
    }
}

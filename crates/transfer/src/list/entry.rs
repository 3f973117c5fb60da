//! One download of a list, and how it is made of URLs and of the fields of a record.

use std::fmt;
use std::path::PathBuf;

use haul_plan::{Checksum, DigestAlgorithm, is_digest_name};
use http::HeaderMap;
use url::Url;

use super::bad_line::{BadLine, BadLineProblem, LineError};
use super::fields;
use crate::get::PieceDigests;
use crate::listed_version::ListedVersion;

/// More mirrors of one file are a mistake.
const MAX_MIRRORS: usize = 256;

#[derive(Clone, PartialEq)]
pub struct ListEntry {
    /// The line in the list, from 1; the first one of an entry with several lines.
    pub line: u64,
    /// The first URL of the file, which also names it.
    pub url: Url,
    /// Further URLs of the same file.
    pub mirrors: Vec<Url>,
    /// The path of the file: relative, without `..`, never the name of a temporary file.
    pub path: Option<PathBuf>,
    /// A directory for the path, below that of the batch.
    pub directory: Option<PathBuf>,
    /// Expected checksums, each with a digest.
    pub checksums: Vec<Checksum>,
    /// The expected size in bytes.
    pub size: Option<u64>,
    /// The version that a store's list shows. Unlike with [`size`](Self::size), the file may be a newer one by now.
    pub listed: Option<ListedVersion>,
    /// Digests of the file's pieces.
    pub pieces: Option<PieceDigests>,
    /// Header fields for its requests. Their values are marked as sensitive.
    pub headers: HeaderMap,
    /// Whether the hosts come from a document and not from the user. Credentials and header fields for hosts that the
    /// user named are then sent to none of them.
    pub untrusted_hosts: bool,
}

impl ListEntry {
    /// An entry with a URL and nothing else.
    #[must_use]
    pub fn new(line: u64, url: Url) -> Self {
        Self {
            line,
            url,
            mirrors: Vec::new(),
            path: None,
            directory: None,
            checksums: Vec::new(),
            size: None,
            listed: None,
            pieces: None,
            headers: HeaderMap::new(),
            untrusted_hosts: false,
        }
    }

    /// An entry with one or several URLs; blank ones are ignored. A URL of another scheme is left out if any other is left,
    /// because lists of mirrors often contain ftp URLs. Text that is not a URL is an error.
    pub(super) fn from_urls<'a>(
        line: u64,
        texts: impl Iterator<Item = &'a str>,
    ) -> Result<Self, LineError> {
        let mut entry: Option<Self> = None;
        let mut other_scheme = None;
        for text in texts.map(str::trim).filter(|text| !text.is_empty()) {
            match (fields::parse_list_url(text), &mut entry) {
                (Ok(url), None) => entry = Some(Self::new(line, url)),
                (Ok(_), Some(entry)) if entry.mirrors.len() >= MAX_MIRRORS => {
                    let (what, limit) = ("mirrors", MAX_MIRRORS);
                    return Err(LineError::new(
                        line,
                        text,
                        BadLineProblem::TooMany { what, limit },
                    ));
                }
                (Ok(url), Some(entry)) => entry.mirrors.push(url),
                (Err(BadLineProblem::UnsupportedScheme), _) => {
                    other_scheme = other_scheme.or(Some(text))
                }
                (Err(problem), _) => return Err(LineError::new(line, text, problem)),
            }
        }
        entry.ok_or_else(|| match other_scheme {
            Some(text) => LineError::new(line, text, BadLineProblem::UnsupportedScheme),
            None => LineError::new(line, "", BadLineProblem::NoUrl),
        })
    }

    /// The entry of a record that begins in this line. Empty values are ignored.
    pub(super) fn from_record<'a>(
        line: u64,
        urls: impl Iterator<Item = &'a str>,
        values: impl Iterator<Item = (ListField, &'a str)>,
    ) -> Result<Self, LineError> {
        let mut entry = Self::from_urls(line, urls)?;
        for (name, text) in values {
            // Blanks around a path belong to it.
            let text = if name == ListField::Path {
                text
            } else {
                text.trim()
            };
            if !text.trim().is_empty() {
                let applied = entry.set(name, text);
                applied.map_err(|problem| match problem {
                    // Its value would say nothing.
                    BadLineProblem::UnknownDigest { .. } => LineError::new(line, "", problem),
                    _ => LineError::new(line, text, problem),
                })?;
            }
        }
        Ok(entry)
    }

    /// Whether [`Self::from_fields`] knows a value of this name.
    #[must_use]
    pub fn has_field(name: &str) -> bool {
        ListField::parse(name).is_some()
    }

    /// The entry of values that a program has, with the names of a table's columns: `path`, `size`, `checksum`, `sha256` and so
    /// on. Other names and empty values are ignored. `list_name` is for the message about what is wrong.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn from_fields<'a>(
        list_name: &str,
        line: u64,
        urls: impl Iterator<Item = &'a str>,
        values: impl Iterator<Item = (&'a str, &'a str)>,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadLine> {
        let known = values.filter_map(|(name, value)| Some((ListField::parse(name)?, value)));
        let entry = Self::from_record(line, urls, known).and_then(|mut entry| {
            for (name, value) in headers {
                let added = fields::add_header(&mut entry.headers, name, value);
                added.map_err(|problem| LineError::new(line, name, problem))?;
            }
            Ok(entry)
        });
        entry.map_err(|error| BadLine {
            list_name: list_name.into(),
            line: error.line,
            excerpt: error.excerpt,
            url: None,
            problem: error.problem,
        })
    }

    fn set(&mut self, name: ListField, text: &str) -> Result<(), BadLineProblem> {
        match name {
            ListField::Url => {}
            ListField::Path => self.path = Some(fields::parse_path(text)?),
            ListField::Size => self.size = Some(fields::parse_size(text)?),
            ListField::Checksum => self.checksums.push(fields::parse_checksum(text)?),
            ListField::Digest(algorithm) => {
                self.checksums.push(fields::parse_digest(algorithm, text)?)
            }
            ListField::UnknownDigest(name) => return Err(BadLineProblem::UnknownDigest { name }),
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListField {
    Url,
    Path,
    Size,
    /// The field `checksum`: an algorithm and a digest.
    Checksum,
    /// A field with the name of an algorithm: a digest alone.
    Digest(DigestAlgorithm),
    /// A field with the name of an algorithm that haul does not know. What it says of the file cannot be verified.
    UnknownDigest(String),
}

impl ListField {
    /// The field of a JSON key. Keys are as they are in lower case, but digests have many spellings.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        let field = Self::parse(key)?;
        let is_digest = matches!(field, Self::Digest(_) | Self::UnknownDigest(_));
        (is_digest || key.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(field)
    }

    /// The field with this name in a header; case does not matter.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "url" => Self::Url,
            "path" => Self::Path,
            "size" => Self::Size,
            "checksum" => Self::Checksum,
            other => match DigestAlgorithm::from_name(other) {
                Some(algorithm) => Self::Digest(algorithm),
                None if is_digest_name(other) => Self::UnknownDigest(other.to_owned()),
                None => return None,
            },
        })
    }
}

impl fmt::Debug for ListEntry {
    /// URLs may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mirrors: Vec<String> = self.mirrors.iter().map(haul_net::redacted_url).collect();
        f.debug_struct("ListEntry")
            .field("line", &self.line)
            .field("url", &haul_net::redacted_url(&self.url))
            .field("mirrors", &mirrors)
            .field("path", &self.path)
            .field("directory", &self.directory)
            .field("checksums", &self.checksums)
            .field("size", &self.size)
            .field("headers", &self.headers)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_values_have_the_names_of_columns() {
        let entry = |values: &[(&'static str, &'static str)],
                     headers: &[(&'static str, &'static str)]| {
            let urls = ["http://a/f", "http://b/f"].into_iter();
            let (values, headers) = (values.to_vec(), headers.to_vec());
            ListEntry::from_fields("rows", 7, urls, values.into_iter(), headers.into_iter())
        };
        let values = [
            ("path", "x/y"),
            ("size", "3"),
            ("MD5", ""),
            ("label", "cat"),
        ];
        let found = entry(&values, &[("X-A", "b")]).unwrap();
        assert_eq!(
            (found.line, found.size, found.mirrors.len()),
            (7, Some(3), 1)
        );
        assert_eq!(found.path, Some("x/y".into()));
        assert_eq!(found.headers["x-a"], "b");
        let bad = entry(&[("path", "../x")], &[]).unwrap_err();
        assert_eq!(bad.to_string(), "line 7 of rows: \"../x\"");
        assert!(entry(&[], &[("Bad Name", "v")]).is_err());
    }

    #[test]
    fn mirrors_of_other_schemes_are_left_out() {
        let parsed = |text: &str| ListEntry::from_urls(3, text.split('\t'));
        let found = parsed("ftp://a/f\thttp://b/f\t\t https://c/f ").unwrap();
        assert_eq!((found.line, found.url.as_str()), (3, "http://b/f"));
        assert_eq!(found.mirrors, [Url::parse("https://c/f").unwrap()]);
        let bad = parsed("ftp://a/f\tmagnet:x").unwrap_err();
        assert_eq!((bad.excerpt.as_str(), bad.line), ("ftp://a/f", 3));
        assert!(matches!(
            parsed("http://a/f\tb").unwrap_err().problem,
            BadLineProblem::InvalidUrl(_)
        ));
        assert!(matches!(
            parsed("\t").unwrap_err().problem,
            BadLineProblem::NoUrl
        ));
        let many = "http://a/f\t".repeat(MAX_MIRRORS + 1);
        assert_eq!(parsed(&many).unwrap().mirrors.len(), MAX_MIRRORS);
        let bad = parsed(&format!("{many}http://a/f")).unwrap_err();
        assert!(matches!(bad.problem, BadLineProblem::TooMany { .. }));
    }
}

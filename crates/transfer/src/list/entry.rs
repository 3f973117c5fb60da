//! One download of a list.

use std::fmt;
use std::path::PathBuf;

use haul_plan::{Checksum, PieceDigests};
use http::HeaderMap;
use url::Url;

/// One download of a list.
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
            pieces: None,
            headers: HeaderMap::new(),
            untrusted_hosts: false,
        }
    }
}

impl fmt::Debug for ListEntry {
    /// URLs may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mirrors: Vec<String> = self.mirrors.iter().map(haul_net::redacted_url).collect();
        f.debug_struct("Entry")
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

//! One download of a list.

use std::fmt;
use std::path::PathBuf;

use haul_plan::{Checksum, PieceDigests};
use http::HeaderMap;
use url::Url;

/// What a list says about one file.
#[derive(Clone, PartialEq)]
pub struct ListEntry {
    /// Its line in the list, from one; of an entry that has several, the first.
    pub line: u64,
    /// Where it is.
    pub url: Url,
    /// Where else the same file is.
    pub mirrors: Vec<Url>,
    /// Where it goes: relative, without `..`, never a companion's name.
    pub path: Option<PathBuf>,
    /// The directory that the path is under, beneath that of the batch.
    pub directory: Option<PathBuf>,
    /// What its bytes must be; each has a digest.
    pub checksums: Vec<Checksum>,
    /// How many bytes it must have.
    pub size: Option<u64>,
    /// Digests of its pieces.
    pub pieces: Option<PieceDigests>,
    /// Header fields for its requests. Their values are marked as secrets.
    pub headers: HeaderMap,
    /// Whether somebody else than the user named its hosts: what is for hosts that the user named goes to none of them.
    pub untrusted_hosts: bool,
}

impl ListEntry {
    /// An entry of which only the URL is known.
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

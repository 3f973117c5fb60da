//! Metalink documents: files, the URLs of each, and its digests.
//!
//! Both versions in use: 4 (RFC 5854, `.meta4`) and 3 (`.metalink`), distinguished by their namespace. Elements
//! that are not needed for fetching (publishers, descriptions, signatures, torrents) are skipped, as both
//! versions demand of unknown elements. The document is untrusted: everything in it is bounded, and
//! names are made safe like those of any peer.

mod document;
mod error;
mod xml;

use std::path::PathBuf;

use haul_plan::Checksum;
use url::Url;

use crate::get::PieceDigests;
pub use error::{MetalinkError, MetalinkProblem};

/// The largest document, in bytes: 100,000 files with a few mirrors each.
pub const MAX_DOCUMENT_BYTES: usize = 16 << 20;

/// The most files in a document.
pub const MAX_FILES: usize = 100_000;

/// The most URLs of one file: the largest mirror networks have some hundreds.
pub const MAX_URLS: usize = 1000;

/// The media type of documents of version 4.
pub const MEDIA_TYPE: &str = "application/metalink4+xml";

/// A parsed document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metalink {
    /// The files in the order of the document; for a file that cannot be used, why.
    pub files: Vec<Result<MetalinkFile, MetalinkError>>,
}

/// One file of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalinkFile {
    /// The line in which its element begins, from 1 on.
    pub line: u64,
    /// Its path: relative, every component safe, mostly one component.
    pub path: PathBuf,
    /// The file's length in bytes.
    pub size: Option<u64>,
    /// Digests of the whole file, at most one of each algorithm.
    pub checksums: Vec<Checksum>,
    /// Digests of its pieces; of several sets the one with the strongest algorithm.
    pub pieces: Option<PieceDigests>,
    /// Its HTTP URLs, best first; empty when there are only others.
    pub mirrors: Vec<MetalinkMirror>,
}

/// A URL of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalinkMirror {
    /// An http or https URL.
    pub url: Url,
    /// 1 is the best; 999,999 the worst, and that of a URL without priority.
    pub priority: u32,
    /// A country, as ISO 3166-1 writes it.
    pub location: Option<String>,
}

impl MetalinkFile {
    /// The URLs of the mirrors, best first.
    pub fn urls(&self) -> impl Iterator<Item = &Url> {
        self.mirrors.iter().map(|mirror| &mirror.url)
    }
}

/// How many bytes suffice to detect a document: declarations and comments before the root are rarely longer.
pub const DETECTION_BYTES: usize = 4096;

/// Whether some bytes begin as a Metalink document does: enough to distinguish it from a list of URLs.
#[must_use]
pub fn is_metalink(front: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&front[..front.len().min(DETECTION_BYTES)]);
    let front = text.trim_start_matches('\u{feff}').trim_start();
    front.starts_with('<')
        && front.match_indices('<').any(|(at, _)| {
            let name = front[at + 1..]
                .split(|c: char| c.is_whitespace() || c == '>')
                .next()
                .unwrap_or_default();
            name == "metalink" || name.ends_with(":metalink")
        })
}

/// Parses a document.
///
/// # Errors
/// [`MetalinkError`], with the mistake and its line. A mistake that [affects one
/// file](MetalinkProblem::affects_one_file) is returned among the files instead.
pub fn parse(bytes: &[u8]) -> Result<Metalink, MetalinkError> {
    let at_start = |problem| MetalinkError { line: 1, problem };
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(at_start(MetalinkProblem::DocumentTooLarge));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u64;
        MetalinkError {
            line,
            problem: MetalinkProblem::NotUtf8,
        }
    })?;
    document::parse_document(text.trim_start_matches('\u{feff}'))
}

#[cfg(test)]
mod tests;

//! What fuzz targets need of this crate: parsers of files and of header fields, given their bytes. Not an interface for anything else.

use std::ops::Range;

use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::filename;
use crate::journal::read_journal;
use crate::manifest::{ManifestRow, PreviousRuns, encode_manifest, read_manifest};
use crate::put::{KnownPart, read_upload_journal, upload_journal_line};
use crate::response::{ContentRange, parse_link_headers};

/// What the journal of a download claims to be on disk.
#[derive(Debug, PartialEq, Eq)]
pub struct JournalClaims {
    /// The size of the resource.
    pub length: u64,
    /// The ranges that are on disk.
    pub ranges: Vec<Range<u64>>,
    /// The bytes of the journal's complete records.
    pub journal_bytes: u64,
}

/// Reads the journal of a download; `None` if it cannot be used.
#[must_use]
pub fn journal(bytes: &[u8], url: &Url) -> Option<JournalClaims> {
    let saved = read_journal(bytes, url).ok()??;
    Some(JournalClaims {
        length: saved.header.length,
        ranges: saved
            .saved_ranges
            .iter()
            .map(|range| range.start..range.end)
            .collect(),
        journal_bytes: saved.journal_length,
    })
}

/// Reads the journal of an upload: the size of the file and of its parts, and the parts that the store has.
#[must_use]
pub fn upload_journal(bytes: &[u8]) -> Option<(u64, u64, Vec<KnownPart>)> {
    read_upload_journal(bytes)
}

#[must_use]
pub fn upload_line(part: &KnownPart) -> Vec<u8> {
    upload_journal_line(part)
}

/// Reads a manifest whose file has this name: what a batch finds in it, the bytes up to its last complete line, and all rows. `None` if it
/// is not a manifest.
#[must_use]
pub fn manifest(bytes: &[u8], name: &str) -> Option<(PreviousRuns, u64, Vec<ManifestRow>)> {
    read_manifest(bytes, name)
}

/// The bytes of a new manifest with these rows.
#[must_use]
pub fn manifest_with(rows: &[ManifestRow], name: &str) -> Vec<u8> {
    encode_manifest(rows, name).unwrap_or_default()
}

/// The range and the total of a Content-Range; `None` if it is refused.
#[must_use]
pub fn content_range(value: &[u8]) -> Option<(Option<Range<u64>>, Option<u64>)> {
    let parsed = ContentRange::parse(value).ok()?;
    Some((parsed.range, parsed.total))
}

/// The mirrors that Link fields name, each with its priority, and the Metalink documents.
#[must_use]
pub fn mirrors_of_links(headers: &HeaderMap, base: &Url) -> (Vec<(u32, Url)>, Vec<Url>) {
    let found = parse_link_headers(headers, base);
    let mirrors = found
        .duplicates
        .into_iter()
        .map(|duplicate| (duplicate.priority, duplicate.url))
        .collect();
    (mirrors, found.metalinks)
}

/// The file name in a Content-Disposition.
#[must_use]
pub fn name_of_disposition(value: &HeaderValue) -> Option<String> {
    filename::from_content_disposition(value)
}

/// The file name of a URL.
#[must_use]
pub fn name_of_url(url: &Url) -> String {
    filename::from_url(url)
}

/// A safe file name of a text.
#[must_use]
pub fn sanitized_name(text: &str) -> Option<String> {
    filename::sanitize(text)
}

/// Whether a name is one of haul's own files.
#[must_use]
pub fn has_reserved_suffix(name: &str) -> bool {
    filename::has_reserved_suffix(name)
}

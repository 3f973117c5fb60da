//! What fuzz targets need of this crate: parsers of files, given their bytes. Not an interface for anything else.

use std::ops::Range;

use haul_plan::upload::KnownPart;
use url::Url;

use crate::journal::read_journal;
use crate::manifest::{ManifestRow, PreviousRuns, encode_manifest, read_manifest};
use crate::put::{read_upload_journal, upload_journal_line};

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

//! The journal's format: `CRC32C-HEX SPACE JSON NEWLINE`, the checksum over the JSON.
//!
//! JSON, so that a person can read what a download was about; a checksum on each line, so that an incomplete or corrupted
//! one is detected. No URL is written, since it may contain secrets: its digest is enough to recognise it.

use haul_plan::{Checksum, ExpectedDigest, ResourceVersion};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::layout::ResourceId;

/// The number of this format. A journal with another number is not used, and the download starts again.
pub(super) const FORMAT: u32 = 2;

/// The longest accepted line, in bytes: a header with two long validators fits.
pub(super) const MAX_LINE: usize = 32 * 1024;

/// The evidence, besides a header's validators, that the bytes of several sources are of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEvidence {
    /// None needed: all bytes are of the version that the validators name, or the user or a validator confirmed that they
    /// are.
    #[default]
    Version,
    /// A digest of the whole file was to detect bytes of another file at the end.
    Digest,
    /// Digests of pieces were to detect them during the download; journalled bytes may not have been verified yet.
    Pieces,
}

/// Which version of which resource a partial file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// Digest of the URL without user name and password.
    pub url: String,
    /// The resource that the URL names whatever its signature or token: a [`ResourceId`]. A link that was renewed names the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The size of the whole resource.
    pub length: u64,
    /// The entity tag as the origin wrote it.
    pub etag: Option<String>,
    /// Last-Modified as the origin wrote it.
    pub last_modified: Option<String>,
    /// The media type of the file, as [`ResourceVersion`] has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Digests of the whole file that the origin announced, as `algorithm:hex`. A run that finds all bytes on disk sends no
    /// request, and verifies these all the same.
    #[serde(default)]
    pub announced: Vec<String>,
    /// Digest of the URL of the mirror that the validators are from, if they are not from the resource's own URL. Validators
    /// of one host cannot be compared with those of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The evidence that the bytes are of one file. A later run may keep them only if a digest verifies them again.
    pub joined: JournalEvidence,
}

impl JournalHeader {
    /// A header for a resource of known length.
    #[must_use]
    pub fn new(
        url: &Url,
        length: u64,
        version: &ResourceVersion,
        announced: &[ExpectedDigest],
    ) -> Self {
        Self {
            format: FORMAT,
            url: url_digest(url),
            resource: Some(ResourceId::without_tokens(url).to_string()),
            length,
            etag: version.etag_text(),
            last_modified: version.last_modified.clone(),
            media_type: version.media_type.as_deref().map(str::to_owned),
            announced: announced.iter().map(digest_text).collect(),
            source: None,
            joined: JournalEvidence::Version,
        }
    }

    /// The same header, for bytes that are joined on this evidence too: of the old and the new one the later in
    /// [`JournalEvidence`] counts.
    #[must_use]
    pub fn with_join_evidence(mut self, evidence: JournalEvidence) -> Self {
        self.joined = self.joined.max(evidence);
        self
    }

    /// The same header, with further digests that the origin announced.
    #[must_use]
    pub fn with_announced(mut self, announced: &[ExpectedDigest]) -> Self {
        for text in announced.iter().map(digest_text) {
            if !self.announced.contains(&text) {
                self.announced.push(text);
            }
        }
        self
    }

    /// The same header, with validators from a mirror.
    #[must_use]
    pub fn with_source(mut self, mirror: &Url) -> Self {
        self.source = Some(url_digest(mirror)).filter(|source| *source != self.url);
        self
    }

    #[must_use]
    pub fn has_validators_of(&self, url: &Url) -> bool {
        match &self.source {
            Some(source) => *source == url_digest(url),
            None => self.belongs_to(url),
        }
    }

    #[must_use]
    pub fn announced_digests(&self) -> Vec<ExpectedDigest> {
        let checksums = self.announced.iter().filter_map(|text| text.parse().ok());
        let expected = |checksum: Checksum| {
            Some(ExpectedDigest {
                algorithm: checksum.algorithm,
                digest: checksum.digest?,
                field: "the origin",
            })
        };
        checksums.filter_map(expected).collect()
    }

    /// The version of the bytes on disk.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion {
            length: Some(self.length),
            etag: self.etag.as_deref().and_then(|tag| tag.parse().ok()),
            last_modified: self.last_modified.clone(),
            media_type: self.media_type.as_deref().map(Into::into),
            date: None,
            original: None,
        }
    }

    /// Whether the bytes came from this URL, or from one that differs by its signature or token alone (row A37).
    #[must_use]
    pub fn belongs_to(&self, url: &Url) -> bool {
        let resource = || ResourceId::without_tokens(url).to_string();
        self.url == url_digest(url) || self.resource == Some(resource())
    }
}

/// The only line in the journal of a download that cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresumableRecord {
    /// [`FORMAT`] when it was written.
    pub format: u32,
}

/// A range on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRange {
    /// Its first byte.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
    /// CRC-32C of the bytes.
    pub crc: u32,
}

/// A range that was on disk and has the wrong digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedRange {
    /// Its first byte.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first line; written again when a later run joins bytes on other evidence, before those bytes.
    Header(JournalHeader),
    /// The first and only line if no state is kept: it only says that the partial file is haul's.
    Mark(UnresumableRecord),
    /// Bytes that are in the file.
    Done(SavedRange),
    /// Bytes that are fetched again: what earlier lines claim of them no longer holds.
    Void(DiscardedRange),
}

impl JournalRecord {
    /// How a journal's first line continues after its checksum: enough to distinguish a damaged journal from another file.
    pub(super) const BEGINNINGS: [&str; 2] = [" {\"header\":{", " {\"mark\":{"];

    /// The record as a line, its newline included.
    pub(super) fn to_line(&self) -> String {
        // A struct of numbers and strings always has a JSON form.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crate::checksum::crc32c(json.as_bytes()))
    }

    /// The record in a line without its newline; `None` if the line is damaged.
    pub(super) fn from_line(line: &[u8]) -> Option<Self> {
        let (crc, json) = (line.get(..8)?, line.get(9..)?);
        let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
        if line[8] != b' ' || crate::checksum::crc32c(json) != crc {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

/// A digest in the journal's notation.
fn digest_text(expected: &ExpectedDigest) -> String {
    let digest = crate::checksum::hex(&expected.digest);
    format!("{}:{digest}", expected.algorithm)
}

/// A digest of a URL without credentials, and without the fragment, which is never sent to the origin.
fn url_digest(url: &Url) -> String {
    let mut url = url.clone();
    // These calls fail only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    // The name of an interface lasts longer than its number.
    let text = haul_net::url_text(&url);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

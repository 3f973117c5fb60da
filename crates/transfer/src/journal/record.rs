//! The journal's format: `CRC32C-HEX SPACE JSON NEWLINE`, the checksum over the JSON.
//!
//! JSON, so that a person can read what a download was about; a checksum on each line, so that a torn or flipped one
//! is seen for what it is. No URL is written, since one may carry secrets: its digest is enough to tell it again.

use serde::{Deserialize, Serialize};
use url::Url;

use haul_plan::{Checksum, ExpectedDigest, ResourceVersion};

/// This format's number. What a journal with another speaks of is not used, and begun again.
pub(super) const FORMAT: u32 = 2;

/// The longest line that is taken for a record, in bytes: a header with two long validators fits.
pub(super) const MAX_LINE: usize = 32 * 1024;

/// What bytes were joined on, beside the validators of a header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEvidence {
    /// Nothing: all of them are of the version that the validators name, or of one that the user or a validator vouched for.
    #[default]
    Version,
    /// A digest of the whole was to find out at the end what is of another file.
    Digest,
    /// Digests of pieces were to find it out on the way; what was journalled need not have been looked at.
    Pieces,
}

/// Which version of which resource a partial file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// Digest of the URL without its user name and password.
    pub url: String,
    /// Bytes in the whole resource.
    pub length: u64,
    /// The entity tag as the origin wrote it.
    pub etag: Option<String>,
    /// Last-Modified as the origin wrote it.
    pub last_modified: Option<String>,
    /// Digests of the whole file that the origin announced, as `algorithm:hex`: a run that has only to give the file its name
    /// asks the origin nothing, and verifies these all the same.
    #[serde(default)]
    pub announced: Vec<String>,
    /// Digest of the URL of the mirror whose validators these are, where that is not the resource's own: other hosts' validators
    /// say nothing about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What vouches for the bytes. Unless a digest does so again in a later run, that one may not go on with them.
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
            length,
            etag: version.etag.as_ref().map(ToString::to_string),
            last_modified: version.last_modified.clone(),
            announced: announced.iter().map(digest_text).collect(),
            source: None,
            joined: JournalEvidence::Version,
        }
    }

    /// The same, with bytes that are joined on this evidence; what they were joined on before counts as long as it is stronger.
    #[must_use]
    pub fn with_join_evidence(mut self, on: JournalEvidence) -> Self {
        self.joined = self.joined.max(on);
        self
    }

    /// The same, with what else the origin announced by now.
    #[must_use]
    pub fn with_announced(mut self, announced: &[ExpectedDigest]) -> Self {
        for text in announced.iter().map(digest_text) {
            if !self.announced.contains(&text) {
                self.announced.push(text);
            }
        }
        self
    }

    /// The same, with validators that are those of a mirror.
    #[must_use]
    pub fn with_source(mut self, mirror: &Url) -> Self {
        self.source = Some(url_digest(mirror)).filter(|source| *source != self.url);
        self
    }

    /// Whether the validators are those of this URL.
    #[must_use]
    pub fn has_validators_of(&self, url: &Url) -> bool {
        *self.source.as_ref().unwrap_or(&self.url) == url_digest(url)
    }

    /// The digests that the origin announced.
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

    /// The version that the bytes on disk are of.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion {
            length: Some(self.length),
            etag: self.etag.as_deref().and_then(|tag| tag.parse().ok()),
            last_modified: self.last_modified.clone(),
            date: None,
        }
    }

    /// Whether the bytes came from this URL.
    #[must_use]
    pub fn belongs_to(&self, url: &Url) -> bool {
        self.url == url_digest(url)
    }
}

/// The only line of a download that cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresumableRecord {
    /// [`FORMAT`] when it was written.
    pub format: u32,
}

/// A range that is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRange {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// CRC-32C of the bytes.
    pub crc: u32,
}

/// A range that was on disk and turned out not to be what it should: a piece with another digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedRange {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first line; and again where a later run joins bytes on other evidence, ahead of those bytes.
    Header(JournalHeader),
    /// The first line where nothing else will follow: all it says is that the partial file is haul's.
    Mark(UnresumableRecord),
    /// Bytes that are in the file.
    Done(SavedRange),
    /// Bytes that are to be fetched again: what earlier lines claim of them holds no more.
    Void(DiscardedRange),
}

impl JournalRecord {
    /// How a journal's first line goes on after its checksum: enough to tell a damaged one from what is none.
    pub(super) const BEGINNINGS: [&str; 2] = [" {\"header\":{", " {\"mark\":{"];

    /// The record as a line, its newline included.
    pub(super) fn to_line(&self) -> String {
        // A struct of numbers and strings always has a JSON form.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crate::checksum::crc32c(json.as_bytes()))
    }

    /// The record in a line without its newline; `None` if the line is not as it was written.
    pub(super) fn from_line(line: &[u8]) -> Option<Self> {
        let (crc, json) = (line.get(..8)?, line.get(9..)?);
        let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
        if line[8] != b' ' || crate::checksum::crc32c(json) != crc {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

/// A digest as the journal has it.
fn digest_text(expected: &ExpectedDigest) -> String {
    let digest = crate::checksum::hex(&expected.digest);
    format!("{}:{digest}", expected.algorithm)
}

/// A URL's digest, without credentials and without the fragment, which never reaches the origin.
fn url_digest(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for URLs that cannot have them, which is the state that is wanted.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    blake3::hash(url.as_str().as_bytes()).to_hex().to_string()
}

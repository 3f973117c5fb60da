//! The options of uploads, an upload and its outcome: plain data.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use haul_plan::{Checksum, DigestAlgorithm, RetryOptions};
use haul_s3::S3Address;
use http::HeaderMap;
use url::Url;

use crate::options::ConnectionCount;

/// Files of up to so many bytes are one request: three requests for two parts would cost more than they gain.
const SINGLE_REQUEST_BYTES: u64 = 16 << 20;

/// Options of all uploads of an engine.
#[derive(Debug, Clone)]
pub struct PutOptions {
    /// Requests at a time, over all files.
    pub connections: ConnectionCount,
    /// The size of parts; `None` lets haul choose. Objects that are larger are copied in parts.
    pub part_bytes: Option<u64>,
    /// Whether to continue an earlier run's upload, and to leave one that fails to a later run.
    pub resume: bool,
    /// Where uploads are remembered; without it none is resumed.
    pub state_directory: Option<PathBuf>,
    /// How failed requests are retried.
    pub retry: RetryOptions,
    /// A checksum to send with each request in place of CRC-64/NVME, as far as S3 has it.
    pub checksum: Option<DigestAlgorithm>,
    /// Whether events are about all uploads together: there are too many for an event each.
    pub is_batch: bool,
}

impl PutOptions {
    /// Larger files are sent in parts.
    pub(super) fn single_request_bytes(&self) -> u64 {
        self.part_bytes.unwrap_or(SINGLE_REQUEST_BYTES)
    }
}

impl Default for PutOptions {
    fn default() -> Self {
        Self {
            // As for downloads.
            connections: ConnectionCount::Auto { max: 16 },
            part_bytes: None,
            resume: true,
            state_directory: None,
            retry: RetryOptions::default(),
            checksum: None,
            is_batch: false,
        }
    }
}

/// What is uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadInput {
    /// A file.
    File(PathBuf),
    /// Standard input, to its end.
    Stdin,
    /// An object of the same store, which copies it itself.
    Object(SourceObject),
}

impl fmt::Display for UploadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::Object(source) => source.address.fmt(f),
        }
    }
}

/// An object that is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceObject {
    /// The object.
    pub address: S3Address,
    /// Its size in bytes, as a list or a response said it.
    pub size: u64,
    /// Its entity tag without the quotes: another version is not copied (row F14).
    pub etag: String,
}

/// Where an upload goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadTarget {
    /// An object of the engine's store.
    Object(S3Address),
    /// A URL that takes PUT.
    Url(Url),
}

impl UploadTarget {
    /// The object that an upload in parts would make of it.
    #[must_use]
    pub fn object(&self) -> Option<S3Address> {
        match self {
            Self::Object(address) => Some(address.clone()),
            Self::Url(url) => S3Address::at_http_url(url),
        }
    }

    /// Whether it ends in a slash, and a file goes below it with its own name.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        match self {
            Self::Object(address) => address.is_prefix(),
            Self::Url(url) => url.path().ends_with('/'),
        }
    }

    /// The target of a file below this prefix.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        match self {
            Self::Object(address) => {
                Self::Object(address.with_key(format!("{}{name}", address.key)))
            }
            Self::Url(url) => {
                let mut url = url.clone();
                // An http URL has a path that can be extended.
                if let Ok(mut segments) = url.path_segments_mut() {
                    segments.pop_if_empty().extend(name.split('/'));
                }
                Self::Url(url)
            }
        }
    }
}

impl fmt::Display for UploadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(address) => address.fmt(f),
            Self::Url(url) => f.write_str(&haul_net::redacted_url(url)),
        }
    }
}

impl From<S3Address> for UploadTarget {
    fn from(address: S3Address) -> Self {
        Self::Object(address)
    }
}

/// One upload.
#[derive(Debug, Clone)]
pub struct UploadJob {
    /// The caller's number for the job; events carry it.
    pub id: u64,
    /// What is uploaded.
    pub input: UploadInput,
    /// Where it goes.
    pub target: UploadTarget,
    /// What it is: media type, metadata, storage class.
    pub headers: HeaderMap,
    /// If-Match and If-None-Match: checked by the peer when it is published.
    pub conditions: HeaderMap,
}

/// An upload that is done.
#[derive(Debug, Clone)]
pub struct UploadOutcome {
    /// The object or URL.
    pub target: UploadTarget,
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes that an earlier run had sent.
    pub resumed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The entity tag without its quotes.
    pub etag: String,
    /// Checksums that the store computed and that are those of the file.
    pub checksums: Vec<Checksum>,
    /// The version, in a bucket that keeps versions.
    pub version_id: Option<String>,
    /// Parts; 0 for an upload with one request.
    pub parts: u32,
}

//! The options of uploads, an upload and its outcome: plain data.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_plan::{Checksum, DigestAlgorithm};
use haul_s3::{S3Address, escaped_key};
use http::HeaderMap;
use url::Url;

use crate::options::ConnectionCount;
use crate::recovery::RetryOptions;

/// The largest file, in bytes, that is one request: three requests for two parts would cost more than they gain.
const SINGLE_REQUEST_BYTES: u64 = 16 << 20;

/// Options of all uploads of an engine.
#[derive(Debug, Clone)]
pub struct PutOptions {
    /// Requests at a time, over all files.
    pub connections: ConnectionCount,
    /// The size of parts; `None` lets haul choose. Objects that are larger are copied in parts.
    pub part_bytes: Option<u64>,
    /// About how many bytes come from standard input, if that is known: its parts are large enough for them.
    pub stream_bytes: Option<u64>,
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
            stream_bytes: None,
            resume: true,
            state_directory: None,
            retry: RetryOptions::default(),
            checksum: None,
            is_batch: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadInput {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceObject {
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

    /// The target of a file below this prefix. No two names have one target.
    ///
    /// # Errors
    /// No URL or key has the name: clients and servers would take it for another.
    pub fn below(&self, name: &Path) -> Result<Self, UnusableNameError> {
        let bytes = name.as_os_str().as_bytes();
        let is_dot = |part: &[u8]| matches!(part, b"." | b"..");
        if bytes.split(|byte| *byte == b'/').any(is_dot) {
            return Err(UnusableNameError::DotSegment);
        }
        Ok(match self {
            Self::Object(address) => {
                let name = name.to_str().ok_or(UnusableNameError::NotUtf8)?;
                Self::Object(address.with_key(format!("{}{name}", address.key)))
            }
            Self::Url(url) => {
                let mut url = url.clone();
                let folder = url.path().strip_suffix('/').unwrap_or_else(|| url.path());
                url.set_path(&format!("{folder}/{}", escaped_key(bytes)));
                Self::Url(url)
            }
        })
    }
}

/// Why a file has no target of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNameError {
    /// The target is an object, and keys are UTF-8.
    #[error("the name is not UTF-8, and keys are")]
    NotUtf8,
    /// The name has a part `.` or `..`, which HTTP clients and proxies resolve.
    #[error("the name has a part . or .., which HTTP clients and proxies take for another name")]
    DotSegment,
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

#[derive(Debug, Clone)]
pub struct UploadJob {
    /// The caller's number for the job; events carry it.
    pub id: u64,
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    /// Names that a parser of URLs may take for each other.
    #[rustfmt::skip]
    const NAMES: &[&[u8]] = &[
        b"ab", b"a\tb", b"a\nb", b"a\rb", b"a\r\nb", b"a%09b", b"a%0ab", b"a b", b"a+b",
        b"a%20b", b" ab", b"ab ", b"a?b", b"a#b", b"a\\b", b"a/b", b"a%2fb", b"a%5cb",
        b"%2e", b"%2E%2e", b".a", b"..a", b"...", b"%", b"%%", b"a\xffb", b"a\xc3\xbfb",
        "a\u{301}".as_bytes(), "\u{e1}".as_bytes(), b"\x7f", b"\x01", b"a\x80", b"a;b", b"a:b",
    ];

    fn target(text: &str) -> UploadTarget {
        UploadTarget::Url(text.parse().unwrap())
    }

    /// The name that a server reads from the path below `/up/`.
    fn received(target: &UploadTarget) -> Vec<u8> {
        let UploadTarget::Url(url) = target else {
            unreachable!("a URL has URLs below it")
        };
        let sent = url.path().strip_prefix("/up/").unwrap();
        percent_decode_str(sent).collect()
    }

    /// Bytes that a parser of URLs drops, resolves or replaces, among others.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            prop::sample::select(b"\t\n\r %?#\\/.;:@2eE5cC&+'\"<>{}|^`~".as_slice()),
            1_u8..,
        ];
        prop::collection::vec(byte, 1..8)
    }

    proptest! {
        #[test]
        fn f32_a_server_reads_every_byte_of_a_name(bytes in name()) {
            let name = OsString::from_vec(bytes.clone());
            match target("http://me@h.test/up/").below(Path::new(&name)) {
                Ok(target) => prop_assert_eq!(received(&target), bytes),
                Err(error) => prop_assert_eq!(error, UnusableNameError::DotSegment),
            }
        }
    }

    #[test]
    fn f32_no_two_names_have_one_target() {
        for base in ["http://h.test/up/", "https://h.test/up/?sig=1"] {
            let mut targets = HashMap::new();
            for bytes in NAMES {
                let name = OsString::from_vec(bytes.to_vec());
                let below = target(base).below(Path::new(&name)).unwrap();
                assert_eq!(received(&below), *bytes);
                let other = targets.insert(below.to_string(), bytes);
                assert_eq!(other, None, "{below}");
            }
        }
        let object = UploadTarget::Object("s3://bucket/p/".parse().unwrap());
        let mut urls = HashMap::new();
        for bytes in NAMES {
            let name = OsString::from_vec(bytes.to_vec());
            let below = match object.below(Path::new(&name)) {
                Ok(UploadTarget::Object(address)) => address,
                other => {
                    assert_eq!(other, Err(UnusableNameError::NotUtf8));
                    assert!(str::from_utf8(bytes).is_err());
                    continue;
                }
            };
            let other = urls.insert(below.to_url().unwrap(), bytes);
            assert_eq!(other, None, "{below}");
        }
    }

    #[test]
    fn f32_names_that_lead_elsewhere_have_no_target() {
        for base in ["http://h.test/up/", "http://h.test/"] {
            for name in ["..", "a/../b", "./a", "a/."] {
                let refused = target(base).below(Path::new(name));
                assert_eq!(refused, Err(UnusableNameError::DotSegment), "{name}");
            }
        }
    }
}

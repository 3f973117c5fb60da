//! Files that are not what they should be.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use haul_net::redacted_url;
use haul_plan::{DigestAlgorithm, Remedy};
use http::StatusCode;
use url::Url;

use crate::response::UnexpectedContent;

/// Why the origin's bytes are not the file. Display says it without the URL.
#[derive(Debug, thiserror::Error)]
pub enum VerificationError {
    /// The origin sends a page or an error document in place of the file whose bytes are here.
    #[error("sent {document} in place of the file")]
    ErrorPage { document: Box<ErrorDocument> },
    /// The URL is a folder of `haul serve`, and the response is the page that lists it.
    #[error("is a folder: its page lists files, and is not a file")]
    FolderListing,
    /// The file has another type or size than the user expects.
    #[error("is not the file expected")]
    UnexpectedContent {
        /// The status of the response, if it is known.
        status: Option<StatusCode>,
        source: UnexpectedContent,
    },
    /// The origin's X-Robots-Tag forbids the use of the file, and the user wants to respect that.
    #[error("must not be used: its X-Robots-Tag says {directive}")]
    ForbiddenByRobotsTag {
        status: StatusCode,
        /// The directive that forbids it.
        directive: &'static str,
    },
    /// The resource changed at the origin while it was fetched, more than once.
    #[error("keeps changing while it is downloaded")]
    ResourceChanged,
    /// The origin has another version than the one that was opened to be read at any offset.
    #[error("changed at the origin while it was read")]
    VersionChanged,
    /// A digest is not the one expected.
    #[error("has {algorithm} {found}, where {expected_by} says {expected}")]
    Checksum {
        algorithm: DigestAlgorithm,
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
        /// The source of the expected digest: the user, or a header field.
        expected_by: &'static str,
        /// The file to which the received bytes were moved.
        moved_to: Option<PathBuf>,
    },
    /// A piece still has the wrong digest after every retry.
    #[error("has bytes {}-{} that do not match their {algorithm} digest", .range.start, .range.end.saturating_sub(1))]
    PieceDigest {
        range: Range<u64>,
        algorithm: DigestAlgorithm,
    },
    /// The origin has another file, for example one of another size than the job expects.
    #[error("is not the file meant: {reason}")]
    WrongFile {
        /// How it differs.
        reason: String,
    },
    /// The body is not in the format of its Content-Encoding.
    #[error("cannot be decoded")]
    Decode { source: io::Error },
}

/// A page or an error document that came in place of a file (row A35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDocument {
    /// Its media type, without parameters.
    pub media_type: Option<Box<str>>,
    /// Its length in bytes, if the response has one.
    pub length: Option<u64>,
    /// The first line of its text: mostly its title.
    pub text: Option<Box<str>>,
}

impl VerificationError {
    pub(super) fn cause(&self) -> &'static str {
        match self {
            Self::ErrorPage { .. } => "a page in place of the file",
            Self::FolderListing => "a folder, not a file",
            Self::UnexpectedContent { .. } => "not the file expected",
            Self::ForbiddenByRobotsTag { .. } => "forbidden by X-Robots-Tag",
            Self::ResourceChanged => "changed while it was downloaded",
            Self::VersionChanged => "changed while it was read",
            Self::Checksum { .. } => "wrong checksum",
            Self::PieceDigest { .. } => "a piece with a wrong digest",
            Self::WrongFile { .. } => "another file than the one meant",
            Self::Decode { .. } => "cannot be decoded",
        }
    }

    /// Whether another source may have the file.
    pub(super) fn is_source_failure(&self) -> bool {
        matches!(
            self,
            Self::ErrorPage { .. }
                | Self::ForbiddenByRobotsTag { .. }
                | Self::ResourceChanged
                | Self::WrongFile { .. }
                | Self::PieceDigest { .. }
        )
    }

    /// The error where its URL is named beside it.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::WrongFile { reason } => reason.clone(),
            Self::Checksum {
                algorithm,
                expected,
                found,
                expected_by,
                ..
            } => format!(
                "its {algorithm} is {}, where {expected_by} says {}",
                shortened(found),
                shortened(expected)
            ),
            Self::PieceDigest { range, .. } => format!(
                "bytes {}-{} are not what their digest says",
                range.start,
                range.end.saturating_sub(1)
            ),
            Self::ForbiddenByRobotsTag { directive, .. } => {
                format!("its X-Robots-Tag says {directive}")
            }
            other => other.to_string(),
        }
    }

    pub(super) fn remedies(&self, url: &Url) -> Vec<Remedy> {
        let text = match self {
            Self::ErrorPage { .. } => "the link or the login may have expired: get a new one",
            Self::FolderListing => {
                let mut list = url.clone();
                list.set_query(Some("format=jsonl"));
                return vec![Remedy::DownloadFolder(redacted_url(&list))];
            }
            Self::UnexpectedContent { .. } => "it may be an error page: open the URL in a browser",
            Self::ForbiddenByRobotsTag { .. } => return vec![Remedy::IgnoreRobotsTag],
            Self::ResourceChanged => "try again later",
            Self::VersionChanged => "open it again",
            Self::Checksum {
                moved_to: Some(path),
                ..
            } => {
                let text = format!("the received bytes are in {}", path.display());
                return vec![Remedy::Advice(text.into())];
            }
            Self::Checksum { .. } => "the bytes must not be used",
            Self::WrongFile { .. } | Self::PieceDigest { .. } => {
                "the given digest or size may be of another version, or the origin's file is damaged"
            }
            Self::Decode { .. } => return vec![Remedy::StoreEncoded],
        };
        vec![Remedy::advice(text)]
    }
}

/// The beginning of a digest, which is enough to compare it by eye.
fn shortened(digest: &str) -> String {
    const SHOWN: usize = 12;
    match digest.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &digest[..end]),
        None => digest.to_owned(),
    }
}

/// Prints `text/html of 88 bytes ("Sign in")`.
impl std::fmt::Display for ErrorDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// The most characters of the text.
        const SHOWN: usize = 80;
        match (self.length, self.media_type.as_deref()) {
            (Some(0), _) => return f.write_str("an empty response"),
            (_, Some(media_type)) => f.write_str(media_type)?,
            (_, None) => f.write_str("a document")?,
        }
        if let Some(length) = self.length {
            write!(f, " of {length} bytes")?;
        }
        match &self.text {
            Some(text) => write!(f, " ({:?})", text.chars().take(SHOWN).collect::<String>()),
            None => Ok(()),
        }
    }
}

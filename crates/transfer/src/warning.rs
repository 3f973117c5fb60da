//! What a user should know while a transfer goes on.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use haul_plan::{Remedy, WaitText};

use crate::response::ContentCoding;

/// A warning. Display says what happened; what the user can do is [`TransferWarning::remedies`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferWarning {
    /// The partial file of an earlier run cannot be continued.
    #[error("haul does not use {} of an earlier run: {reason}", .partial.display())]
    UnusablePartialFile { partial: PathBuf, reason: String },
    /// The bytes so far are of no use.
    #[error("{reason}: starting again")]
    StartsAgain { reason: &'static str },
    /// The origin sends no parts, so the bytes of an earlier run come again.
    #[error("the origin sends no parts of the file: fetching all of it again")]
    FetchesAllAgain,
    /// The file has its name, which may not survive a power cut.
    #[error("{} is complete and has its name, but a power cut may undo the rename: {error}", .path.display())]
    NameNotSynced { path: PathBuf, error: String },
    /// The file system does not keep times. It is said once for all jobs.
    #[error("{}: the file system does not keep the time of the origin's file: it has that of the download", .path.display())]
    LostTime {
        /// The first file.
        path: PathBuf,
    },
    /// The file came in a Content-Encoding and is stored like that.
    #[error("the origin sent the file as {coding}: it is stored like that")]
    StoredEncoded { coding: ContentCoding },
    /// A stream without a length.
    #[error("the origin does not say how long the file is: it cannot be resumed")]
    UnknownLength,
    /// Responses to range requests contradict each other.
    #[error(
        "this origin's responses to range requests cannot be trusted: fetching over one connection"
    )]
    UnusableRanges,
    /// Without a validator, parts may be of different versions.
    #[error(
        "the origin sends neither ETag nor Last-Modified, so a change between two requests would not be noticed: fetching over one connection"
    )]
    NoValidator,
    /// The user wants several connections all the same.
    #[error(
        "the origin sends neither ETag nor Last-Modified: a change of equal length would not be noticed"
    )]
    UnnoticedChange,
    /// The file has a wrong digest, and another source is asked for all of it.
    #[error("{error}: fetching all of it from {url} alone")]
    WrongDigest {
        error: String,
        /// The source that is left, without secrets.
        url: String,
    },
    /// A piece of the file has a wrong digest.
    #[error("bytes {}-{} from {} do not match their digest: fetching them again", .range.start, .range.end - 1, senders_text(.senders))]
    WrongPiece {
        range: Range<u64>,
        /// The sources that sent it, without secrets; none if an earlier run did.
        senders: Vec<String>,
    },
    /// The Metalink document is about another version.
    #[error(
        "the Metalink document that the origin links to describes another version: starting again without it"
    )]
    WrongDocument,
    /// A source is not used any more.
    #[error("haul no longer uses {url}: {reason}")]
    SourceDropped {
        /// The source, without secrets.
        url: String,
        reason: String,
    },
    /// A page has arrived under a name that promises something else.
    #[error(
        "{url} sent {media_type}, which is not what the name {name} promises: it may be a sign-in page or an error"
    )]
    UnexpectedPage {
        /// The URL, without secrets.
        url: String,
        /// The type of the page.
        media_type: String,
        name: String,
    },
    /// The files of a host wait.
    #[error("{host} asks to wait for {}: its files wait until then", WaitText(*.wait))]
    HostAsksToWait {
        host: String,
        /// How long.
        wait: Duration,
    },
    /// A later run cannot continue uploads. It is said once for all of them.
    #[error("{reason}: an upload that is interrupted will start again from its beginning")]
    NotResumable { reason: String },
    /// All uploads wait, as the store asks.
    #[error("{error}: all uploads wait for {}", WaitText(*.wait))]
    UploadsWait {
        /// The answer of the store.
        error: String,
        /// How long.
        wait: Duration,
    },
    /// The store does not know the checksums that haul prefers.
    #[error("{error}: haul sends MD5 digests instead of other checksums")]
    Md5Instead {
        /// The answer of the store.
        error: String,
    },
    /// A failed upload left parts at the store.
    #[error("the parts of upload {upload_id} could not be removed: {error}")]
    PartsLeft { upload_id: String, error: String },
}

impl TransferWarning {
    /// What the user can do about it.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::StoredEncoded { coding } if !matches!(coding, ContentCoding::Other(_)) => {
                vec![Remedy::Decode]
            }
            Self::NoValidator => vec![Remedy::UseSeveralConnections],
            _ => Vec::new(),
        }
    }
}

fn senders_text(senders: &[String]) -> String {
    match senders {
        [] => "an earlier run".to_owned(),
        senders => senders.join(" and "),
    }
}

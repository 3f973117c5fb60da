//! What a request asked for, and what its answer can mean.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use http::StatusCode;

use crate::content_range::ContentRangeError;
use crate::validator::ResourceVersion;

/// What a request had asked for.
#[derive(Debug, Clone, Default)]
pub struct RequestedContent<'a> {
    /// The Range that was sent; an end of `u64::MAX` stands for an open one. `None`: no Range was sent.
    pub range: Option<Range<u64>>,
    /// The version that bytes on disk are of.
    pub expected_version: Option<&'a ResourceVersion>,
    /// Whether If-Range was sent.
    pub if_range_sent: bool,
    /// Whether If-None-Match or If-Modified-Since was sent.
    pub conditional: bool,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseVerdict {
    /// These bytes of the version wanted follow.
    Part {
        /// Begins where it was asked to, ends there or sooner.
        range: Range<u64>,
        /// Bytes in the whole.
        total: u64,
        /// Of which version.
        version: ResourceVersion,
    },
    /// Everything follows, and may be taken as the whole file.
    Whole {
        /// Bytes, if that is said.
        length: Option<u64>,
        /// Of which version.
        version: ResourceVersion,
        /// A coding that was applied although identity was asked for.
        encoding: Option<ContentCoding>,
    },
    /// The resource has no bytes.
    Empty {
        /// Of which version.
        version: ResourceVersion,
    },
    /// The range begins past the end (416).
    PastEnd {
        /// Bytes in the whole, if that is said.
        total: Option<u64>,
    },
    /// What the caller has is the newest (304).
    NotModified,
    /// Another version than the pinned one.
    Changed {
        /// Which.
        found: ResourceVersion,
    },
    /// Everything follows because of If-Range, though the tag is the same: this origin misreads it (row A4).
    DropIfRange,
    /// Everything follows although a part was asked for, of the same version (row A3).
    RangeIgnored,
    /// No byte of it may be used.
    Refuse {
        /// Why.
        why: UnusableResponse,
    },
    /// Asked too much or at a bad time: 408, 429, 5xx.
    Busy {
        /// Which.
        status: StatusCode,
        /// What Retry-After says.
        retry_after: Option<Duration>,
    },
    /// A final answer: every other status.
    Denied {
        /// Which.
        status: StatusCode,
    },
    /// Credentials are missing or wrong.
    Unauthorized {
        /// 401 or 407.
        status: StatusCode,
        /// For whom they are wanted.
        realm: Option<String>,
    },
}

/// Why no byte of an answer may be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableResponse {
    /// 206 without Content-Range, and not multipart either.
    #[error("a partial answer without Content-Range")]
    MissingContentRange,
    /// 206 with multipart/byteranges for one range.
    #[error("a multipart answer to a single range")]
    Multipart,
    /// The field cannot be used.
    #[error("{0}")]
    ContentRange(#[from] ContentRangeError),
    /// Content-Range without a total: nothing to check other answers against.
    #[error("Content-Range does not say the total")]
    MissingTotal,
    /// Other bytes than were asked for.
    #[error("other bytes than were asked for")]
    WrongRange,
    /// 206 to a request without Range.
    #[error("a partial answer to a request for everything")]
    UnrequestedPartial,
    /// Content-Length contradicts Content-Range.
    #[error("Content-Length contradicts Content-Range")]
    LengthMismatch,
    /// A coding on a part: its bytes are not the file's.
    #[error("a part that is encoded as {0} although identity was asked for")]
    Encoded(ContentCoding),
    /// The validator that pinned the version is missing.
    #[error("an answer without the validator that the others had")]
    MissingValidator,
    /// 304 to a request without a condition.
    #[error("304 to a request without a condition")]
    UnrequestedNotModified,
}

/// A Content-Encoding other than identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentCoding {
    /// gzip, RFC 1952.
    Gzip,
    /// deflate, which is RFC 1950 despite its name.
    Deflate,
    /// Anything else, several in a row among it; for the message, cut to a sane length.
    Other(String),
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Other(name) => name,
        })
    }
}

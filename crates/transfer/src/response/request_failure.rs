//! Why a request brought no usable bytes, in the classes that a recovery decision depends on.
//!
//! [`classify_response`](crate::response::classify_response) derives them from the head of a response, the engine from errors of the transport. The
//! [`RecoveryPolicy`](crate::recovery::RecoveryPolicy) decides what follows.

use std::time::Duration;

use http::StatusCode;

use super::content_coding::ContentCoding;
use super::content_range::ContentRangeError;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestFailure {
    /// No connection was made: the name, the address or the port.
    #[error("the host cannot be reached")]
    Unreachable {
        /// Whether the same request may work later.
        transient: bool,
    },
    /// The connection was closed or reset.
    #[error("the connection was closed")]
    Disconnected {
        /// Whether the response had begun.
        answered: bool,
    },
    /// Another failure of the transport: a timeout, TLS, a proxy.
    #[error("the transport failed")]
    Transport {
        /// Whether the same request may work later.
        transient: bool,
        /// Whether the response had begun.
        answered: bool,
    },
    /// The body arrived so slowly that a request which keeps partial progress should fetch it (row A19).
    #[error("the body comes too slowly")]
    TooSlow,
    /// The response is not HTTP, or breaks a limit: a head without end, a NUL in it, a malformed chunk.
    #[error("the response is not HTTP")]
    Garbled,
    /// 408, 425, 429, 5xx, or a 403 that says when requests are welcome again.
    #[error("answered {status}")]
    Busy {
        /// The status of the response.
        status: StatusCode,
        /// The time that the response asks to wait.
        retry_after: Option<Duration>,
    },
    /// A request for a part was refused with a status that may be about the part and not about the file (row A38).
    #[error("answered {status}")]
    RangeRefused {
        /// The status of the response.
        status: StatusCode,
    },
    /// Any other status without a file.
    #[error("answered {status}")]
    Denied {
        /// The status of the response.
        status: StatusCode,
    },
    /// 401 or 407, although every credential was offered.
    #[error("answered {status}")]
    Unauthorized {
        /// 401 or 407.
        status: StatusCode,
        /// The realm that wants the credentials.
        realm: Option<String>,
    },
    /// 200 with the whole resource, of the same version, to a request for a part (row A3).
    #[error("a request for a part got the whole file")]
    RangeIgnored,
    /// No byte of the response may be used.
    #[error("{0}")]
    Unusable(UnusableResponse),
    /// The response is of another version than the bytes on disk.
    #[error("the resource changed")]
    Changed,
    /// The response is a page or an error document, and no version of the file whose bytes are on disk (row A35).
    #[error("a page came in place of the file")]
    ErrorPage,
    /// 200 with the whole resource to If-Range, though its version is the same: the origin misreads the field (row A4).
    #[error("If-Range is misread")]
    IfRangeMisread,
    /// 416, and nothing shows that the range is inside the file.
    #[error("the range begins past the end of the file")]
    PastEnd,
    /// A source has another file than the job wants, or nothing shows that it has the same one.
    #[error("it has another file")]
    WrongFile,
}

impl RequestFailure {
    /// Whether the request got no response at all.
    #[must_use]
    pub(crate) fn is_without_response(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Disconnected { answered: false }
                | Self::Transport {
                    answered: false,
                    ..
                }
        )
    }
}

/// Why no byte of a response may be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnusableResponse {
    /// 206 without Content-Range, and not multipart either.
    #[error("a partial response has no Content-Range")]
    MissingContentRange,
    /// 416 to a request for the first byte, without the length. S3 says so of an empty object.
    #[error("the first byte of the file is reported as past its end")]
    NoFirstByte,
    /// 206 with multipart/byteranges for one range.
    #[error("the response to a single range is multipart")]
    Multipart,
    /// Content-Range cannot be parsed.
    #[error("{0}")]
    ContentRange(#[from] ContentRangeError),
    /// Without a total length, other responses cannot be checked against this one.
    #[error("Content-Range does not say the total length")]
    MissingTotal,
    /// The total is the end of the range of the first request, and may be that of the part alone.
    #[error("the total in Content-Range is the end of what the request asked for")]
    DoubtfulTotal,
    /// The response brings other bytes than the request was for.
    #[error("the response brings other bytes than the request asked for")]
    WrongRange,
    /// 206 to a request without Range.
    #[error("the response to a request for the whole file is partial")]
    UnrequestedPartial,
    /// Content-Length and Content-Range disagree.
    #[error("Content-Length contradicts Content-Range")]
    LengthMismatch,
    /// The bytes of an encoded part are not bytes of the file.
    #[error("a part is encoded as {0}, although the request asked for identity")]
    Encoded(ContentCoding),
    /// The validator that identifies the version is missing.
    #[error("the response lacks the validator that earlier responses had")]
    MissingValidator,
    /// 304 to a request without a condition.
    #[error("304 to a request without a condition")]
    UnrequestedNotModified,
    /// The head is fine, but it does not answer this request.
    #[error("the response does not fit the request")]
    Unexpected,
    /// The body brought more bytes than the head announced (row A11).
    #[error("the body is longer than the head of the response said")]
    SurplusBody,
    /// The body ended, by its framing, before it was whole (row A10).
    #[error("the body has {received} bytes of {length} announced")]
    TruncatedBody {
        /// Bytes that arrived.
        received: u64,
        /// Bytes that were announced.
        length: u64,
    },
}

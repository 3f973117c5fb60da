//! The faults of requests for generated files: some of the rules of [`faults`], by names that can be listed and counted.

use crate::origin::{
    OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest, faults,
};

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileFault {
    /// The connection is reset instead of a response.
    Reset,
    /// The connection is reset in the middle of the body.
    ResetMidBody,
    /// Nothing is sent after the middle of the body.
    Stall,
    Status500,
    /// 503, with a Retry-After of zero.
    Status503,
    /// 429, with a Retry-After of zero.
    Status429,
    Status404,
    /// The connection is closed in the middle of the body, after a correct head.
    TruncatedBody,
    /// The body is chunked, and the connection is closed between two chunks.
    TruncatedChunks,
    /// The body is chunked and complete, and shorter than the range in the head.
    ShortChunks,
    /// The Content-Length is larger than the body.
    WrongLength,
    /// An error page with status 200. Only a digest, a length or a type distinguishes it from the file.
    ErrorPage,
}

impl FileFault {
    pub const ALL: [Self; 12] = [
        Self::Reset,
        Self::ResetMidBody,
        Self::Stall,
        Self::Status500,
        Self::Status503,
        Self::Status429,
        Self::Status404,
        Self::TruncatedBody,
        Self::TruncatedChunks,
        Self::ShortChunks,
        Self::WrongLength,
        Self::ErrorPage,
    ];

    /// Whether a retry may succeed.
    #[must_use]
    pub fn is_transient(self) -> bool {
        !matches!(self, Self::Status404 | Self::ErrorPage)
    }

    pub(super) fn apply(self, request: &RecordedRequest, response: &mut OriginResponse) {
        let middle = response.body.length() / 2;
        match self {
            Self::Reset => faults::reset_connection(request, response),
            Self::ResetMidBody => faults::reset_after(middle)(request, response),
            Self::Stall => faults::stall_after(middle)(request, response),
            Self::Status500 => faults::status(500)(request, response),
            Self::Status503 => faults::overloaded(503, Some("0"))(request, response),
            Self::Status429 => faults::overloaded(429, Some("0"))(request, response),
            Self::Status404 => faults::status(404)(request, response),
            Self::TruncatedBody => faults::close_after(middle)(request, response),
            Self::TruncatedChunks => {
                response.framing = OriginResponseFraming::Chunked;
                faults::close_after(middle)(request, response);
            }
            Self::ShortChunks => {
                let mut body = response.body.to_vec();
                body.truncate(body.len() / 2);
                response.body = OriginResponseBody::Bytes(body);
                response.framing = OriginResponseFraming::Chunked;
            }
            Self::WrongLength => faults::overstated_length(7)(request, response),
            Self::ErrorPage => faults::error_page(request, response),
        }
    }
}

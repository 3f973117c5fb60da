//! What may befall a request for a file of a shelf: a few of the breakages, by names that can be listed and counted.

use crate::origin::{
    OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest, faults,
};

/// What may befall a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileFault {
    /// The connection is reset in place of an answer.
    Reset,
    /// The connection is reset in the middle of the body.
    ResetMidBody,
    /// Nothing more comes after the middle of the body.
    Stall,
    /// 500.
    Status500,
    /// 503, to be asked again at once.
    Status503,
    /// 429, to be asked again at once.
    Status429,
    /// 404.
    Status404,
    /// The head is right, and the connection is closed in the middle of the body.
    TruncatedBody,
    /// The body comes in chunks and ends between two of them.
    TruncatedChunks,
    /// The body comes in chunks and ends in order, and is shorter than the range that the head tells.
    ShortChunks,
    /// The head says that the body is longer than it is.
    WrongLength,
    /// A page that says that something went wrong, with 200. Nobody can tell it from a file but by a digest, a length or a type.
    ErrorPage,
}

impl FileFault {
    /// All of them.
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

    /// Whether a client that asks again may hope.
    #[must_use]
    pub fn is_transient(self) -> bool {
        !matches!(self, Self::Status404 | Self::ErrorPage)
    }

    /// Breaks an answer.
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

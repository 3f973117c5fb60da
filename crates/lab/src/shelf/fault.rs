//! What may befall a request for a file of a shelf: a few of the breakages, by names that can be listed and counted.

use crate::origin::{OriginReply, RecordedRequest, ReplyBody, ReplyFraming, breakage};

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
    Internal,
    /// 503, to be asked again at once.
    Unavailable,
    /// 429, to be asked again at once.
    TooMany,
    /// 404.
    Missing,
    /// The head is right, and the connection is closed in the middle of the body.
    Truncated,
    /// The body comes in chunks and ends between two of them.
    ChunksCut,
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
        Self::Internal,
        Self::Unavailable,
        Self::TooMany,
        Self::Missing,
        Self::Truncated,
        Self::ChunksCut,
        Self::ShortChunks,
        Self::WrongLength,
        Self::ErrorPage,
    ];

    /// Whether a client that asks again may hope.
    #[must_use]
    pub fn heals(self) -> bool {
        !matches!(self, Self::Missing | Self::ErrorPage)
    }

    /// Breaks an answer.
    pub(super) fn befall(self, asked: &RecordedRequest, reply: &mut OriginReply) {
        let middle = reply.body.length() / 2;
        match self {
            Self::Reset => breakage::refuse(asked, reply),
            Self::ResetMidBody => breakage::reset_after(middle)(asked, reply),
            Self::Stall => breakage::stall_after(middle)(asked, reply),
            Self::Internal => breakage::status(500)(asked, reply),
            Self::Unavailable => breakage::busy(503, Some("0"))(asked, reply),
            Self::TooMany => breakage::busy(429, Some("0"))(asked, reply),
            Self::Missing => breakage::status(404)(asked, reply),
            Self::Truncated => breakage::close_after(middle)(asked, reply),
            Self::ChunksCut => {
                reply.framing = ReplyFraming::Chunked;
                breakage::close_after(middle)(asked, reply);
            }
            Self::ShortChunks => {
                let mut body = reply.body.to_vec();
                body.truncate(body.len() / 2);
                reply.body = ReplyBody::Raw(body);
                reply.framing = ReplyFraming::Chunked;
            }
            Self::WrongLength => breakage::shorter(7)(asked, reply),
            Self::ErrorPage => breakage::error_page(asked, reply),
        }
    }
}

//! Why an exchange over HTTP/1.1 stopped.

use std::io;

use haul_plan::ChunkError;

/// What went wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Http1Error {
    /// What came is no head of a response, or has more fields than are read.
    #[error(transparent)]
    Head(#[from] httparse::Error),
    /// The head has no end within the limit.
    #[error("its head is too long")]
    HeadTooLong,
    /// The chunks of the body are malformed.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The peer closed the connection before it had sent a head.
    #[error("no whole head of a response had arrived")]
    ClosedBeforeHead,
    /// The peer said that the request succeeded, and closed the connection before it had all of it.
    #[error("the peer had not received the whole request, although it said that it succeeded")]
    ClosedInRequest,
    /// The peer closed the connection within the body.
    #[error("the body is incomplete")]
    ClosedInBody,
    /// The peer closed the connection before anything of the request was sent.
    #[error("nothing of the request was sent")]
    Unsent,
    /// The connection broke.
    #[error(transparent)]
    Stream(io::Error),
    /// The body of the request could not be read.
    #[error(transparent)]
    RequestBody(io::Error),
}

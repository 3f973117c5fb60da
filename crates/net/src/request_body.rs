//! The body of a request: nothing, bytes in memory, or a source that can be opened more than once.
//!
//! A request may have to be sent again: over a new connection when an idle one turns out to be closed, or with other
//! credentials. So a body is described here, and opened for each time that it is sent.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;

/// A body while it is sent. Its errors end the request.
pub type BodyStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send + Sync>>;

/// Where a body's bytes come from.
pub trait BodySource: fmt::Debug + Send + Sync {
    /// Bytes of the body; `None` sends it in chunks, which HTTP/1.0 servers and S3 refuse.
    fn length(&self) -> Option<u64>;

    /// Opens the body at its beginning.
    ///
    /// # Errors
    /// The bytes cannot be read, or not a second time.
    fn open(&self) -> io::Result<BodyStream>;

    /// The SHA-256 of the body, if it was computed for a signature.
    fn sha256(&self) -> Option<&[u8]> {
        None
    }
}

/// The body of a request. Cloning shares the bytes.
#[derive(Debug, Clone, Default)]
pub enum RequestBody {
    /// No body, as GET has it.
    #[default]
    Empty,
    Bytes(Bytes),
    /// Bytes that are read while they are sent.
    Source(Arc<dyn BodySource>),
}

impl RequestBody {
    /// Whether there is no body at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The length, if it is known before the body is sent.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Source(source) => source.length(),
        }
    }

    /// Whether it can be sent, perhaps once more.
    #[must_use]
    pub fn can_be_opened(&self) -> bool {
        self.open().is_ok()
    }

    pub(crate) fn open(&self) -> io::Result<OutgoingBody> {
        Ok(match self {
            Self::Empty => OutgoingBody::Empty,
            Self::Bytes(bytes) => OutgoingBody::Bytes(bytes.clone()),
            Self::Source(source) => OutgoingBody::Stream {
                body: source.open()?,
                length: source.length(),
            },
        })
    }
}

/// A body while it is sent.
#[derive(Default)]
pub(crate) enum OutgoingBody {
    #[default]
    Empty,
    Bytes(Bytes),
    /// From a [`BodySource`].
    Stream {
        body: BodyStream,
        length: Option<u64>,
    },
}

impl OutgoingBody {
    /// Bytes of the whole body, before it is read.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Stream { length, .. } => *length,
        }
    }

    /// The next bytes, which may be none; `None` at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(bytes)))
            }
            Self::Stream { body, .. } => body.as_mut().poll_next(cx),
        }
    }
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Bytes(_) => "Bytes",
            Self::Stream { .. } => "Stream",
        })
    }
}

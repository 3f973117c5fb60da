//! What answers are made of.
//!
//! Small things are one piece of memory. Files beyond that go one of two roads: on a plain HTTP/1.1 connection as slices that
//! the kernel sends ([`sendfile`](crate::sendfile)), elsewhere (TLS, HTTP/2) read piece by piece ([`FileRangeReader`]). The end of a large one is always
//! read, since that is where a file that has changed meanwhile is found out. What is made while it is sent
//! (listings, archives) comes from an iterator, step by step ([`ProducedBody`]).

mod produced;
mod reader;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

pub(crate) use produced::{BodyProducer, ProducedBody};
pub(crate) use reader::FileRangeReader;

/// A body.
pub(crate) enum ServeBody {
    /// Nothing.
    Empty,
    /// One piece: memory, or a slice of a file that stands for it.
    Whole(Bytes),
    /// Pieces of both kinds, one after another; the bytes in all of them.
    Pieces(VecDeque<BodyChunk>, u64),
    /// What is made while it is sent; an error ends the connection, so that nobody takes a part for the whole.
    Made(ProducedBody),
}

/// Part of a body.
pub(crate) enum BodyChunk {
    /// Memory, or a slice of a file that stands for it.
    Bytes(Bytes),
    /// A range of a file, to be read.
    Reader(Box<FileRangeReader>),
}

/// By lengths: a slice that stands for a file must not be looked at.
impl fmt::Debug for ServeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The same.
impl fmt::Debug for BodyChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl ServeBody {
    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Whole(text.into().into())
    }

    /// Some pieces.
    pub(crate) fn pieces(pieces: impl IntoIterator<Item = BodyChunk>) -> Self {
        let pieces: VecDeque<BodyChunk> = pieces.into_iter().collect();
        let len = pieces.iter().map(BodyChunk::len).sum();
        Self::Pieces(pieces, len)
    }

    /// Its bytes, where they are known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Pieces(_, left) => Some(*left),
            Self::Made(_) => None,
        }
    }
}

impl BodyChunk {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Reader(reader) => reader.left(),
        }
    }
}

impl hyper::body::Body for ServeBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Pieces(pieces, left) => {
                let bytes = match pieces.front_mut() {
                    None => return Poll::Ready(None),
                    Some(BodyChunk::Bytes(bytes)) => std::mem::take(bytes),
                    Some(BodyChunk::Reader(reader)) => ready!(reader.poll_next(cx))?,
                };
                *left = left.saturating_sub(bytes.len() as u64);
                if pieces.front().is_some_and(|piece| piece.len() == 0) {
                    pieces.pop_front();
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Made(made) => made
                .poll_next(cx)
                .map(|piece| Some(piece?.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Pieces(pieces, _) => pieces.is_empty(),
            Self::Made(made) => made.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

//! Response bodies.
//!
//! A small body is one piece of memory. The bytes of larger files are sent by the kernel on plain
//! HTTP/1.1 connections ([`sendfile`](crate::sendfile)), and read chunk by chunk elsewhere: on TLS
//! and HTTP/2 ([`FileRangeReader`]). The end of a large file is always checked before it is sent,
//! to find out whether the file has changed meanwhile. Listings and archives are produced while
//! they are sent, step by step, by an iterator ([`ProducedBody`]).

mod reader;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::store::DiskThreads;

pub(crate) use reader::FileRangeReader;

pub struct ServeBody(BodyContent);

/// What a response body consists of.
enum BodyContent {
    Empty,
    /// A single chunk: memory, or a slice that stands for a range of a file.
    Whole(Bytes),
    /// Chunks in order, and the bytes left in all of them.
    Chunks(VecDeque<BodyChunk>, u64),
    /// Produced while it is sent. An error ends the connection, so that the client does not take a
    /// part for the whole.
    Produced(ProducedBody),
}

pub(crate) enum BodyChunk {
    /// Memory, or a slice that stands for a range of a file.
    Bytes(Bytes),
    /// A range of a file that this process reads.
    Reader(Box<FileRangeReader>),
}

/// Shows the length alone: a slice that stands for a range of a file must not be read.
impl fmt::Debug for ServeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Shows the length alone, for the same reason.
impl fmt::Debug for BodyChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl ServeBody {
    #[must_use]
    pub const fn empty() -> Self {
        Self(BodyContent::Empty)
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::whole(text.into().into())
    }

    /// A body of a single chunk.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(BodyContent::Whole(bytes))
    }

    /// The single chunk, if the body is one.
    pub(crate) fn as_whole(&self) -> Option<&Bytes> {
        match &self.0 {
            BodyContent::Whole(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A body that is produced while it is sent.
    pub(crate) fn produced(produced: ProducedBody) -> Self {
        Self(BodyContent::Produced(produced))
    }

    pub(crate) fn chunks(chunks: impl IntoIterator<Item = BodyChunk>) -> Self {
        let chunks: VecDeque<BodyChunk> = chunks.into_iter().collect();
        let len = chunks.iter().map(BodyChunk::len).sum();
        Self(BodyContent::Chunks(chunks, len))
    }

    /// The length, if it is known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.0 {
            BodyContent::Empty => Some(0),
            BodyContent::Whole(bytes) => Some(bytes.len() as u64),
            BodyContent::Chunks(_, left) => Some(*left),
            BodyContent::Produced(_) => None,
        }
    }
}

impl BodyChunk {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Reader(reader) => reader.remaining_len(),
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
        match &mut self.0 {
            BodyContent::Empty => Poll::Ready(None),
            BodyContent::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::empty();
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            BodyContent::Chunks(chunks, left) => {
                let bytes = match chunks.front_mut() {
                    None => return Poll::Ready(None),
                    Some(BodyChunk::Bytes(bytes)) => std::mem::take(bytes),
                    Some(BodyChunk::Reader(reader)) => ready!(reader.poll_next(cx))?,
                };
                *left = left.saturating_sub(bytes.len() as u64);
                if chunks.front().is_some_and(|chunk| chunk.len() == 0) {
                    chunks.pop_front();
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            BodyContent::Produced(produced) => produced
                .poll_next(cx)
                .map(|chunk| Some(chunk?.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Empty => true,
            BodyContent::Whole(bytes) => bytes.is_empty(),
            BodyContent::Chunks(chunks, _) => chunks.is_empty(),
            BodyContent::Produced(produced) => produced.is_finished(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// An iterator over chunks; an error ends the response early.
pub(crate) type BodyProducer = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// A running step; it returns the producer with its chunk.
type BodyProducerStep =
    Pin<Box<dyn Future<Output = (BodyProducer, Option<io::Result<Bytes>>)> + Send>>;

/// A body that is produced while it is sent.
///
/// A response body that is produced while it is sent: listings and archives.
///
/// The producer is an iterator whose steps may wait for a disk. Each step runs on a blocking
/// thread; between two steps no thread is held, however slow the reader is. One chunk is produced
/// ahead of the one that is being sent.
pub(crate) struct ProducedBody {
    disk: DiskThreads,
    /// The running step; `None` at the end.
    step: Option<BodyProducerStep>,
}

impl fmt::Debug for ProducedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}

impl ProducedBody {
    /// Starts the first step.
    pub(crate) fn new(producer: BodyProducer, disk: DiskThreads) -> Self {
        let step = Some(run_step(producer, &disk));
        Self { disk, step }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(step) = &mut self.step else {
            return Poll::Ready(None);
        };
        let (producer, chunk) = ready!(step.as_mut().poll(cx));
        self.step = matches!(chunk, Some(Ok(_))).then(|| run_step(producer, &self.disk));
        Poll::Ready(chunk)
    }

    /// Whether all chunks have been returned.
    pub(crate) fn is_finished(&self) -> bool {
        self.step.is_none()
    }
}

fn run_step(mut producer: BodyProducer, disk: &DiskThreads) -> BodyProducerStep {
    Box::pin(disk.run(move || {
        let chunk = producer.next();
        (producer, chunk)
    }))
}

//! A body that is made while it is sent: listings and archives.
//!
//! Its maker is an iterator whose steps may wait for a disk. Each step is a visit to a thread that may; between two of them no thread is held, however
//! slow the reader is. One piece is made ahead of the one that is being sent.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::store::DiskThreads;

/// What makes it: pieces, or an error that ends it short.
pub(crate) type BodyProducer = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// A step that is under way; the maker comes back with its piece.
type BodyProducerStep =
    Pin<Box<dyn Future<Output = (BodyProducer, Option<io::Result<Bytes>>)> + Send>>;

/// The body.
pub(crate) struct ProducedBody {
    /// Where steps may wait.
    disk: DiskThreads,
    /// `None` at the end.
    step: Option<BodyProducerStep>,
}

impl fmt::Debug for ProducedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}

impl ProducedBody {
    /// Begins with the first step.
    pub(crate) fn new(maker: BodyProducer, disk: DiskThreads) -> Self {
        let step = Some(step(maker, &disk));
        Self { disk, step }
    }

    /// The next piece.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(under_way) = &mut self.step else {
            return Poll::Ready(None);
        };
        let (maker, piece) = ready!(under_way.as_mut().poll(cx));
        self.step = matches!(piece, Some(Ok(_))).then(|| step(maker, &self.disk));
        Poll::Ready(piece)
    }

    /// Whether nothing more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.step.is_none()
    }
}

fn step(mut maker: BodyProducer, disk: &DiskThreads) -> BodyProducerStep {
    Box::pin(disk.run(move || {
        let piece = maker.next();
        (maker, piece)
    }))
}

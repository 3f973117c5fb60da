//! A response body that is produced while it is sent: listings and archives.
//!
//! The producer is an iterator whose steps may wait for a disk. Each step runs on a blocking
//! thread; between two steps no thread is held, however slow the reader is. One chunk is produced
//! ahead of the one that is being sent.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::store::DiskThreads;

/// An iterator over chunks; an error ends the response early.
pub(crate) type BodyProducer = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// A running step; it returns the producer with its chunk.
type BodyProducerStep =
    Pin<Box<dyn Future<Output = (BodyProducer, Option<io::Result<Bytes>>)> + Send>>;

/// A body that is produced while it is sent.
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

    /// The next chunk.
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

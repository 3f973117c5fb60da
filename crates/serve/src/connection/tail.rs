//! The end of an answer on HTTP/2: what hyper has taken of it and its peer has not.
//!
//! hyper keeps what its peer has no room for, up to a bound for each answer. A small one is taken whole although not a byte of it can leave. So
//! each piece remembers which answer it is of, and the exchange is over when the last of them has been written, or thrown away with
//! its stream. Until then its peer is a reader that is waited for, and not one that is idle.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::exchange::FinishedExchange;
use super::line::ConnectionState;

/// What the pieces of one answer share.
#[derive(Debug)]
pub(super) struct UnflushedResponse {
    line: Arc<ConnectionState>,
    /// There once nothing more will be given.
    finished: Mutex<Option<FinishedExchange>>,
}

/// A piece of an answer.
struct UnflushedChunk {
    bytes: Bytes,
    /// What to tell when it is gone.
    _tail: Arc<UnflushedResponse>,
}

impl AsRef<[u8]> for UnflushedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl UnflushedResponse {
    /// Of an answer on this line.
    pub(super) fn new(line: &Arc<ConnectionState>) -> Arc<Self> {
        Arc::new(Self {
            line: Arc::clone(line),
            finished: Mutex::default(),
        })
    }

    /// The same bytes, watched until they are gone.
    pub(super) fn watch(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(UnflushedChunk {
            bytes,
            _tail: Arc::clone(self),
        })
    }

    /// Nothing more will be given.
    pub(super) fn finish(&self, finished: FinishedExchange) {
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(finished);
    }
}

impl Drop for UnflushedResponse {
    fn drop(&mut self) {
        let finished = self
            .finished
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(finished) = finished.take() {
            self.line.finish(finished);
        }
    }
}

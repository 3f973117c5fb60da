//! A request's body as it comes in, with its peer's pace watched, and with an eye on whether anybody read it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body as _, Incoming};

use crate::connection::ConnectionState;

/// Why a body is not whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestBodyError {
    /// What HTTP says.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// It ended as if it were whole, and is not: an HTTP/2 stream may be reset without an error.
    #[error("the body ended before its end")]
    Short,
    /// It was waited for long enough.
    #[error("the body came too slowly")]
    Slow,
}

/// The body of one request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    body: Incoming,
    line: Arc<ConnectionState>,
    /// Whether it was asked for: until then its peer may be waiting for a word (100-continue).
    has_begun: bool,
    /// Bytes that came.
    came: u64,
    /// Where they are counted for the log.
    counted: Option<Arc<AtomicU64>>,
    /// Bytes that were said to come.
    declared: Option<u64>,
}

impl RequestBody {
    /// A body that nobody has asked for yet.
    pub(crate) fn new(
        body: Incoming,
        line: &Arc<ConnectionState>,
        counted: Option<Arc<AtomicU64>>,
    ) -> Self {
        Self {
            declared: body.size_hint().exact(),
            body,
            line: Arc::clone(line),
            has_begun: false,
            came: 0,
            counted,
        }
    }

    /// Its bytes, where they are known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Whether what came, now that nothing more does, is all of it.
    fn is_whole(&self) -> bool {
        let is_ended = !self.line.is_multiplexed() || self.body.is_end_stream();
        is_ended && self.declared.is_none_or(|declared| declared == self.came)
    }

    /// Whether it is known that nothing more comes.
    pub(crate) fn is_end(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Stream for RequestBody {
    type Item = Result<Bytes, RequestBodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !this.has_begun {
            this.has_begun = true;
            let now = this.line.now();
            this.line.patience().body_started(now);
        }
        if this.line.is_tired() {
            return Poll::Ready(Some(Err(RequestBodyError::Slow)));
        }
        loop {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx)).transpose()?;
            if frame.is_none() || this.body.is_end_stream() {
                this.line.body_came();
            }
            let Some(frame) = frame else {
                return Poll::Ready((!this.is_whole()).then_some(Err(RequestBodyError::Short)));
            };
            // Trailers say nothing that is wanted.
            if let Ok(bytes) = frame.into_data() {
                this.came += bytes.len() as u64;
                if let Some(counted) = &this.counted {
                    counted.store(this.came, Ordering::Relaxed);
                }
                this.line.patience().body_received(bytes.len() as u64);
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            self.line.leaves_unread();
        }
        if self.has_begun {
            let now = self.line.now();
            self.line.patience().body_done(now);
            self.line.server.options.metrics.count_received(self.came);
        }
    }
}

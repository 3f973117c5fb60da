//! A request's body as it comes in, with its peer's pace watched, and with an eye on whether anybody read it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body as _, Incoming};

use crate::conn::Line;

/// The body of one request.
#[derive(Debug)]
pub(crate) struct Inbound {
    body: Incoming,
    line: Arc<Line>,
    /// Whether it was asked for: until then its peer may be waiting for a word (100-continue).
    has_begun: bool,
    /// Bytes that came.
    came: u64,
}

impl Inbound {
    /// A body that nobody has asked for yet.
    pub(crate) fn new(body: Incoming, line: &Arc<Line>) -> Self {
        Self {
            body,
            line: Arc::clone(line),
            has_begun: false,
            came: 0,
        }
    }

    /// Its bytes, where they are known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Whether it is known that nothing more comes.
    pub(crate) fn is_end(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Stream for Inbound {
    type Item = hyper::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !this.has_begun {
            this.has_begun = true;
            let now = this.line.now();
            this.line.patience().body_begun(now);
        }
        loop {
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            // Trailers say nothing that is wanted.
            if let Ok(bytes) = frame?.into_data() {
                this.came += bytes.len() as u64;
                this.line.patience().body_bytes(bytes.len() as u64);
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            self.line.leaves_unread();
        }
        if self.has_begun {
            let now = self.line.now();
            self.line.patience().body_done(now);
            self.line.server.options.metrics.received(self.came);
        }
    }
}

//! A request's body as it is received: feeds the timeouts, and notes whether it was read to its
//! end. Over HTTP/2 the rest of a body that is dropped unread is discarded.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use hyper::body::{Body as _, Incoming};

use crate::connection::ConnectionState;

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum RequestBodyError {
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The body ended without an error but too early: an HTTP/2 stream may be reset so.
    #[error("the body ended early")]
    Short,
    /// The body timed out.
    #[error("the body arrived too slowly")]
    Slow,
}

#[derive(Debug)]
pub struct IncomingBody {
    /// Present until this is dropped.
    body: Option<Incoming>,
    connection: Arc<ConnectionState>,
    is_http2: bool,
    /// Whether reading has begun: until then the client may be waiting for 100 Continue.
    is_started: bool,
    /// Bytes received.
    received: u64,
    /// Where received bytes are counted for the log.
    counter: Option<Arc<AtomicU64>>,
    /// The length that the head declares.
    expected_len: Option<u64>,
    /// The trailer fields, once they were received.
    trailers: Option<HeaderMap>,
}

impl IncomingBody {
    /// A body that nothing has read from yet.
    pub(crate) fn new(
        body: Incoming,
        connection: &Arc<ConnectionState>,
        is_http2: bool,
        counter: Option<Arc<AtomicU64>>,
    ) -> Self {
        Self {
            expected_len: body.size_hint().exact(),
            body: Some(body),
            connection: Arc::clone(connection),
            is_http2,
            is_started: false,
            received: 0,
            counter,
            trailers: None,
        }
    }

    /// The declared length that is left.
    pub(crate) fn len(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// Whether the received bytes are the whole body, now that it has ended.
    fn is_whole(&self) -> bool {
        let is_ended = !self.is_http2 || self.is_end_stream();
        is_ended
            && self
                .expected_len
                .is_none_or(|expected| expected == self.received)
    }

    /// The trailer fields, after the end of the body.
    pub(crate) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }
}

impl Stream for IncomingBody {
    type Item = Result<Bytes, RequestBodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !this.is_started {
            this.is_started = true;
            this.connection.timeouts.body_started();
        }
        if this.connection.timeouts.has_expired() {
            return Poll::Ready(Some(Err(RequestBodyError::Slow)));
        }
        loop {
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            let frame = ready!(Pin::new(body).poll_frame(cx)).transpose()?;
            if frame.is_none() || this.is_end_stream() {
                this.connection.requests.body_received();
            }
            let Some(frame) = frame else {
                return Poll::Ready((!this.is_whole()).then_some(Err(RequestBodyError::Short)));
            };
            let bytes = match frame.into_data() {
                Ok(bytes) => bytes,
                Err(frame) => {
                    this.trailers = frame.into_trailers().ok();
                    continue;
                }
            };
            this.received += bytes.len() as u64;
            if let Some(counter) = &this.counter {
                counter.store(this.received, Ordering::Relaxed);
            }
            this.connection.timeouts.body_received(bytes.len());
            return Poll::Ready(Some(Ok(bytes)));
        }
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if self.is_started {
            self.connection.timeouts.body_done();
            self.connection
                .server
                .options
                .metrics
                .count_received(self.received);
        }
        if self.is_http2
            && !self.is_end_stream()
            && let Some(body) = self.body.take()
        {
            self.connection.discard_body(body);
        }
    }
}

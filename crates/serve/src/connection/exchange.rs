//! One request and its response, from the end of the head to the last byte.

use std::io;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Response, StatusCode, Version, request};
use hyper::body::{Body as _, Frame, SizeHint};

use super::exchange_record::ExchangeRecord;
use super::state::ConnectionState;
use super::timeouts::TimeoutPause;
use crate::body::ServeBody;

/// The logged status of a request whose client left before the response: not one of HTTP's, but the
/// one that nginx made usual.
const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// A request that is being handled.
#[derive(Debug)]
pub(crate) struct HttpExchange {
    connection: Arc<ConnectionState>,
    is_http2: bool,
    /// Taken when the exchange ends.
    record: Option<ExchangeRecord>,
}

/// A response body, tracked until it is dropped.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: ServeBody,
    exchange: HttpExchange,
    body_bytes: u64,
    /// Whether hyper has taken the whole body.
    is_complete: bool,
    /// While the body has nothing to send, the client waits for the server.
    pause: Option<TimeoutPause>,
    /// On HTTP/2, what the chunks of this body share.
    flush: Option<Arc<Http2Flush>>,
}

impl HttpExchange {
    /// Begins an exchange when the head of its request is complete.
    pub(crate) fn begin(connection: &Arc<ConnectionState>, head: &request::Parts) -> Self {
        connection.timeouts.head_done();
        let sent_before = connection.responses.sent();
        let record = ExchangeRecord::new(head, &connection.server.options, sent_before);
        Self {
            connection: Arc::clone(connection),
            is_http2: head.version >= Version::HTTP_2,
            record: Some(record),
        }
    }

    /// Where bytes of the request body are to be counted, if the log needs them.
    pub(crate) fn received_counter(&self) -> Option<Arc<AtomicU64>> {
        self.record.as_ref()?.received_counter()
    }

    /// Sets the user that the request is authorized as.
    pub(crate) fn set_user(&mut self, user: Option<&Arc<str>>) {
        if let Some(record) = &mut self.record {
            record.set_user(user);
        }
    }

    /// Completes a response for hyper.
    pub(crate) fn respond(mut self, mut response: Response<ServeBody>) -> Response<TrackedBody> {
        if self.connection.requests.is_last() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if let Some(record) = &mut self.record {
            record.status = response.status();
            if *record.method() == Method::HEAD {
                strip_body(&mut response);
            }
        }
        self.connection.timeouts.response_started();
        // An empty body is complete at once: hyper does not poll it.
        let is_complete = response.body().is_end_stream();
        response.map(|body| TrackedBody {
            body,
            exchange: self,
            body_bytes: 0,
            is_complete,
            pause: None,
            flush: None,
        })
    }

    /// The status to log for a request that got no response.
    fn status_without_response(&self) -> StatusCode {
        if self.connection.server.is_aborting() {
            StatusCode::SERVICE_UNAVAILABLE
        } else if self.connection.timeouts.has_expired() {
            StatusCode::REQUEST_TIMEOUT
        } else {
            CLIENT_CLOSED_REQUEST
        }
    }
}

impl Drop for HttpExchange {
    /// The exchange got no response: the client left, or the server stopped waiting.
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            self.connection.timeouts.response_started();
            record.status = self.status_without_response();
            self.connection.record(&record, true);
        }
    }
}

/// Removes the body from the response to a HEAD request: over HTTP/2 hyper would send it.
fn strip_body(response: &mut Response<ServeBody>) {
    let body = std::mem::replace(response.body_mut(), ServeBody::empty());
    if let Some(len) = body.len().filter(|len| *len > 0) {
        response.headers_mut().insert(CONTENT_LENGTH, len.into());
    }
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Pending if this.pause.is_none() => {
                this.pause = Some(this.exchange.connection.timeouts.pause());
            }
            Poll::Pending => {}
            Poll::Ready(frame) => {
                this.pause = None;
                match frame {
                    Some(Ok(frame)) => {
                        this.body_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                        this.is_complete = this.body.is_end_stream();
                    }
                    Some(Err(_)) => {}
                    None => this.is_complete = true,
                }
            }
        }
        polled.map_ok(|frame| this.track_flush(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl TrackedBody {
    /// On HTTP/2, responses are not sent one after another, so each chunk reports its own flush.
    fn track_flush(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if !self.exchange.is_http2 {
            return frame;
        }
        let connection = &self.exchange.connection;
        let flush = self
            .flush
            .get_or_insert_with(|| Http2Flush::new(Arc::clone(connection)));
        frame.map_data(|bytes| flush.track(bytes))
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.pause = None;
        let Some(mut record) = self.exchange.record.take() else {
            return;
        };
        record.body_bytes = self.body_bytes;
        record.is_incomplete = !self.is_complete;
        let connection = &self.exchange.connection;
        match &self.flush {
            Some(flush) => flush.finish(record),
            None if self.exchange.is_http2 => connection.record(&record, false),
            None => connection.responses.push_unflushed(record),
        }
    }
}

/// What the chunks of one HTTP/2 response share.
///
/// hyper keeps bytes that the client's window has no room for, up to a bound for each response. It
/// takes a small response completely even if not a byte of it can be sent. So each chunk refers to
/// its response, and the exchange ends when the last chunk has been written, or dropped with its
/// stream. Until then the client is a reader that the server waits for, and not an idle one.
#[derive(Debug)]
struct Http2Flush {
    connection: Arc<ConnectionState>,
    /// Present once the service has no more chunks.
    record: Mutex<Option<ExchangeRecord>>,
}

/// A chunk of an HTTP/2 response.
struct Http2Chunk {
    bytes: Bytes,
    /// Ends the exchange when the last chunk is dropped.
    _flush: Arc<Http2Flush>,
}

impl AsRef<[u8]> for Http2Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Http2Flush {
    fn new(connection: Arc<ConnectionState>) -> Arc<Self> {
        Arc::new(Self {
            connection,
            record: Mutex::default(),
        })
    }

    /// The same bytes, tracked until they are dropped.
    fn track(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Http2Chunk {
            bytes,
            _flush: Arc::clone(self),
        })
    }

    /// Sets the record once there are no more chunks.
    fn finish(&self, record: ExchangeRecord) {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
}

impl Drop for Http2Flush {
    fn drop(&mut self) {
        let record = self
            .record
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = record.take() {
            self.connection.record(&record, false);
        }
    }
}

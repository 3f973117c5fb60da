//! One HTTP/2 stream: the request is sent, its head awaited, its body read.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};

use super::host::StreamLease;
use crate::error::Kind;
use crate::exchange_error::{ExchangeError, MAX_INTERIM_RESPONSES, http2_kind, is_refused_stream};
use crate::read_timeout::{ReadTimeout, SilenceLimit};

/// A body on its way. Dropped before its end, it resets the stream; the connection goes on.
#[derive(Debug)]
pub(crate) struct Http2Body {
    // Fields are dropped in this order: the stream ends before its lease is free for another request.
    incoming: RecvStream,
    lease: StreamLease,
    read_timeout: ReadTimeout,
    /// Bytes still to come, if the head gave a length.
    remaining: Option<u64>,
    /// The connection's activity count when the last chunk of this body was read.
    last_activity: u64,
    is_complete: bool,
}

impl Http2Body {
    /// Sends a request and waits for the response head. One timeout covers all of it. Long before that, new requests avoid a connection on
    /// which nothing else arrives either.
    pub(crate) async fn send(
        mut lease: StreamLease,
        request: Request<()>,
        mut read_timeout: ReadTimeout,
    ) -> Result<Response<Self>, ExchangeError> {
        let mut response = lease
            .connection()
            .send(request)
            .map_err(|error| send_error(error, &mut lease))?;
        let last_activity = lease.connection().activity();
        let mut has_stalled = false;
        let mut interim_responses = 0;
        let head = poll_fn(|cx| {
            // Those that nobody takes would be kept.
            while let Poll::Ready(Some(Ok(_))) = response.poll_informational(cx) {
                interim_responses += 1;
                if interim_responses > MAX_INTERIM_RESPONSES {
                    return Poll::Ready(Err(ExchangeError::HeadTooLong));
                }
            }
            if let Poll::Ready(head) = Pin::new(&mut response).poll(cx) {
                return Poll::Ready(head.map_err(|error| send_error(error, &mut lease)));
            }
            let stall = read_timeout.poll_elapsed(SilenceLimit::Stall, cx);
            if stall.is_ready() && !has_stalled {
                has_stalled = true;
                lease.record_stall(last_activity);
            }
            let elapsed = read_timeout.poll_elapsed(SilenceLimit::Response, cx);
            elapsed.map(|()| {
                lease.record_stall(last_activity);
                Err(ExchangeError::NoResponse)
            })
        })
        .await?;
        read_timeout.reset();
        Ok(Self::new(head, lease, read_timeout))
    }

    fn new(
        response: Response<RecvStream>,
        lease: StreamLease,
        read_timeout: ReadTimeout,
    ) -> Response<Self> {
        let (head, incoming) = response.into_parts();
        let remaining = if incoming.is_end_stream() {
            Some(0)
        } else {
            content_length(&head.headers)
        };
        let body = Self {
            last_activity: lease.connection().record_activity(),
            incoming,
            lease,
            read_timeout,
            remaining,
            is_complete: false,
        };
        Response::from_parts(head, body)
    }

    /// The next chunk, or [`ExchangeError::Stalled`] after a silence. Chunks of other streams do not end a silence of this one.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        if let Poll::Ready(chunk) = self.poll_data(cx) {
            return Poll::Ready(chunk);
        }
        std::task::ready!(self.read_timeout.poll_silence(SilenceLimit::Stall, 0, cx));
        self.lease.record_stall(self.last_activity);
        Poll::Ready(Err(ExchangeError::Stalled))
    }

    /// The next chunk of data, without a timeout. Trailers are skipped. h2 reports a body whose length differs from what its head
    /// said as an error. A stream that was reset is an error too, also with NO_ERROR: the peer says that the body is not whole.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        loop {
            match std::task::ready!(self.incoming.poll_data(cx)) {
                None => {
                    self.is_complete = true;
                    return Poll::Ready(Ok(None));
                }
                Some(Err(error)) => return Poll::Ready(Err(ExchangeError::Http2(error))),
                Some(Ok(data)) => {
                    // The caller may keep the chunk, but the next one may come. This fails for a stream that has ended.
                    let _ = self.incoming.flow_control().release_capacity(data.len());
                    if data.is_empty() {
                        continue;
                    }
                    self.read_timeout.reset();
                    self.last_activity = self.lease.connection().record_activity();
                    self.remaining = self
                        .remaining
                        .map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Ok(Some(data)));
                }
            }
        }
    }

    /// Bytes still to come, if the length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        if self.is_complete {
            Some(0)
        } else {
            self.remaining
        }
    }
}

/// Why a request got no response head.
fn send_error(error: h2::Error, lease: &mut StreamLease) -> ExchangeError {
    if is_refused_stream(&error) {
        lease.record_refusal();
    }
    let is_refused = lease.connection().socket_state.is_certificate_refused();
    if is_refused && http2_kind(&error) == Kind::Closed {
        ExchangeError::CertificateRefused(error)
    } else {
        ExchangeError::Http2(error)
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

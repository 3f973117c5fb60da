//! A request on a shared connection: its head awaited, its body on its way.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};

use super::host::StreamLease;
use crate::exchange_error::ExchangeError;
use crate::read_timeout::ReadTimeout;

/// A body on its way. Dropped before its end, it tells the peer to send no more of it; the connection goes on.
#[derive(Debug)]
pub(crate) struct Http2Body {
    // The order matters: what is dropped first frees what the slot then gives to another.
    incoming: RecvStream,
    lease: StreamLease,
    read_timeout: ReadTimeout,
    /// Bytes still to come, if the head told.
    remaining: Option<u64>,
    /// Heads and pieces that had come over the whole connection when the last of this was read.
    activity_seen: u64,
    /// Whether the end was seen.
    is_complete: bool,
}

impl Http2Body {
    /// Sends a request and waits for its head; one limit for the whole of it.
    pub(crate) async fn send(
        slot: StreamLease,
        request: Request<()>,
        mut stall: ReadTimeout,
    ) -> Result<Response<Self>, (ExchangeError, StreamLease)> {
        let mut answer = match slot.connection().send(request) {
            Ok(answer) => answer,
            Err(error) => return Err((ExchangeError::Http2(error), slot)),
        };
        stall.start();
        let heard = slot.connection().activity();
        let head = poll_fn(|cx| match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(head) => Poll::Ready(head.map_err(ExchangeError::Http2)),
            Poll::Pending => stall.poll_elapsed(cx).map(|()| Err(ExchangeError::Stalled)),
        });
        match head.await {
            Ok(head) => {
                stall.reset();
                Ok(Self::new(head, slot, stall))
            }
            Err(broke) => {
                if matches!(broke, ExchangeError::Stalled) {
                    slot.record_stall(heard);
                }
                Err((broke, slot))
            }
        }
    }

    fn new(answer: Response<RecvStream>, slot: StreamLease, stall: ReadTimeout) -> Response<Self> {
        let (head, incoming) = answer.into_parts();
        let remaining = if incoming.is_end_stream() {
            Some(0)
        } else {
            content_length(&head.headers)
        };
        let body = Self {
            activity_seen: slot.connection().record_activity(),
            incoming,
            lease: slot,
            read_timeout: stall,
            remaining,
            is_complete: false,
        };
        Response::from_parts(head, body)
    }

    /// How many requests the peer takes at once, over all connections that there may be.
    pub(crate) fn max_streams(&self) -> usize {
        self.lease.max_streams()
    }

    /// The next piece; silence comes to an end. What other bodies of the connection bring is no sign of life of this one.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        if let Poll::Ready(piece) = self.try_poll_chunk(cx) {
            return Poll::Ready(piece);
        }
        std::task::ready!(self.read_timeout.poll_silence(0, cx));
        self.lease.record_stall(self.activity_seen);
        Poll::Ready(Err(ExchangeError::Stalled))
    }

    /// The next piece of data; trailers are passed over. A body whose length is not what its head said is an error, which h2
    /// sees to; so is one that was reset for no reason at all, which is how a peer says that it is not whole.
    pub(crate) fn try_poll_chunk(
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
                    // Whoever holds the piece keeps it alive, but the next may come. That fails for a stream that is no more.
                    let _ = self.incoming.flow_control().release_capacity(data.len());
                    if data.is_empty() {
                        continue;
                    }
                    self.read_timeout.reset();
                    self.activity_seen = self.lease.connection().record_activity();
                    self.remaining = self
                        .remaining
                        .map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Ok(Some(data)));
                }
            }
        }
    }

    /// Bytes that are still to come, if that was told.
    pub(crate) fn remaining(&self) -> Option<u64> {
        if self.is_complete {
            Some(0)
        } else {
            self.remaining
        }
    }
}

/// What the head says of the body's length.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

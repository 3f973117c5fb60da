//! A body on its way: over a connection that is its own, or one that it shares.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use crate::connection::Http1Connection;
use crate::exchange_error::ExchangeError;
use crate::http2;
use crate::pool::ConnectionPool;
use crate::route::RouteKey;

/// A body on its way.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Over HTTP/1.1. Dropped, it closes its connection.
    Http1(Http1Body),
    /// Over HTTP/2. Dropped, it tells the peer to send no more of it.
    Http2(http2::Http2Body),
}

/// A body on its way over a connection that is its own.
#[derive(Debug)]
pub(crate) struct Http1Body {
    pub(crate) incoming: Incoming,
    pub(crate) connection: Http1Connection,
    /// Where the connection leads.
    pub(crate) route: Arc<RouteKey>,
    /// Where it rests afterwards.
    pub(crate) pool: Arc<ConnectionPool>,
    /// Whether the end was seen.
    pub(crate) is_complete: bool,
}

impl ResponseBody {
    /// The next piece; silence comes to an end.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Http1(body) => body.poll_chunk(cx),
            Self::Http2(body) => body.poll_chunk(cx),
        }
    }

    /// The next piece, if it is there.
    pub(crate) fn try_poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Http1(body) => body.try_poll_chunk(cx),
            Self::Http2(body) => body.try_poll_chunk(cx),
        }
    }

    /// Bytes that are still to come, if that was told.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.incoming.size_hint().exact(),
            Self::Http2(body) => body.remaining(),
        }
    }

    /// Moves the low-water mark. A shared connection has none: what is little for one body may be all of another.
    pub(crate) fn set_low_water(&self, bytes: u32) {
        if let Self::Http1(body) = self {
            body.connection.socket_state.set_low_water(bytes);
        }
    }

    pub(crate) fn low_water(&self) -> u32 {
        match self {
            Self::Http1(body) => body.connection.socket_state.low_water(),
            Self::Http2(_) => 1,
        }
    }

    /// Lets a connection of its own rest, if the end was seen; else it is closed.
    pub(crate) fn recycle(self) {
        if let Self::Http1(body) = self {
            body.recycle();
        }
    }
}

impl Http1Body {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self.try_poll_chunk(cx) {
            Poll::Ready(piece) => {
                self.connection.read_timeout.reset();
                Poll::Ready(piece)
            }
            Poll::Pending => {
                let came = self.connection.socket_state.bytes_received();
                let silence = self.connection.read_timeout.poll_silence(came, cx);
                silence.map(|()| Err(ExchangeError::Stalled))
            }
        }
    }

    /// The next piece of data; trailers are passed over.
    fn try_poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        loop {
            match std::task::ready!(self.connection.poll_frame(&mut self.incoming, cx)) {
                None => {
                    self.is_complete = true;
                    return Poll::Ready(Ok(None));
                }
                Some(Err(error)) => return Poll::Ready(Err(ExchangeError::Http1(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
                    _ => {}
                },
            }
        }
    }

    fn recycle(self) {
        drop(self.incoming);
        self.connection.socket_state.set_low_water(1);
        if self.is_complete {
            self.pool.put(self.route, self.connection);
        }
    }
}

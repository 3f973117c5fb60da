//! A body on its way: over a connection that is its own, or one that it shares.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use crate::broke::ExchangeError;
use crate::connection::Http1Connection;
use crate::multiplexed;
use crate::pool::ConnectionPool;
use crate::route::RouteKey;

/// A body on its way.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Over HTTP/1.1. Dropped, it closes its connection.
    Own(Http1Body),
    /// Over HTTP/2. Dropped, it tells the peer to send no more of it.
    Shared(multiplexed::Http2Body),
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
    pub(crate) ended: bool,
}

impl ResponseBody {
    /// The next piece; silence comes to an end.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Own(body) => body.poll_piece(cx),
            Self::Shared(body) => body.poll_piece(cx),
        }
    }

    /// The next piece, if it is there.
    pub(crate) fn poll_now(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Own(body) => body.poll_now(cx),
            Self::Shared(body) => body.poll_now(cx),
        }
    }

    /// Bytes that are still to come, if that was told.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self {
            Self::Own(body) => body.incoming.size_hint().exact(),
            Self::Shared(body) => body.remaining(),
        }
    }

    /// Moves the low-water mark. A shared connection has none: what is little for one body may be all of another.
    pub(crate) fn set_low_water(&self, bytes: u32) {
        if let Self::Own(body) = self {
            body.connection.gauge.set_low_water(bytes);
        }
    }

    pub(crate) fn low_water(&self) -> u32 {
        match self {
            Self::Own(body) => body.connection.gauge.low_water(),
            Self::Shared(_) => 1,
        }
    }

    /// Lets a connection of its own rest, if the end was seen; else it is closed.
    pub(crate) fn recycle(self) {
        if let Self::Own(body) = self {
            body.recycle();
        }
    }
}

impl Http1Body {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self.poll_now(cx) {
            Poll::Ready(piece) => {
                self.connection.stall.rest();
                Poll::Ready(piece)
            }
            Poll::Pending => {
                let came = self.connection.gauge.came();
                let silence = self.connection.stall.poll_silence(came, cx);
                silence.map(|()| Err(ExchangeError::Stalled))
            }
        }
    }

    /// The next piece of data; trailers are passed over.
    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        loop {
            match std::task::ready!(self.connection.poll_frame(&mut self.incoming, cx)) {
                None => {
                    self.ended = true;
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
        self.connection.gauge.set_low_water(1);
        if self.ended {
            self.pool.give(self.route, self.connection);
        }
    }
}

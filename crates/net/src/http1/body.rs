//! The body of an HTTP/1.1 response. It owns its connection until it ends.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use super::connection::Http1Connection;
use super::pool::ConnectionPool;
use crate::exchange_error::ExchangeError;
use crate::request::RouteKey;

/// A body on its way. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(crate) struct Http1Body {
    pub(crate) incoming: Incoming,
    pub(crate) connection: Http1Connection,
    pub(crate) route: Arc<RouteKey>,
    /// Where the connection goes when the body was read to its end.
    pub(crate) pool: Arc<ConnectionPool>,
    pub(crate) is_complete: bool,
}

impl Http1Body {
    /// The next chunk, or [`ExchangeError::Stalled`] after a silence.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        if let Poll::Ready(chunk) = self.poll_data(cx) {
            self.connection.read_timeout.reset();
            return Poll::Ready(chunk);
        }
        let received = self.connection.socket_state.bytes_received();
        let silence = self.connection.read_timeout.poll_silence(received, cx);
        silence.map(|()| Err(ExchangeError::Stalled))
    }

    /// The next chunk of data, without a timeout. Trailers are skipped.
    pub(crate) fn poll_data(
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

    /// Bytes still to come, if the length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    pub(crate) fn set_low_water(&self, bytes: u32) {
        self.connection.socket_state.set_low_water(bytes);
    }

    pub(crate) fn low_water(&self) -> u32 {
        self.connection.socket_state.low_water()
    }

    /// Returns the connection to the pool, if the body was read to its end; else closes it.
    pub(crate) fn recycle(self) {
        drop(self.incoming);
        self.connection.socket_state.set_low_water(1);
        if self.is_complete {
            self.pool.put(self.route, self.connection);
        }
    }
}

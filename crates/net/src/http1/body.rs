//! A body on its way over a connection that is its own.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use super::connection::Http1Connection;
use super::pool::ConnectionPool;
use crate::exchange_error::ExchangeError;
use crate::request::RouteKey;

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

impl Http1Body {
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
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
    pub(crate) fn try_poll_chunk(
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

    /// Bytes that are still to come, if that was told.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    pub(crate) fn recycle(self) {
        drop(self.incoming);
        self.connection.socket_state.set_low_water(1);
        if self.is_complete {
            self.pool.put(self.route, self.connection);
        }
    }
}

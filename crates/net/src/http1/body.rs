//! The body of an HTTP/1.1 response. It owns its connection until it ends.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use haul_plan::{BodyFraming, FramingError};
use hyper::body::{Body as _, Incoming};

use super::connection::Http1Connection;
use super::pool::ConnectionPool;
use crate::exchange_error::ExchangeError;
use crate::request::RouteKey;

/// A body on its way. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(crate) struct Http1Body {
    pub(crate) incoming: Incoming,
    /// How the body ends; a length in it is that of the bytes still to come.
    pub(crate) framing: BodyFraming,
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
            // The server may leave the connection open after such a body, which hyper would wait for.
            if self.framing == BodyFraming::Identity(Some(0)) {
                return Poll::Ready(Ok(None));
            }
            match std::task::ready!(self.connection.poll_frame(&mut self.incoming, cx)) {
                None if matches!(self.framing, BodyFraming::Chunked(Some(1..))) => {
                    return Poll::Ready(Err(FramingError::LengthMismatch.into()));
                }
                None => {
                    self.is_complete = true;
                    return Poll::Ready(Ok(None));
                }
                Some(Err(error)) => return Poll::Ready(Err(ExchangeError::Http1(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        return Poll::Ready(self.count(data).map(Some));
                    }
                    _ => {}
                },
            }
        }
    }

    /// Counts bytes against the length that the head announced beside a Transfer-Encoding, which hyper ignores.
    fn count(&mut self, mut data: Bytes) -> Result<Bytes, ExchangeError> {
        let received = data.len() as u64;
        match &mut self.framing {
            BodyFraming::Chunked(Some(remaining)) => {
                *remaining = remaining
                    .checked_sub(received)
                    .ok_or(FramingError::LengthMismatch)?;
            }
            BodyFraming::Identity(Some(remaining)) => {
                data.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= data.len() as u64;
            }
            BodyFraming::NoTransferCoding
            | BodyFraming::Identity(None)
            | BodyFraming::Chunked(None) => {}
        }
        Ok(data)
    }

    /// Bytes still to come, if the length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self.framing {
            BodyFraming::Identity(remaining) => remaining,
            _ => self.incoming.size_hint().exact(),
        }
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

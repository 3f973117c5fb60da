//! The body of an HTTP/1.1 response. It owns its connection until it ends.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use haul_plan::{BodyFraming, ChunkedDecoder, ChunkedPart, FramingError};

use super::connection::Http1Connection;
use super::error::Http1Error;
use super::pool::ConnectionPool;
use crate::exchange_error::ExchangeError;
use crate::read_timeout::SilenceLimit;
use crate::request::RouteKey;

/// A body on its way. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(crate) struct Http1Body {
    /// How the body ends; a length in it is that of the bytes still to come.
    framing: BodyFraming,
    chunks: ChunkedDecoder,
    connection: Box<Http1Connection>,
    route: Arc<RouteKey>,
    /// Where the connection goes when the body was read to its end.
    pool: Arc<ConnectionPool>,
    is_complete: bool,
}

impl Http1Body {
    pub(crate) fn new(
        framing: BodyFraming,
        connection: Box<Http1Connection>,
        route: Arc<RouteKey>,
        pool: Arc<ConnectionPool>,
    ) -> Self {
        Self {
            framing,
            chunks: ChunkedDecoder::default(),
            connection,
            route,
            pool,
            is_complete: false,
        }
    }

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
        let read_timeout = &mut self.connection.read_timeout;
        let silence = read_timeout.poll_silence(SilenceLimit::Stall, received, cx);
        silence.map(|()| Err(ExchangeError::Stalled))
    }

    /// The next chunk of data, without a timeout. Trailers are skipped.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        loop {
            let data = self.take_received()?;
            if data.is_some() || self.is_complete {
                return Poll::Ready(Ok(data));
            }
            let count = std::task::ready!(self.connection.poll_fill(cx));
            if count.map_err(ExchangeError::Http1)? > 0 {
                continue;
            }
            if self.framing != BodyFraming::UntilClose(None) {
                return Poll::Ready(Err(ExchangeError::Http1(Http1Error::ClosedInBody)));
            }
            self.is_complete = true;
        }
    }

    /// Data that were received already. Notices the end of the body.
    fn take_received(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        let received = &mut self.connection.received.bytes;
        let length = match &mut self.framing {
            BodyFraming::Length(left) | BodyFraming::UntilClose(Some(left)) => {
                let length =
                    usize::try_from(*left).map_or(received.len(), |n| n.min(received.len()));
                *left -= length as u64;
                self.is_complete = *left == 0;
                length
            }
            BodyFraming::UntilClose(None) => received.len(),
            BodyFraming::Chunked(_) if self.is_complete => 0,
            BodyFraming::Chunked(announced) => {
                let (framing, part) = match self.chunks.read_framing(received) {
                    Ok(found) => found,
                    Err(error) => return Err(ExchangeError::Http1(error.into())),
                };
                received.advance(framing);
                let length = match part {
                    ChunkedPart::Data(length) => length,
                    ChunkedPart::NeedsMore | ChunkedPart::End => 0,
                };
                let is_end = part == ChunkedPart::End;
                if let Some(left) = announced {
                    let rest = left.checked_sub(length as u64);
                    *left = rest.ok_or(FramingError::LengthMismatch)?;
                    if is_end && *left > 0 {
                        return Err(FramingError::LengthMismatch.into());
                    }
                }
                self.is_complete = is_end;
                length
            }
        };
        Ok((length > 0).then(|| received.split_to(length).freeze()))
    }

    /// Bytes still to come, if the length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self.framing {
            BodyFraming::Length(left) => Some(left),
            BodyFraming::UntilClose(left) => left,
            BodyFraming::Chunked(_) => None,
        }
    }

    pub(crate) fn set_low_water(&self, bytes: u32) {
        self.connection.socket_state.set_low_water(bytes);
    }

    pub(crate) fn low_water(&self) -> u32 {
        self.connection.socket_state.low_water()
    }

    /// Returns the connection to the pool, if the body was read to its end; else closes it.
    pub(crate) fn recycle(mut self) {
        self.connection.socket_state.set_low_water(1);
        if self.is_complete {
            self.connection.release_buffer();
            self.pool.put(self.route, self.connection);
        }
    }
}

//! An answer whose body is read piece by piece, in the caller's task.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;
use url::Url;

use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::http1::Http1Body;
use crate::http2::Http2Body;

/// What is read and dropped of a body nobody wants, so that its connection can be used again, in bytes. Beyond this a new
/// connection is cheaper.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// How long that may take: about a journey there and back. A peer that drips would otherwise hold up whoever waits to go
/// elsewhere.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the steps of a request took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTimings {
    /// Looking up the name; zero on a connection used before.
    pub dns: Duration,
    /// Until TCP, and a proxy, were ready.
    pub connect: Duration,
    /// TLS with the origin.
    pub tls: Duration,
    /// From sending the request to the answer's head.
    pub first_byte: Duration,
    /// Whether the connection had been used before.
    pub reused: bool,
}

/// An answer: its head, and the body on its way. Dropped, it closes its connection, or leaves one that it shares.
#[derive(Debug)]
pub struct FetchResponse {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// Where it came from, after redirects; without credentials.
    pub url: Url,
    /// Whether redirects were followed.
    pub redirected: bool,
    /// Whether the request carried credentials for the origin.
    pub authorized: bool,
    /// The TCP peer, for a new connection.
    pub peer: Option<SocketAddr>,
    /// How long the steps took.
    pub timings: RequestTimings,
    /// How many requests the peer takes at once over the connections that requests share, where there is one by now: HTTP/2. As far as
    /// it has told.
    pub max_streams: Option<usize>,
    pub(crate) body: ResponseBody,
}

impl FetchResponse {
    /// The next piece of the body; `None` at its proper end. Cancel safe.
    ///
    /// # Errors
    /// [`Kind::Stall`] when the peer was silent for the stall timeout (time that the caller spends elsewhere does not
    /// count), [`Kind::Closed`] when the body ended too early, [`Kind::Protocol`] when it is not framed properly.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let body = &mut self.body;
        let piece = poll_fn(|cx| body.poll_chunk(cx)).await;
        self.to_public_error(piece)
    }

    /// The next piece if it is there already.
    pub fn try_chunk(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        match self
            .body
            .try_poll_chunk(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(piece) => Some(self.to_public_error(piece)),
            Poll::Pending => None,
        }
    }

    /// Bytes of the body that are still to be read; `None` when nobody told.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// Where the low-water mark is moved to: that many bytes are worth being woken for. 1 is every byte, and the
    /// state of a new answer; a shared connection stays there.
    pub fn set_low_water(&mut self, bytes: u32) {
        self.body.set_low_water(bytes);
    }

    /// Where the low-water mark is.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        self.body.low_water()
    }

    /// Lets the connection be used again, if the body was read to its end; else closes it.
    pub fn recycle(self) {
        self.body.recycle();
    }

    /// Drops the body, and keeps the connection if little is left of it and that comes soon. Takes a tenth of a second at
    /// most.
    pub async fn discard(mut self) {
        let rest = async {
            let mut left = MAX_DISCARDED_BYTES;
            while let Ok(Some(piece)) = self.chunk().await {
                match left.checked_sub(piece.len()) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        };
        // Whether the end was seen decides what becomes of the connection, however this came to a stop.
        let _ = timeout(DISCARD_TIMEOUT, rest).await;
        self.recycle();
    }

    /// The error of a body that ended as its framing says, and yet before what its head promised: only the reader knows.
    #[must_use]
    pub fn truncated_error(&self) -> Error {
        Error::new(Kind::Closed, &self.url)
    }

    fn to_public_error(
        &self,
        piece: Result<Option<Bytes>, ExchangeError>,
    ) -> Result<Option<Bytes>, Error> {
        piece.map_err(|broke| broke.into_error(&self.url))
    }
}

/// A body on its way.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Over HTTP/1.1. Dropped, it closes its connection.
    Http1(Http1Body),
    /// Over HTTP/2. Dropped, it tells the peer to send no more of it.
    Http2(Http2Body),
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
            Self::Http1(body) => body.remaining(),
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

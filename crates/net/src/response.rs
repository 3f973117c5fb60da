//! A response whose body is read chunk by chunk, in the caller's task.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut, Range};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use haul_plan::ExpectedDigest;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::timeout;
use url::Url;

use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::http1::Http1Body;
use crate::http2::Http2Body;
use crate::request_secrets::RequestSecrets;

/// How much of an unwanted body is read and dropped so that its connection can be used again, in bytes. Beyond this a new
/// connection is cheaper.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// How long that may take: about one round trip. A peer that sends slowly would otherwise hold up a caller that wants to go
/// elsewhere.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the steps of a request took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTimings {
    /// Looking up the name; zero on a connection that was used before.
    pub dns: Duration,
    /// Until TCP, and a proxy, were ready.
    pub connect: Duration,
    /// The TLS handshake with the origin.
    pub tls: Duration,
    /// From sending the request to the response head.
    pub first_byte: Duration,
    /// Whether the connection had been used before.
    pub reused: bool,
}

impl RequestTimings {
    /// How long a round trip takes at most: the time to connect, or to respond where that was sooner or nothing was connected.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        let connect = Some(self.connect).filter(|connect| !self.reused && !connect.is_zero());
        connect.map_or(self.first_byte, |connect| connect.min(self.first_byte))
    }
}

/// A response: its head, and the body on its way. Dropped before the end of the body, it closes its HTTP/1.1 connection, or
/// resets its HTTP/2 stream.
///
/// It has the fields of [`ResponseState`]. They are boxed, since a response passes through a dozen futures before its body is read.
#[derive(Debug)]
pub struct FetchResponse(Box<ResponseState>);

/// The fields of a [`FetchResponse`].
#[derive(Debug)]
pub struct ResponseState {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where the response came from, after redirects; without credentials.
    pub url: Url,
    /// The bytes that the request asked for.
    pub requested_range: Option<Range<u64>>,
    /// Whether redirects were followed.
    pub redirected: bool,
    /// The digests of the file that redirects named on the way.
    pub redirect_digests: Vec<ExpectedDigest>,
    /// Whether the request carried credentials for the origin.
    pub authorized: bool,
    /// The TCP peer; `None` for a connection that requests share and that was there before.
    pub peer: Option<SocketAddr>,
    /// How long the steps took.
    pub timings: RequestTimings,
    /// How many requests the peer takes at once over the host's HTTP/2 connections, as far as it has said; `None` where requests
    /// do not share connections.
    pub max_streams: Option<usize>,
    /// The values of the fields of all its requests that the peer may repeat and nobody may see.
    pub(crate) secret_fields: Vec<HeaderValue>,
    /// The URLs that redirected here.
    pub(crate) earlier_urls: Vec<Url>,
    pub(crate) body: FetchBody,
}

impl Deref for FetchResponse {
    type Target = ResponseState;

    fn deref(&self) -> &ResponseState {
        &self.0
    }
}

impl DerefMut for FetchResponse {
    fn deref_mut(&mut self) -> &mut ResponseState {
        &mut self.0
    }
}

impl From<ResponseState> for FetchResponse {
    fn from(state: ResponseState) -> Self {
        Self(Box::new(state))
    }
}

impl FetchResponse {
    /// The secrets that the peer got with the request. What an error repeats of the response must pass through them.
    #[must_use]
    pub fn request_secrets(&self) -> RequestSecrets {
        let urls = self.earlier_urls.iter().chain([&self.url]);
        RequestSecrets::new(urls, &self.secret_fields)
    }

    /// The next chunk of the body; `None` at its proper end. Cancel safe.
    ///
    /// # Errors
    /// [`Kind::Stall`] when the peer was silent for the stall timeout (time that the caller spends elsewhere does not
    /// count), [`Kind::Closed`] when the body ended too early, [`Kind::Protocol`] when it is malformed, and
    /// [`Kind::Framing`] when its chunks contradict its Content-Length.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let chunk = poll_fn(|cx| self.body.poll_chunk(cx)).await;
        chunk.map_err(|error| error.into_error(&self.url))
    }

    /// The next chunk if it has arrived already.
    pub fn try_chunk(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.body.poll_buffered_chunk(&mut cx) {
            Poll::Ready(chunk) => Some(chunk.map_err(|error| error.into_error(&self.url))),
            Poll::Pending => None,
        }
    }

    /// Bytes of the body that are still to be read; `None` where the length is unknown.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// Moves the low-water mark: the reader is woken when this many bytes have arrived. 1 is every byte, and the state of a
    /// new response; an HTTP/2 connection stays there.
    pub fn set_low_water(&mut self, bytes: u32) {
        self.body.set_low_water(bytes);
    }

    /// Where the low-water mark is.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        self.body.low_water()
    }

    /// Returns the connection to the pool, if the body was read to its end; else closes it.
    pub fn recycle(self) {
        self.0.body.recycle();
    }

    /// The beginning of the body, as far as it arrives soon. Takes a tenth of a second at most.
    pub async fn first_bytes(&mut self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = async {
            while bytes.len() < limit
                && let Ok(Some(chunk)) = self.chunk().await
            {
                bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
            }
        };
        // What came in time is enough.
        let _ = timeout(DISCARD_TIMEOUT, read).await;
        bytes
    }

    /// Looks at the beginning of the body, which stays in it: at least `wanted` bytes, if it has as many.
    ///
    /// # Errors
    /// As [`FetchResponse::chunk`].
    pub async fn peek(mut self, wanted: usize) -> Result<(Self, Bytes), Error> {
        let mut bytes = BytesMut::new();
        while bytes.len() < wanted
            && let Some(chunk) = self.chunk().await?
        {
            bytes.extend_from_slice(&chunk);
        }
        let bytes = bytes.freeze();
        Ok((self.unread(bytes.clone()), bytes))
    }

    /// Puts bytes back that were read: they come first.
    pub(crate) fn unread(self, bytes: impl Into<Bytes>) -> Self {
        let (state, bytes) = (*self.0, bytes.into());
        let body = if bytes.is_empty() {
            state.body
        } else {
            FetchBody::Unread(bytes, Box::new(state.body))
        };
        ResponseState { body, ..state }.into()
    }

    /// Drops the body, and keeps the connection if little is left of the body and arrives soon. Takes a tenth of a second at
    /// most.
    pub async fn discard(mut self) {
        let read_rest = async {
            let mut allowance = MAX_DISCARDED_BYTES;
            while let Ok(Some(chunk)) = self.chunk().await {
                match allowance.checked_sub(chunk.len()) {
                    Some(rest) => allowance = rest,
                    None => return,
                }
            }
        };
        // Whether the body was read to its end decides about the connection, however this stopped.
        let _ = timeout(DISCARD_TIMEOUT, read_rest).await;
        self.recycle();
    }

    /// The error of a body that ended properly and yet before what its head promised, which only the reader can tell.
    #[must_use]
    pub fn truncated_error(&self) -> Error {
        Error::new(Kind::Closed, &self.url)
    }
}

/// A body on its way.
#[derive(Debug)]
pub(crate) enum FetchBody {
    /// Dropped before its end, it closes its connection.
    Http1(Http1Body),
    /// Dropped before its end, it resets its stream.
    Http2(Http2Body),
    /// Bytes that were read to see what the response says, and what follows.
    Unread(Bytes, Box<Self>),
}

impl FetchBody {
    /// The next chunk, or [`ExchangeError::Stalled`] after a silence.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Http1(body) => body.poll_chunk(cx),
            Self::Http2(body) => body.poll_chunk(cx),
            Self::Unread(first, body) => {
                if first.is_empty() {
                    body.poll_chunk(cx)
                } else {
                    Poll::Ready(Ok(Some(std::mem::take(first))))
                }
            }
        }
    }

    /// The next chunk, without a timeout.
    fn poll_buffered_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        match self {
            Self::Http1(body) => body.poll_data(cx),
            Self::Http2(body) => body.poll_data(cx),
            Self::Unread(first, body) => {
                if first.is_empty() {
                    body.poll_buffered_chunk(cx)
                } else {
                    Poll::Ready(Ok(Some(std::mem::take(first))))
                }
            }
        }
    }

    fn remaining(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.remaining(),
            Self::Http2(body) => body.remaining(),
            Self::Unread(first, body) => {
                let rest = body.remaining()?;
                Some(rest + first.len() as u64)
            }
        }
    }

    /// An HTTP/2 connection has no mark: a few bytes for one stream may be all that another one waits for.
    fn set_low_water(&self, bytes: u32) {
        if let Self::Http1(body) = self {
            body.set_low_water(bytes);
        }
    }

    fn low_water(&self) -> u32 {
        match self {
            Self::Http1(body) => body.low_water(),
            Self::Http2(_) | Self::Unread(..) => 1,
        }
    }

    fn recycle(self) {
        match self {
            Self::Http1(body) => body.recycle(),
            Self::Http2(_) => {}
            Self::Unread(_, body) => body.recycle(),
        }
    }
}

//! An answer whose body is read piece by piece, in the caller's task.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use url::Url;

use crate::connection::Connection;
use crate::error::{Error, Kind, TlsProblem};
use crate::pool::{Pool, Route};
use crate::tls::refused_certificate;

/// What is read and dropped of a body nobody wants, so that its connection can be used again, in bytes. Beyond this a new
/// connection is cheaper.
const DISCARDED: usize = 64 * 1024;

/// How long that may take: about a journey there and back. A peer that drips would otherwise hold up whoever waits to go
/// elsewhere.
const DISCARDING: Duration = Duration::from_millis(100);

/// How long the steps of a request took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
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

/// An answer: its head, and the body on its way. Dropped, it closes its connection.
#[derive(Debug)]
pub struct Answer {
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
    pub timings: Timings,
    pub(crate) body: Body,
}

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) incoming: Incoming,
    pub(crate) connection: Connection,
    pub(crate) route: Route,
    pub(crate) pool: Arc<Pool>,
    pub(crate) stall: Stall,
    /// Whether the end was seen.
    pub(crate) ended: bool,
}

impl Answer {
    /// The next piece of the body; `None` at its proper end. Cancel safe.
    ///
    /// # Errors
    /// [`Kind::Stall`] when the peer was silent for the stall timeout (time that the caller spends elsewhere does not
    /// count), [`Kind::Closed`] when the body ended too early, [`Kind::Protocol`] when it is not framed properly.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let body = &mut self.body;
        let piece = poll_fn(|cx| body.poll_piece(cx)).await;
        self.outcome(piece)
    }

    /// The next piece if it is there already.
    pub fn chunk_now(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        match self.body.poll_now(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => Some(self.outcome(piece.map_err(Broke::Http))),
            Poll::Pending => None,
        }
    }

    /// Bytes of the body that are still to be read; `None` when nobody told.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.body.incoming.size_hint().exact()
    }

    /// Where the low-water mark is moved to: that many bytes are worth being woken for. 1 is every byte, and the
    /// state of a new answer.
    pub fn set_low_water(&mut self, bytes: u32) {
        self.body.connection.gauge.set_low_water(bytes);
    }

    /// Where the low-water mark is.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        self.body.connection.gauge.low_water()
    }

    /// Lets the connection be used again, if the body was read to its end; else closes it.
    pub fn recycle(self) {
        let Body {
            connection,
            route,
            pool,
            ended,
            incoming,
            ..
        } = self.body;
        drop(incoming);
        connection.gauge.set_low_water(1);
        if ended {
            pool.give(route, connection);
        }
    }

    /// Drops the body, and keeps the connection if little is left of it and that comes soon. Takes a tenth of a second at
    /// most.
    pub async fn discard(mut self) {
        let rest = async {
            let mut left = DISCARDED;
            while let Ok(Some(piece)) = self.chunk().await {
                match left.checked_sub(piece.len()) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        };
        // Whether the end was seen decides what becomes of the connection, however this came to a stop.
        let _ = timeout(DISCARDING, rest).await;
        self.recycle();
    }

    /// The error of a body that ended as its framing says, and yet before what its head promised: only the reader knows.
    #[must_use]
    pub fn cut_short(&self) -> Error {
        Error::new(Kind::Closed, &self.url)
    }

    fn outcome(&self, piece: Result<Option<Bytes>, Broke>) -> Result<Option<Bytes>, Error> {
        piece.map_err(|broke| match broke {
            Broke::Stalled => Error::new(Kind::Stall, &self.url),
            Broke::Http(error) => Error::new(http_kind(&error), &self.url).because(error),
        })
    }
}

/// Why a body stopped.
enum Broke {
    Stalled,
    Http(hyper::Error),
}

/// What an error of hyper's means.
pub(crate) fn http_kind(error: &hyper::Error) -> Kind {
    if error.is_parse() || is_misframed(error) {
        Kind::Protocol
    } else if refused_certificate(error) {
        Kind::Tls(TlsProblem::ClientCertificate)
    } else {
        Kind::Closed
    }
}

/// Whether chunks are none. Hyper says so by an I/O error of this kind, which no socket has.
fn is_misframed(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::InvalidInput)
}

impl Body {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broke>> {
        match self.poll_now(cx) {
            Poll::Ready(piece) => {
                self.stall.rested = true;
                Poll::Ready(piece.map_err(Broke::Http))
            }
            Poll::Pending => {
                let came = self.connection.gauge.came();
                self.stall.poll(came, cx).map(|()| Err(Broke::Stalled))
            }
        }
    }

    /// The next piece of data; trailers are passed over.
    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        loop {
            match std::task::ready!(self.connection.poll_frame(&mut self.incoming, cx)) {
                None => {
                    self.ended = true;
                    return Poll::Ready(Ok(None));
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
                    _ => {}
                },
            }
        }
    }
}

/// The time a peer may be silent. The timer is armed once and looked at only when it fires: moving it at every piece
/// would cost more than reading the piece.
#[derive(Debug)]
pub(crate) struct Stall {
    timeout: Duration,
    /// The moment from which the present silence counts.
    since: Instant,
    /// Whether something came since the last wait began.
    rested: bool,
    /// Bytes that had come over the socket by then. A peer that sends a long TLS record slowly is not silent.
    came: u64,
    timer: Pin<Box<Sleep>>,
}

impl Stall {
    pub(crate) fn new(timeout: Duration) -> Self {
        let since = Instant::now();
        Self {
            timeout,
            since,
            rested: true,
            came: 0,
            timer: Box::pin(sleep_until(since + timeout)),
        }
    }

    /// Waits on, `came` bytes having come so far; ready when the silence has lasted too long.
    fn poll(&mut self, came: u64, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.rested) || came != self.came {
            (self.since, self.came) = (Instant::now(), came);
        }
        loop {
            std::task::ready!(pin!(self.timer.as_mut()).poll(cx));
            let end = self.since + self.timeout;
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
    }
}

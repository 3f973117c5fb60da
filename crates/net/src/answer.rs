//! An answer whose body is read piece by piece, in the caller's task.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use url::Url;

use crate::connection::Connection;
use crate::error::{Error, Kind, TlsProblem};
use crate::limit::Limit;
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
    pub(crate) limit: Option<Limit>,
    /// When the next piece may be read, under a limit.
    pub(crate) due: Option<Instant>,
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
        if let Some(due) = self.body.due {
            // Waited for before the read and not after it: a piece that was read is never dropped with this future.
            sleep_until(due).await;
            self.body.due = None;
        }
        let body = &mut self.body;
        let piece = poll_fn(|cx| body.poll_piece(cx)).await;
        let piece = self.outcome(piece)?;
        if let (Some(limit), Some(piece)) = (&self.body.limit, &piece) {
            self.body.due = Some(limit.pay(piece.len() as u64));
        }
        Ok(piece)
    }

    /// The next piece if it is there already. Under a rate limit nothing ever is: pieces are then paid for one by one.
    pub fn chunk_now(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        if self.body.limit.is_some() {
            return None;
        }
        match self.body.poll_now(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => Some(self.outcome(piece.map_err(Broke::Http))),
            Poll::Pending => None,
        }
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
        if ended {
            pool.give(route, connection);
        }
    }

    /// Drops the body, and keeps the connection if little is left of it and that comes soon. Takes a tenth of a second at
    /// most.
    pub async fn discard(mut self) {
        (self.body.limit, self.body.due) = (None, None);
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
    if error.is_parse() {
        Kind::Protocol
    } else if refused_certificate(error) {
        Kind::Tls(TlsProblem::ClientCertificate)
    } else {
        Kind::Closed
    }
}

impl Body {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broke>> {
        match self.poll_now(cx) {
            Poll::Ready(piece) => {
                self.stall.rested = true;
                Poll::Ready(piece.map_err(Broke::Http))
            }
            Poll::Pending => self.stall.poll(cx).map(|()| Err(Broke::Stalled)),
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
    timer: Pin<Box<Sleep>>,
}

impl Stall {
    pub(crate) fn new(timeout: Duration) -> Self {
        let since = Instant::now();
        Self {
            timeout,
            since,
            rested: true,
            timer: Box::pin(sleep_until(since + timeout)),
        }
    }

    /// Waits on; ready when the silence has lasted too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.rested) {
            self.since = Instant::now();
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

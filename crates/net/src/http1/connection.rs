//! One HTTP/1.1 connection, driven in the task that uses it.
//!
//! hyper splits a connection into a handle and a future that does the work. Usually that future is spawned, and every chunk of
//! a body crosses from its task to the reader's. Here the one task that waits for the response polls both, which saves a wake-up
//! and a trip between processor cores for each chunk.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::stream::{Http1Stream, ResponseStart};
use crate::exchange_error::ExchangeError;
use crate::read_timeout::ReadTimeout;
use crate::request_body::{ContinueSignal, OutgoingBody};
use crate::transport::{SocketState, TransportStream};

/// The longest response head, in bytes. Real ones stay below eight thousand (row A23).
const MAX_HEADER_BYTES: usize = 64 * 1024;

type ConnectionDriver = http1::Connection<TokioIo<Http1Stream>, OutgoingBody>;

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    sender: http1::SendRequest<OutgoingBody>,
    /// hyper's future that does the work; `None` once the connection has ended.
    driver: Option<Pin<Box<ConnectionDriver>>>,
    response_start: ResponseStart,
    pub(crate) socket_state: SocketState,
    pub(crate) read_timeout: ReadTimeout,
}

impl Http1Connection {
    /// Makes a stream an HTTP connection. Nothing is sent yet.
    pub(crate) async fn handshake(
        stream: TransportStream,
        read_timeout: ReadTimeout,
    ) -> Result<Self, hyper::Error> {
        let socket_state = stream.socket_state();
        let response_start = ResponseStart::default();
        let stream = Http1Stream::new(stream, response_start.clone());
        let (sender, driver) = http1::Builder::new()
            // Folded header lines are obsolete and harmless (row A22).
            .allow_obsolete_multiline_headers_in_responses(true)
            .max_header_size(MAX_HEADER_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            driver: Some(Box::pin(driver)),
            response_start,
            socket_state,
            read_timeout,
        })
    }

    /// Sends a request and waits for the response head. One timeout covers all of it, so it also ends a head that arrives byte
    /// by byte and an endless row of 1xx responses. As long as a body is being taken by the peer, the timeout does not run.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, ExchangeError> {
        self.response_start.expect();
        wait_for_continue(&mut request);
        let progress = request.body().progress();
        let mut response = pin!(self.sender.send_request(request));
        let (driver, read_timeout) = (&mut self.driver, &mut self.read_timeout);
        let socket_state = &self.socket_state;
        socket_state.track_sending(progress.is_some());
        poll_fn(|cx| {
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(response.map_err(ExchangeError::Http1));
            }
            let ended = poll_driver(driver, cx);
            match (response.as_mut().poll(cx), ended) {
                (Poll::Ready(response), _) => Poll::Ready(response.map_err(ExchangeError::Http1)),
                (Poll::Pending, Some(Err(error))) => Poll::Ready(Err(ExchangeError::Http1(error))),
                (Poll::Pending, _) => {
                    let elapsed = match &progress {
                        None => read_timeout.poll_elapsed(cx),
                        // What the system holds for a slow link is on its way.
                        Some(progress) => {
                            let held = socket_state.bytes_unacknowledged();
                            read_timeout.poll_silence(progress.bytes().wrapping_sub(held), cx)
                        }
                    };
                    elapsed.map(|()| Err(ExchangeError::Stalled))
                }
            }
        })
        .await
    }

    /// The next frame of the body that this connection delivers.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        // An error that ends the connection also ends the body, and the body's error says more.
        let _ = poll_driver(&mut self.driver, cx);
        Pin::new(body).poll_frame(cx)
    }

    /// Whether another request can be sent now: the last response was read to its end, and the peer has not closed.
    pub(crate) fn is_reusable(&mut self) -> bool {
        // The driver notices what the peer did while the connection was idle.
        let _ = poll_driver(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready() && !self.sender.is_closed()
    }
}

/// Holds the body of a request with `Expect: 100-continue` back until the peer wants it.
fn wait_for_continue(request: &mut Request<OutgoingBody>) {
    if !request.headers().contains_key(EXPECT) {
        return;
    }
    let signal = ContinueSignal::default();
    request.body_mut().wait_for(signal.clone());
    hyper::ext::on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            signal.allow();
        }
    });
}

/// Polls the driver once; returns how the connection ended, if it ended now.
fn poll_driver(
    driver: &mut Option<Pin<Box<ConnectionDriver>>>,
    cx: &mut Context<'_>,
) -> Option<Result<(), hyper::Error>> {
    match driver.as_mut()?.as_mut().poll(cx) {
        Poll::Ready(ended) => {
            *driver = None;
            Some(ended)
        }
        Poll::Pending => None,
    }
}

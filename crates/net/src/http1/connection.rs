//! One HTTP/1.1 connection, driven in the task that uses it.
//!
//! A client library splits a connection into a handle and a future that does the work, and every request and every chunk of a body
//! crosses from one to the other. Here the task that waits for a response sends the request and reads the response itself, which
//! takes half of the instructions.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::BodyFraming;
use http::response::Parts;
use http::{Request, StatusCode};

use super::error::Http1Error;
use super::receive_buffer::ReceiveBuffer;
use super::request_writer::{RequestWriter, is_disconnect};
use super::response_head::take_response_head;
use crate::exchange_error::{ExchangeError, MAX_INTERIM_RESPONSES};
use crate::read_timeout::{ReadTimeout, SilenceLimit};
use crate::request_body::OutgoingBody;
use crate::transport::{SocketState, TransportStream};

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    stream: TransportStream,
    pub(super) received: ReceiveBuffer,
    request: RequestWriter,
    /// Whether the peer takes another request behind the last response.
    is_kept: bool,
    /// How long it took to connect, which is about a round trip.
    pub(crate) connect_time: Duration,
    /// The TCP peer.
    pub(crate) peer: SocketAddr,
    pub(crate) socket_state: SocketState,
    pub(crate) read_timeout: ReadTimeout,
}

impl Http1Connection {
    /// Makes a stream an HTTP connection. Nothing is sent yet.
    pub(crate) fn new(stream: TransportStream, connect_time: Duration, peer: SocketAddr) -> Self {
        Self {
            connect_time,
            peer,
            socket_state: stream.socket_state(),
            stream,
            received: ReceiveBuffer::default(),
            request: RequestWriter::default(),
            is_kept: true,
            read_timeout: ReadTimeout::default(),
        }
    }

    /// Sends a request and waits for the response head. One timeout covers all of it, so it also ends a head that arrives byte
    /// by byte and an endless row of 1xx responses. As long as a body is being taken by the peer, the stall timeout holds instead, and the
    /// time of the response begins after that.
    pub(crate) async fn send(
        &mut self,
        request: Request<OutgoingBody>,
    ) -> Result<(Parts, BodyFraming), ExchangeError> {
        let method = request.method().clone();
        let is_upload = matches!(request.body(), OutgoingBody::Stream { .. });
        self.socket_state.track_sending(is_upload);
        self.request.start(request);
        self.is_kept = false;
        let mut interim_responses = 0;
        let head = poll_fn(|cx| match self.poll_exchange(&mut interim_responses, cx) {
            Poll::Ready(head) => Poll::Ready(head.map_err(ExchangeError::Http1)),
            Poll::Pending => self.poll_timeout(is_upload, cx).map(Err),
        })
        .await?;
        match head.status.is_success() {
            true if !self.request.is_done() => self.finish_request(is_upload).await?,
            true => {}
            false => self.request.withhold_waiting_body(),
        }
        let (status, version) = (head.status, head.version);
        let framing = BodyFraming::from_response(&method, status, version, &head.headers)?;
        self.is_kept = framing.keeps_connection(version, &head.headers);
        Ok((head, framing))
    }

    /// Sends the rest of a request to which the peer has said already that it succeeded: it may still store what it gets.
    async fn finish_request(&mut self, is_upload: bool) -> Result<(), ExchangeError> {
        self.request.allow_body();
        let sent = poll_fn(|cx| match self.request.poll_send(&mut self.stream, cx) {
            Poll::Ready(sent) => Poll::Ready(sent.map_err(ExchangeError::Http1)),
            Poll::Pending => self.poll_timeout(is_upload, cx).map(Err),
        });
        sent.await?;
        if self.request.is_done() {
            Ok(())
        } else {
            Err(ExchangeError::Http1(Http1Error::ClosedInRequest))
        }
    }

    /// Ready when the peer was silent for too long.
    fn poll_timeout(&mut self, is_upload: bool, cx: &mut Context<'_>) -> Poll<ExchangeError> {
        if !is_upload {
            let elapsed = self.read_timeout.poll_elapsed(SilenceLimit::Response, cx);
            return elapsed.map(|()| ExchangeError::NoResponse);
        }
        // What the system holds for a slow link is on its way.
        let held = self.socket_state.bytes_unacknowledged();
        let taken = self.request.body_bytes().wrapping_sub(held);
        let (limit, error) = if self.request.is_done() && held == 0 {
            (SilenceLimit::Response, ExchangeError::NoResponse)
        } else {
            (SilenceLimit::Stall, ExchangeError::Stalled)
        };
        let silence = self.read_timeout.poll_silence(limit, taken, cx);
        silence.map(|()| error)
    }

    /// Sends and receives until the head of the final response is there. The rest of the request may still have to be sent.
    fn poll_exchange(
        &mut self,
        interim_responses: &mut u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Parts, Http1Error>> {
        loop {
            if let Poll::Ready(Err(error)) = self.request.poll_send(&mut self.stream, cx) {
                return Poll::Ready(Err(error));
            }
            match take_response_head(&mut self.received.bytes)? {
                Some(head)
                    if head.status.is_informational()
                        && head.status != StatusCode::SWITCHING_PROTOCOLS =>
                {
                    *interim_responses += 1;
                    if *interim_responses > MAX_INTERIM_RESPONSES {
                        return Poll::Ready(Err(Http1Error::HeadTooLong));
                    }
                    if head.status == StatusCode::CONTINUE {
                        self.request.allow_body();
                    }
                }
                Some(head) => return Poll::Ready(Ok(head)),
                None => match std::task::ready!(self.received.poll_fill(&mut self.stream, cx)) {
                    Ok(1..) => {}
                    Ok(0) => return Poll::Ready(Err(self.closed_error())),
                    Err(error) if self.request.is_unsent() && is_disconnect(&error) => {
                        return Poll::Ready(Err(self.closed_error()));
                    }
                    Err(error) => return Poll::Ready(Err(Http1Error::Stream(error))),
                },
            }
        }
    }

    fn closed_error(&self) -> Http1Error {
        if self.request.is_unsent() {
            Http1Error::Unsent
        } else {
            Http1Error::ClosedBeforeHead
        }
    }

    /// Receives more of the body; 0 is the end of the stream. A peer that responds early may still read the request.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Http1Error>> {
        if !self.request.is_done() {
            // The response counts, unless the failure is on this side.
            let sent = self.request.poll_send(&mut self.stream, cx);
            if let Poll::Ready(Err(error @ Http1Error::RequestBody(_))) = sent {
                return Poll::Ready(Err(error));
            }
        }
        let filled = self.received.poll_fill(&mut self.stream, cx);
        filled.map_err(Http1Error::Stream)
    }

    /// Whether another request can be sent now. The last response was read to its end; the peer must not have closed, nor sent
    /// anything behind it.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.is_kept && self.request.is_done() && self.received.is_silent(&mut self.stream)
    }

    /// Gives up what an idle connection need not hold.
    pub(crate) fn release_buffer(&mut self) {
        self.received.release();
    }
}

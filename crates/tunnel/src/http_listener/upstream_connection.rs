//! One HTTP/1.1 connection to an origin or a proxy, driven in the task of the client that it serves.
//!
//! It belongs to one client: a login that an origin binds to a connection (NTLM) stays that client's.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use haul_net::{Connector, Kind, Proxy, Target};
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use url::Url;

use super::io::UpstreamIo;
use super::request::{ForwardRequest, UnknownCoding};
use super::request_body::ForwardRequestBody;
use super::{MAX_FIELDS, MAX_HEAD};
use crate::active_connections::ActiveConnection;
use crate::relay::RelayStream;
use crate::upstream::{Upstream, UpstreamConnectError, UpstreamConnection};

type HttpDriver = http1::Connection<TokioIo<UpstreamIo>, ForwardRequestBody>;

/// A connection to an origin, or to a proxy that takes requests in absolute-form.
pub(super) struct HttpUpstream {
    sender: http1::SendRequest<ForwardRequestBody>,
    driver: Box<HttpDriver>,
    /// Whether the driver is done. What it was polled over is still in it.
    is_over: bool,
    /// The proxy; `None`: it is the origin itself.
    pub(super) http_proxy: Option<Proxy>,
    target: Target,
    /// For the log.
    pub(super) via: Arc<str>,
    /// For errors.
    url: Url,
    /// Whether it has carried a request before, so that the peer may have closed it by now.
    pub(super) is_reused: bool,
}

impl HttpUpstream {
    /// Makes a stream an HTTP connection; nothing is sent yet. What is written to it counts for `counted_for`.
    pub(super) async fn new(
        reached: UpstreamConnection,
        target: &Target,
        counted_for: Option<Arc<ActiveConnection>>,
    ) -> Result<Self, UpstreamConnectError> {
        let io = TokioIo::new(UpstreamIo::new(reached.stream, counted_for));
        let connection = http1::Builder::new()
            // Both are obsolete and harmless, since the fields are written anew.
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .max_headers(MAX_FIELDS)
            .max_header_size(MAX_HEAD)
            .preserve_header_case(true)
            .title_case_headers(true)
            .handshake(io)
            .await;
        let proxy = reached.http_proxy;
        let (sender, driver) =
            connection.map_err(|error| exchange_error(proxy.as_ref(), &reached.url, error))?;
        Ok(Self {
            sender,
            driver: Box::new(driver),
            is_over: false,
            http_proxy: proxy,
            target: target.clone(),
            via: reached.via,
            url: reached.url,
            is_reused: false,
        })
    }

    /// Whether a request for this target may go over it.
    pub(super) fn leads_to(&self, target: &Target, upstream: &Upstream) -> bool {
        match self.http_proxy {
            Some(_) => !upstream.bypasses_proxies(target),
            None => self.target == *target,
        }
    }

    /// Sends a request and waits for the head of its response. The body of the request may be under way when this returns.
    pub(super) async fn send(
        &mut self,
        request: Request<ForwardRequestBody>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut response = pin!(self.sender.send_request(request));
        let (driver, is_over) = (&mut self.driver, &mut self.is_over);
        poll_fn(|cx| {
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            drive(driver, is_over, cx);
            response.as_mut().poll(cx)
        })
        .await
    }

    /// The next frame of the response that it delivers.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        // An error of the connection is one of the body as well.
        drive(&mut self.driver, &mut self.is_over, cx);
        Pin::new(body).poll_frame(cx)
    }

    /// Whether another request can be sent now: request and response are over, and the peer has not closed.
    pub(super) fn is_reusable(&mut self) -> bool {
        // The driver sees now what the peer has done meanwhile.
        let mut cx = Context::from_waker(Waker::noop());
        drive(&mut self.driver, &mut self.is_over, &mut cx);
        self.is_reused = true;
        !self.is_over && self.sender.is_ready()
    }

    /// The stream behind a switch of protocols, and what has come of the new one.
    pub(super) async fn into_tunnel(
        mut self,
        request: &ForwardRequest,
    ) -> Result<(RelayStream, Bytes), UpstreamConnectError> {
        if !request.has_upgrade() {
            return Err(self.protocol_error(UnrequestedUpgrade));
        }
        if !self.is_over
            && let Err(error) = poll_fn(|cx| self.driver.poll_without_shutdown(cx)).await
        {
            return Err(self.error(error));
        }
        let parts = self.driver.into_parts();
        let (stream, early) = RelayStream::from_transport(parts.io.into_inner().into_stream());
        Ok((stream, [&parts.read_buf[..], &early].concat().into()))
    }

    /// The exchange failed by this error.
    pub(super) fn error(&self, error: hyper::Error) -> UpstreamConnectError {
        exchange_error(self.http_proxy.as_ref(), &self.url, error).into()
    }

    /// The response cannot be passed on.
    pub(super) fn protocol_error(&self, error: impl Into<ResponseError>) -> UpstreamConnectError {
        let proxy = self.http_proxy.as_ref();
        Connector::exchange_error(proxy, &self.url, Kind::Protocol, error.into()).into()
    }

    /// For errors.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }
}

/// An error of hyper by its meaning.
fn exchange_error(proxy: Option<&Proxy>, url: &Url, error: hyper::Error) -> haul_net::Error {
    let kind = if error.is_user() {
        Kind::RequestBody
    } else if error.is_parse() || is_framing_error(&error) {
        Kind::Protocol
    } else {
        Kind::Closed
    };
    Connector::exchange_error(proxy, url, kind, error)
}

/// Whether a chunked body is malformed. hyper reports that as an I/O error of this kind, which no socket has.
fn is_framing_error(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::InvalidInput)
}

/// Why a response cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    #[error(transparent)]
    Coding(#[from] UnknownCoding),
    #[error(transparent)]
    Upgrade(#[from] UnrequestedUpgrade),
}

/// The server switches to another protocol, and the request did not ask for that.
#[derive(Debug, thiserror::Error)]
#[error("it switches to another protocol unasked")]
pub(super) struct UnrequestedUpgrade;

/// Polls a connection that is not over. Its errors reach the caller through the response or its body.
fn drive(driver: &mut HttpDriver, is_over: &mut bool, cx: &mut Context<'_>) {
    *is_over = *is_over || driver.poll_without_shutdown(cx).is_ready();
}

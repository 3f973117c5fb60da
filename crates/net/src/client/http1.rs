//! One request over one connection: a resting one or a new one. Where requests may share one, `sharing` goes on from here.

use std::net::SocketAddr;
use std::sync::Arc;

use haul_plan::AlpnOffer;
use http::response::Parts;

use super::Client;
use crate::connector::ConnectedStream;
use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::http1::Http1Body;
use crate::http1::Http1Connection;
use crate::read_timeout::ReadTimeout;
use crate::request::FetchRequest;
use crate::request::{Route, RouteKey};
use crate::request_head::{RequestAuthorizations, build_request};
use crate::request_target::without_credentials;
use crate::response::ResponseBody;
use crate::response::{FetchResponse, RequestTimings};
use crate::target::Target;
use crate::tls::TlsPeer;

/// A connection and how it came about.
pub(super) struct ReadyConnection {
    connection: Http1Connection,
    route: Arc<RouteKey>,
    stats: ConnectStats,
}

/// How a connection came about.
#[derive(Default)]
pub(super) struct ConnectStats {
    pub(super) timings: RequestTimings,
    /// The TCP peer, if it is new.
    pub(super) peer: Option<SocketAddr>,
}

impl ConnectStats {
    /// It was there.
    pub(super) fn reused() -> Self {
        let timings = RequestTimings {
            reused: true,
            ..RequestTimings::default()
        };
        Self {
            timings,
            peer: None,
        }
    }

    /// It is new.
    pub(super) fn new(reached: &ConnectedStream) -> Self {
        let timings = RequestTimings {
            dns: reached.dns,
            connect: reached.connect,
            tls: reached.tls,
            ..RequestTimings::default()
        };
        Self {
            timings,
            peer: Some(reached.peer),
        }
    }
}

impl Client {
    /// One request over one connection, shared or not.
    pub(super) async fn exchange(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let route = way.key(&self.shared.config);
        if way.is_tls()
            && self
                .shared
                .config
                .http_version
                .allows_http2(fetch.may_multiplex)
        {
            Box::pin(self.exchange_http2(way, fetch, route)).await
        } else {
            self.exchange_http1(way, fetch, route).await
        }
    }

    /// One request over a connection of its own; a resting one that was closed is replaced once.
    pub(super) async fn exchange_http1(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        route: RouteKey,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let route = match self.shared.http1_pool.take(&route) {
            None => Arc::new(route),
            Some((route, connection)) => {
                let ready = ReadyConnection {
                    connection,
                    route: Arc::clone(&route),
                    stats: ConnectStats::reused(),
                };
                match self.send_http1(way, fetch, ready).await {
                    // Closed before a byte of the answer: the origin gave up the connection while the request was
                    // on its way. It is a GET, so nothing can have happened twice.
                    Err(error) if *error.kind() == Kind::Closed => route,
                    done => return done,
                }
            }
        };
        // Apart, since this is rare in a batch and needs most of the room.
        let ready = Box::pin(self.connect_http1(way, route)).await?;
        let sent = self.send_http1(way, fetch, ready).await;
        // Whoever broke off here was the proxy, or the origin behind it.
        sent.map_err(|error| match way.absolute_form_proxy() {
            Some(proxy) => error.with_proxy(proxy.name()),
            None => error,
        })
    }

    async fn connect_http1(
        &self,
        way: &Route<'_>,
        route: Arc<RouteKey>,
    ) -> Result<ReadyConnection, Error> {
        let mut reached = self.connect_stream(way).await?;
        if way.is_tls() {
            reached = self.start_tls(way, reached, AlpnOffer::Http1).await?;
        }
        self.http1_handshake(way, reached, route).await
    }

    /// A stream on the way, TLS with the origin still to come.
    pub(super) async fn connect_stream(&self, way: &Route<'_>) -> Result<ConnectedStream, Error> {
        let (connector, url) = (&self.shared.connector, way.url);
        match way.absolute_form_proxy() {
            Some(proxy) => connector.connect_to_proxy(proxy, url).await,
            None => {
                connector
                    .connect(&target(way)?, way.proxy.as_slice(), url)
                    .await
            }
        }
    }

    /// TLS with the origin.
    pub(super) async fn start_tls(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        offer: AlpnOffer,
    ) -> Result<ConnectedStream, Error> {
        let target = target(way)?;
        let peer = TlsPeer {
            host: &target.host,
            scope: way.scope,
            alpn: offer,
        };
        self.shared
            .connector
            .start_tls(reached, peer, way.url)
            .await
    }

    /// A connection for one request at a time.
    pub(super) async fn http1_handshake(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        route: Arc<RouteKey>,
    ) -> Result<ReadyConnection, Error> {
        let came = ConnectStats::new(&reached);
        let stall = ReadTimeout::new(self.shared.config.stall_timeout);
        let connection = Http1Connection::handshake(reached.stream, stall).await;
        let connection =
            connection.map_err(|error| ExchangeError::Http1(error).into_error(way.url))?;
        Ok(ReadyConnection {
            connection,
            route,
            stats: came,
        })
    }

    pub(super) async fn send_http1(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        ready: ReadyConnection,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let ReadyConnection {
            mut connection,
            route,
            stats: mut came,
        } = ready;
        let shown = self.authorizations(way, fetch.user_url);
        let request = build_request(&self.shared.config, way, fetch, &shown)?;
        let authorized = request.headers().contains_key(http::header::AUTHORIZATION);
        let begun = connection.read_timeout.start();
        let sent = connection.send(request).await;
        let (head, incoming) = sent
            .map_err(|broke| broke.into_error(way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        connection.read_timeout.reset();
        let body = ResponseBody::Http1(Http1Body {
            incoming,
            connection,
            route,
            pool: Arc::clone(&self.shared.http1_pool),
            is_complete: false,
        });
        Ok((fetch_response(way, head, (came, authorized), body), shown))
    }
}

/// An answer, of its parts.
pub(super) fn fetch_response(
    way: &Route<'_>,
    head: Parts,
    (came, authorized): (ConnectStats, bool),
    body: ResponseBody,
) -> FetchResponse {
    FetchResponse {
        status: head.status,
        headers: head.headers,
        url: without_credentials(way.url),
        redirected: false,
        authorized,
        peer: came.peer,
        timings: came.timings,
        max_streams: match &body {
            ResponseBody::Http1(_) => None,
            ResponseBody::Http2(body) => Some(body.max_streams()),
        },
        body,
    }
}

/// Where TCP, or a proxy, is to lead.
fn target(way: &Route<'_>) -> Result<Target, Error> {
    Target::from_url(way.url).ok_or_else(|| Error::new(Kind::InvalidRequest, way.url))
}

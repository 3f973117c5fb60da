//! One request over one connection: a resting one or a new one. Where requests may share one, `sharing` goes on from here.

use std::net::SocketAddr;
use std::sync::Arc;

use haul_plan::AlpnOffer;
use http::response::Parts;

use super::Client;
use super::config::FetchRequest;
use crate::answer::{FetchResponse, RequestTimings};
use crate::body::{Http1Body, ResponseBody};
use crate::broke::ExchangeError;
use crate::connection::Http1Connection;
use crate::connector::{ConnectedStream, Target};
use crate::error::{Error, Kind};
use crate::offered::TlsPeer;
use crate::request::{RequestAuthorizations, request};
use crate::route::{Route, RouteKey};
use crate::secret::without_credentials;
use crate::stall::ReadTimeout;

/// A connection and how it came about.
pub(super) struct ReadyConnection {
    connection: Http1Connection,
    route: Arc<RouteKey>,
    came: ConnectStats,
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
        let route = way.route(&self.shared.config);
        if way.is_secure()
            && self
                .shared
                .config
                .http_version
                .allows_http2(fetch.may_multiplex)
        {
            Box::pin(self.share(way, fetch, route)).await
        } else {
            self.ask_alone(way, fetch, route).await
        }
    }

    /// One request over a connection of its own; a resting one that was closed is replaced once.
    pub(super) async fn ask_alone(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        route: RouteKey,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let route = match self.shared.pool.take(&route) {
            None => Arc::new(route),
            Some((route, connection)) => {
                let ready = ReadyConnection {
                    connection,
                    route: Arc::clone(&route),
                    came: ConnectStats::reused(),
                };
                match self.send(way, fetch, ready).await {
                    // Closed before a byte of the answer: the origin gave up the connection while the request was
                    // on its way. It is a GET, so nothing can have happened twice.
                    Err(error) if *error.kind() == Kind::Closed => route,
                    done => return done,
                }
            }
        };
        // Apart, since this is rare in a batch and needs most of the room.
        let ready = Box::pin(self.connect(way, route)).await?;
        let sent = self.send(way, fetch, ready).await;
        // Whoever broke off here was the proxy, or the origin behind it.
        sent.map_err(|error| match way.forwarder() {
            Some(proxy) => error.through(proxy),
            None => error,
        })
    }

    async fn connect(
        &self,
        way: &Route<'_>,
        route: Arc<RouteKey>,
    ) -> Result<ReadyConnection, Error> {
        let mut reached = self.reach(way).await?;
        if way.is_secure() {
            reached = self.secure(way, reached, AlpnOffer::Http1).await?;
        }
        self.own(way, reached, route).await
    }

    /// A stream on the way, TLS with the origin still to come.
    pub(super) async fn reach(&self, way: &Route<'_>) -> Result<ConnectedStream, Error> {
        let (connector, url) = (&self.shared.connector, way.url);
        match way.forwarder() {
            Some(proxy) => connector.connect_to_proxy(proxy, url).await,
            None => {
                connector
                    .connect(&target(way)?, way.proxy.as_slice(), url)
                    .await
            }
        }
    }

    /// TLS with the origin.
    pub(super) async fn secure(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        offer: AlpnOffer,
    ) -> Result<ConnectedStream, Error> {
        let target = target(way)?;
        let peer = TlsPeer {
            host: &target.host,
            scope: way.standing,
            alpn: offer,
        };
        self.shared
            .connector
            .start_tls(reached, peer, way.url)
            .await
    }

    /// A connection for one request at a time.
    pub(super) async fn own(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        route: Arc<RouteKey>,
    ) -> Result<ReadyConnection, Error> {
        let came = ConnectStats::new(&reached);
        let stall = ReadTimeout::new(self.shared.config.stall_timeout);
        let connection = Http1Connection::over(reached.stream, stall).await;
        let connection =
            connection.map_err(|error| ExchangeError::Http1(error).into_error(way.url))?;
        Ok(ReadyConnection {
            connection,
            route,
            came,
        })
    }

    pub(super) async fn send(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        ready: ReadyConnection,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let ReadyConnection {
            mut connection,
            route,
            mut came,
        } = ready;
        let shown = self.shown(way, fetch.user_url);
        let request = request(&self.shared.config, way, fetch, &shown)?;
        let authorized = request.headers().contains_key(http::header::AUTHORIZATION);
        let begun = connection.stall.begin();
        let sent = connection.send(request).await;
        let (head, incoming) = sent
            .map_err(|broke| broke.into_error(way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        connection.stall.rest();
        let body = ResponseBody::Own(Http1Body {
            incoming,
            connection,
            route,
            pool: Arc::clone(&self.shared.pool),
            ended: false,
        });
        Ok((answer(way, head, (came, authorized), body), shown))
    }
}

/// An answer, of its parts.
pub(super) fn answer(
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
            ResponseBody::Own(_) => None,
            ResponseBody::Shared(body) => Some(body.streams()),
        },
        body,
    }
}

/// Where TCP, or a proxy, is to lead.
fn target(way: &Route<'_>) -> Result<Target, Error> {
    Target::from_url(way.url).ok_or_else(|| Error::new(Kind::InvalidRequest, way.url))
}

//! One request over a connection that others use, too, where the origin has HTTP/2 and the way is long enough.

use std::sync::Arc;

use haul_plan::{AlpnOffer, HttpVersionChoice};
use http::header::AUTHORIZATION;
use tokio::time::{Instant, timeout};

use super::Client;
use super::http1::{ConnectStats, ReadyConnection, fetch_response};
use crate::connector::ConnectedStream;
use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::http2::{
    self, ConnectionReservation, Http2Connection, Http2Host, Http2Ineligible, StreamDecision,
    StreamLease, UnansweredRequest, UnansweredRetry, to_http2,
};
use crate::read_timeout::ReadTimeout;
use crate::request::FetchRequest;
use crate::request::{Route, RouteKey};
use crate::request_head::{RequestAuthorizations, build_request};
use crate::response::ResponseBody;
use crate::response::{FetchResponse, RequestTimings};
use crate::target::Target;

/// What came of making a connection.
enum ConnectOutcome {
    /// Others may use it, too.
    Http2(StreamLease, ConnectStats),
    /// It is for one request at a time.
    Http1(Box<ReadyConnection>),
    /// There will be no other besides those that are there.
    NoMoreConnections,
}

/// What TLS has agreed on.
enum NegotiatedProtocol {
    Http1(ConnectedStream),
    Http2(Http2Connection, ConnectStats),
}

impl Client {
    /// One request over a shared connection, or over one of its own where it turns out that none can be shared. What the
    /// origin never looked at is sent once more, and over HTTP/1.1 besides if it wants that: none is shared after that word.
    pub(super) async fn exchange_http2(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        route: RouteKey,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let host = self.shared.http2_pool.host(&route);
        let mut again = true;
        loop {
            let (slot, came) = match self.wait_for_stream(way, &host).await? {
                StreamDecision::UseHttp1 => {
                    return self.share_nothing(way, fetch, (route, &host)).await;
                }
                StreamDecision::Send(slot) => (slot, ConnectStats::reused()),
                StreamDecision::Connect(opening) => {
                    match Box::pin(self.open_http2(way, (&route, &host), opening)).await? {
                        ConnectOutcome::Http2(slot, came) => (slot, came),
                        ConnectOutcome::Http1(ready) => {
                            let (answer, shown) = self.send_http1(way, fetch, *ready).await?;
                            self.learn(&host, answer.timings);
                            return Ok((answer, shown));
                        }
                        ConnectOutcome::NoMoreConnections => continue,
                    }
                }
            };
            match self.send_http2(way, fetch, (slot, came)).await {
                Ok(answered) => return Ok(answered),
                Err(UnansweredRequest {
                    error,
                    retry: remedy,
                }) => match remedy {
                    UnansweredRetry::Again | UnansweredRetry::AgainWithFewerStreams if again => {
                        again = false
                    }
                    UnansweredRetry::OverHttp1
                        if self.shared.config.http_version == HttpVersionChoice::Auto =>
                    {
                        host.use_http1()
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// One request over a connection of its own, where it might share one if the way were known to be long.
    async fn share_nothing(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        (route, host): (RouteKey, &Http2Host),
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let (mut answer, shown) = self.exchange_http1(way, fetch, route).await?;
        self.learn(host, answer.timings);
        // Another's request may have brought a connection to share meanwhile: for whoever comes next.
        answer.max_streams = host.max_streams();
        Ok((answer, shown))
    }

    /// What a connection of its own tells about how long the way is: its handshake, and the wait for its answer.
    fn learn(&self, host: &Http2Host, timings: RequestTimings) {
        let http = self.shared.config.http_version;
        let is_long = |wait| http.alpn_offer(true, wait) != AlpnOffer::Http1;
        if !timings.reused {
            host.waited(timings.tls, is_long);
        }
        host.waited(timings.first_byte, is_long);
    }

    /// Waits for a turn: as long as a connection may take, and then until somebody is stalled who takes up the room.
    async fn wait_for_stream(
        &self,
        way: &Route<'_>,
        host: &Arc<Http2Host>,
    ) -> Result<StreamDecision, Error> {
        let config = &self.shared.config;
        let limit = config.connector.connect_timeout + config.stall_timeout;
        if let Ok(turn) = timeout(limit, host.lease()).await {
            return turn.map_err(|failure| failure.for_url(way.url));
        }
        let target = Target::from_url(way.url).map(|target| target.to_string());
        let target = target.unwrap_or_default();
        let late = if host.is_connected() {
            Kind::ConnectionsBusy(target)
        } else {
            Kind::ConnectTimeout(target)
        };
        Err(Error::new(late, way.url))
    }

    /// Makes the connection that others wait for.
    async fn open_http2(
        &self,
        way: &Route<'_>,
        (route, host): (&RouteKey, &Http2Host),
        opening: ConnectionReservation,
    ) -> Result<ConnectOutcome, Error> {
        let reached = match self.connect_stream(way).await {
            Ok(reached) => reached,
            Err(error) => return connect_failed(opening, error),
        };
        let long = reached.round_trip.max(host.wait());
        let offer = self.shared.config.http_version.alpn_offer(true, long);
        if offer == AlpnOffer::Http1 {
            // Known before the handshake: nobody need wait for that.
            opening.use_http1(Http2Ineligible::near());
            let reached = self.start_tls(way, reached, offer).await?;
            return self.http1_outcome(way, reached, route).await;
        }
        match self.negotiate(way, reached, offer).await {
            Ok(NegotiatedProtocol::Http2(connection, came)) => {
                let slot = opening.connected(connection);
                self.shared.http2_pool.connection_opened();
                Ok(ConnectOutcome::Http2(slot, came))
            }
            Ok(NegotiatedProtocol::Http1(reached)) => {
                opening.use_http1(Http2Ineligible::Lasting);
                self.http1_outcome(way, reached, route).await
            }
            Err(error) => connect_failed(opening, error),
        }
    }

    /// TLS, and what it says of the version.
    async fn negotiate(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        offer: AlpnOffer,
    ) -> Result<NegotiatedProtocol, Error> {
        let reached = self.start_tls(way, reached, offer).await?;
        if !reached.stream.is_http2() {
            return Ok(NegotiatedProtocol::Http1(reached));
        }
        let came = ConnectStats::new(&reached);
        match Http2Connection::handshake(reached.stream).await {
            Ok(connection) => Ok(NegotiatedProtocol::Http2(connection, came)),
            Err(error) => Err(ExchangeError::Http2(error).into_error(way.url)),
        }
    }

    /// A connection for one request at a time.
    async fn http1_outcome(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        route: &RouteKey,
    ) -> Result<ConnectOutcome, Error> {
        let ready = self
            .http1_handshake(way, reached, Arc::new(route.clone()))
            .await?;
        Ok(ConnectOutcome::Http1(Box::new(ready)))
    }

    async fn send_http2(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        (slot, mut came): (StreamLease, ConnectStats),
    ) -> Result<(FetchResponse, RequestAuthorizations), UnansweredRequest> {
        let config = &self.shared.config;
        let shown = self.authorizations(way, fetch.user_url);
        let request = build_request(config, way, fetch, &shown)
            .and_then(|request| to_http2(request, way.url))
            .map_err(UnansweredRequest::permanent)?;
        let authorized = request.headers().contains_key(AUTHORIZATION);
        let begun = Instant::now();
        let sent =
            http2::Http2Body::send(slot, request, ReadTimeout::new(config.stall_timeout)).await;
        let (head, body) = sent
            .map_err(|broke| UnansweredRequest::new(broke, came.timings.reused, way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        let answer = fetch_response(way, head, (came, authorized), ResponseBody::Http2(body));
        Ok((answer, shown))
    }
}

/// A connection could not be made: those that are there must do, or it is an error.
fn connect_failed(opening: ConnectionReservation, error: Error) -> Result<ConnectOutcome, Error> {
    if opening.failed(&error) {
        Ok(ConnectOutcome::NoMoreConnections)
    } else {
        Err(error)
    }
}

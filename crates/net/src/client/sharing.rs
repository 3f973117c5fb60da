//! One request over a connection that others use, too, where the origin has HTTP/2 and the way is long enough.

use std::sync::Arc;

use haul_plan::{AlpnOffer, HttpVersionChoice};
use http::header::AUTHORIZATION;
use tokio::time::{Instant, timeout};

use super::Client;
use super::config::FetchRequest;
use super::exchange::{ConnectStats, ReadyConnection, answer};
use crate::answer::{FetchResponse, RequestTimings};
use crate::body::ResponseBody;
use crate::broke::ExchangeError;
use crate::connector::{ConnectedStream, Target};
use crate::error::{Error, Kind};
use crate::multiplexed::{
    self, ConnectionReservation, Http2Connection, Http2Host, Http2Ineligible, StreamDecision,
    StreamLease, UnansweredRequest, UnansweredRetry, http2,
};
use crate::request::{RequestAuthorizations, request};
use crate::route::{Route, RouteKey};
use crate::stall::ReadTimeout;

/// What came of making a connection.
enum ConnectOutcome {
    /// Others may use it, too.
    Shared(StreamLease, ConnectStats),
    /// It is for one request at a time.
    Own(Box<ReadyConnection>),
    /// There will be no other besides those that are there.
    Enough,
}

/// What TLS has agreed on.
enum NegotiatedProtocol {
    Http1(ConnectedStream),
    Http2(Http2Connection, ConnectStats),
}

impl Client {
    /// One request over a shared connection, or over one of its own where it turns out that none can be shared. What the
    /// origin never looked at is sent once more, and over HTTP/1.1 besides if it wants that: none is shared after that word.
    pub(super) async fn share(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        route: RouteKey,
    ) -> Result<(FetchResponse, RequestAuthorizations), Error> {
        let host = self.shared.hosts.of(&route);
        let mut again = true;
        loop {
            let (slot, came) = match self.turn(way, &host).await? {
                StreamDecision::Separate => {
                    return self.share_nothing(way, fetch, (route, &host)).await;
                }
                StreamDecision::Shared(slot) => (slot, ConnectStats::reused()),
                StreamDecision::Open(opening) => {
                    match Box::pin(self.open(way, (&route, &host), opening)).await? {
                        ConnectOutcome::Shared(slot, came) => (slot, came),
                        ConnectOutcome::Own(ready) => {
                            let (answer, shown) = self.send(way, fetch, *ready).await?;
                            self.learn(&host, answer.timings);
                            return Ok((answer, shown));
                        }
                        ConnectOutcome::Enough => continue,
                    }
                }
            };
            match self.send_shared(way, fetch, (slot, came)).await {
                Ok(answered) => return Ok(answered),
                Err(UnansweredRequest { error, remedy }) => match remedy {
                    UnansweredRetry::Again | UnansweredRetry::AgainWithFewer if again => {
                        again = false
                    }
                    UnansweredRetry::Separately
                        if self.shared.config.http_version == HttpVersionChoice::Auto =>
                    {
                        host.separate()
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
        let (mut answer, shown) = self.ask_alone(way, fetch, route).await?;
        self.learn(host, answer.timings);
        // Another's request may have brought a connection to share meanwhile: for whoever comes next.
        answer.max_streams = host.streams();
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
    async fn turn(&self, way: &Route<'_>, host: &Arc<Http2Host>) -> Result<StreamDecision, Error> {
        let config = &self.shared.config;
        let limit = config.connector.connect_timeout + config.stall_timeout;
        if let Ok(turn) = timeout(limit, host.turn()).await {
            return turn.map_err(|failure| failure.of(way.url));
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
    async fn open(
        &self,
        way: &Route<'_>,
        (route, host): (&RouteKey, &Http2Host),
        opening: ConnectionReservation,
    ) -> Result<ConnectOutcome, Error> {
        let reached = match self.reach(way).await {
            Ok(reached) => reached,
            Err(error) => return given_up(opening, error),
        };
        let long = reached.round_trip.max(host.wait());
        let offer = self.shared.config.http_version.alpn_offer(true, long);
        if offer == AlpnOffer::Http1 {
            // Known before the handshake: nobody need wait for that.
            opening.separate(Http2Ineligible::near());
            let reached = self.secure(way, reached, offer).await?;
            return self.apart(way, reached, route).await;
        }
        match self.agree(way, reached, offer).await {
            Ok(NegotiatedProtocol::Http2(connection, came)) => {
                let slot = opening.shared(connection);
                self.shared.hosts.opened();
                Ok(ConnectOutcome::Shared(slot, came))
            }
            Ok(NegotiatedProtocol::Http1(reached)) => {
                opening.separate(Http2Ineligible::Lasting);
                self.apart(way, reached, route).await
            }
            Err(error) => given_up(opening, error),
        }
    }

    /// TLS, and what it says of the version.
    async fn agree(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        offer: AlpnOffer,
    ) -> Result<NegotiatedProtocol, Error> {
        let reached = self.secure(way, reached, offer).await?;
        if !reached.stream.is_http2() {
            return Ok(NegotiatedProtocol::Http1(reached));
        }
        let came = ConnectStats::new(&reached);
        match Http2Connection::over(reached.stream).await {
            Ok(connection) => Ok(NegotiatedProtocol::Http2(connection, came)),
            Err(error) => Err(ExchangeError::Http2(error).into_error(way.url)),
        }
    }

    /// A connection for one request at a time.
    async fn apart(
        &self,
        way: &Route<'_>,
        reached: ConnectedStream,
        route: &RouteKey,
    ) -> Result<ConnectOutcome, Error> {
        let ready = self.own(way, reached, Arc::new(route.clone())).await?;
        Ok(ConnectOutcome::Own(Box::new(ready)))
    }

    async fn send_shared(
        &self,
        way: &Route<'_>,
        fetch: &FetchRequest<'_>,
        (slot, mut came): (StreamLease, ConnectStats),
    ) -> Result<(FetchResponse, RequestAuthorizations), UnansweredRequest> {
        let config = &self.shared.config;
        let shown = self.shown(way, fetch.user_url);
        let request = request(config, way, fetch, &shown)
            .and_then(|request| http2(request, way.url))
            .map_err(UnansweredRequest::lasting)?;
        let authorized = request.headers().contains_key(AUTHORIZATION);
        let begun = Instant::now();
        let sent =
            multiplexed::Http2Body::of(slot, request, ReadTimeout::new(config.stall_timeout)).await;
        let (head, body) = sent
            .map_err(|broke| UnansweredRequest::new(broke, came.timings.reused, way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        let answer = answer(way, head, (came, authorized), ResponseBody::Shared(body));
        Ok((answer, shown))
    }
}

/// A connection could not be made: those that are there must do, or it is an error.
fn given_up(opening: ConnectionReservation, error: Error) -> Result<ConnectOutcome, Error> {
    if opening.failed(&error) {
        Ok(ConnectOutcome::Enough)
    } else {
        Err(error)
    }
}

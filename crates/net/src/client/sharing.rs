//! One request over a connection that others use, too, where the origin has HTTP/2 and the way is long enough.

use std::sync::Arc;

use haul_plan::{Http, Offer};
use http::header::AUTHORIZATION;
use tokio::time::{Instant, timeout};

use super::Client;
use super::config::Fetch;
use super::exchange::{Came, Ready, answer};
use crate::answer::{Answer, Timings};
use crate::body::Body;
use crate::broke::Broke;
use crate::connector::{Reached, Target};
use crate::error::{Error, Kind};
use crate::multiplexed::{
    self, Apart, Connection, Host, Opening, Remedy, Slot, Turn, Unanswered, http2,
};
use crate::request::{AllShown, request};
use crate::route::{Route, Way};
use crate::stall::Stall;

/// What came of making a connection.
enum Opened {
    /// Others may use it, too.
    Shared(Slot, Came),
    /// It is for one request at a time.
    Own(Box<Ready>),
    /// There will be no other besides those that are there.
    Enough,
}

/// What TLS has agreed on.
enum Agreed {
    Http1(Reached),
    Http2(Connection, Came),
}

impl Client {
    /// One request over a shared connection, or over one of its own where it turns out that none can be shared. What the
    /// origin never looked at is sent once more, and over HTTP/1.1 besides if it wants that: none is shared after that word.
    pub(super) async fn share(
        &self,
        way: &Way<'_>,
        fetch: &Fetch<'_>,
        route: Route,
    ) -> Result<(Answer, AllShown), Error> {
        let host = self.shared.hosts.of(&route);
        let mut again = true;
        loop {
            let (slot, came) = match self.turn(way, &host).await? {
                Turn::Separate => return self.share_nothing(way, fetch, (route, &host)).await,
                Turn::Shared(slot) => (slot, Came::reused()),
                Turn::Open(opening) => {
                    match Box::pin(self.open(way, (&route, &host), opening)).await? {
                        Opened::Shared(slot, came) => (slot, came),
                        Opened::Own(ready) => {
                            let (answer, shown) = self.send(way, fetch, *ready).await?;
                            self.learn(&host, answer.timings);
                            return Ok((answer, shown));
                        }
                        Opened::Enough => continue,
                    }
                }
            };
            match self.send_shared(way, fetch, (slot, came)).await {
                Ok(answered) => return Ok(answered),
                Err(Unanswered { error, remedy }) => match remedy {
                    Remedy::Again | Remedy::AgainWithFewer if again => again = false,
                    Remedy::Separately if self.shared.config.http == Http::Auto => host.separate(),
                    _ => return Err(error),
                },
            }
        }
    }

    /// One request over a connection of its own, where it might share one if the way were known to be long.
    async fn share_nothing(
        &self,
        way: &Way<'_>,
        fetch: &Fetch<'_>,
        (route, host): (Route, &Host),
    ) -> Result<(Answer, AllShown), Error> {
        let (mut answer, shown) = self.ask_alone(way, fetch, route).await?;
        self.learn(host, answer.timings);
        // Another's request may have brought a connection to share meanwhile: for whoever comes next.
        answer.multiplexed = host.streams();
        Ok((answer, shown))
    }

    /// What a connection of its own tells about how long the way is: its handshake, and the wait for its answer.
    fn learn(&self, host: &Host, timings: Timings) {
        let http = self.shared.config.http;
        let is_long = |wait| http.offer(true, wait) != Offer::Http1;
        if !timings.reused {
            host.waited(timings.tls, is_long);
        }
        host.waited(timings.first_byte, is_long);
    }

    /// Waits for a turn: as long as a connection may take, and then until somebody is stalled who takes up the room.
    async fn turn(&self, way: &Way<'_>, host: &Arc<Host>) -> Result<Turn, Error> {
        let config = &self.shared.config;
        let limit = config.connector.connect_timeout + config.stall_timeout;
        if let Ok(turn) = timeout(limit, host.turn()).await {
            return turn.map_err(|failure| failure.of(way.url));
        }
        let target = Target::of(way.url).map(|target| target.to_string());
        let target = target.unwrap_or_default();
        let late = if host.is_connected() {
            Kind::NoRoom(target)
        } else {
            Kind::ConnectTimeout(target)
        };
        Err(Error::new(late, way.url))
    }

    /// Makes the connection that others wait for.
    async fn open(
        &self,
        way: &Way<'_>,
        (route, host): (&Route, &Host),
        opening: Opening,
    ) -> Result<Opened, Error> {
        let reached = match self.reach(way).await {
            Ok(reached) => reached,
            Err(error) => return given_up(opening, error),
        };
        let long = reached.round_trip.max(host.wait());
        let offer = self.shared.config.http.offer(true, long);
        if offer == Offer::Http1 {
            // Known before the handshake: nobody need wait for that.
            opening.separate(Apart::near());
            let reached = self.secure(way, reached, offer).await?;
            return self.apart(way, reached, route).await;
        }
        match self.agree(way, reached, offer).await {
            Ok(Agreed::Http2(connection, came)) => {
                let slot = opening.shared(connection);
                self.shared.hosts.opened();
                Ok(Opened::Shared(slot, came))
            }
            Ok(Agreed::Http1(reached)) => {
                opening.separate(Apart::Lasting);
                self.apart(way, reached, route).await
            }
            Err(error) => given_up(opening, error),
        }
    }

    /// TLS, and what it says of the version.
    async fn agree(&self, way: &Way<'_>, reached: Reached, offer: Offer) -> Result<Agreed, Error> {
        let reached = self.secure(way, reached, offer).await?;
        if !reached.stream.is_http2() {
            return Ok(Agreed::Http1(reached));
        }
        let came = Came::new(&reached);
        match Connection::over(reached.stream).await {
            Ok(connection) => Ok(Agreed::Http2(connection, came)),
            Err(error) => Err(Broke::Http2(error).into_error(way.url)),
        }
    }

    /// A connection for one request at a time.
    async fn apart(&self, way: &Way<'_>, reached: Reached, route: &Route) -> Result<Opened, Error> {
        let ready = self.own(way, reached, Arc::new(route.clone())).await?;
        Ok(Opened::Own(Box::new(ready)))
    }

    async fn send_shared(
        &self,
        way: &Way<'_>,
        fetch: &Fetch<'_>,
        (slot, mut came): (Slot, Came),
    ) -> Result<(Answer, AllShown), Unanswered> {
        let config = &self.shared.config;
        let shown = self.shown(way, fetch.given);
        let request = request(config, way, fetch, &shown)
            .and_then(|request| http2(request, way.url))
            .map_err(Unanswered::lasting)?;
        let authorized = request.headers().contains_key(AUTHORIZATION);
        let begun = Instant::now();
        let sent = multiplexed::Body::of(slot, request, Stall::new(config.stall_timeout)).await;
        let (head, body) = sent
            .map_err(|broke| Unanswered::new(broke, came.timings.reused, way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        let answer = answer(way, head, (came, authorized), Body::Shared(body));
        Ok((answer, shown))
    }
}

/// A connection could not be made: those that are there must do, or it is an error.
fn given_up(opening: Opening, error: Error) -> Result<Opened, Error> {
    if opening.failed(&error) {
        Ok(Opened::Enough)
    } else {
        Err(error)
    }
}

//! One request over one connection: a resting one or a new one. Where requests may share one, `sharing` goes on from here.

use std::net::SocketAddr;
use std::sync::Arc;

use haul_plan::Offer;
use http::response::Parts;

use super::Client;
use super::config::Fetch;
use crate::answer::{Answer, Timings};
use crate::body::{Body, Own};
use crate::broke::Broke;
use crate::connection::Connection;
use crate::connector::{Reached, Target};
use crate::error::{Error, Kind};
use crate::offered::Peer;
use crate::request::{AllShown, request};
use crate::route::{Route, Way};
use crate::secret::without_credentials;
use crate::stall::Stall;

/// A connection and how it came about.
pub(super) struct Ready {
    connection: Connection,
    route: Arc<Route>,
    came: Came,
}

/// How a connection came about.
#[derive(Default)]
pub(super) struct Came {
    pub(super) timings: Timings,
    /// The TCP peer, if it is new.
    pub(super) peer: Option<SocketAddr>,
}

impl Came {
    /// It was there.
    pub(super) fn reused() -> Self {
        let timings = Timings {
            reused: true,
            ..Timings::default()
        };
        Self {
            timings,
            peer: None,
        }
    }

    /// It is new.
    pub(super) fn new(reached: &Reached) -> Self {
        let timings = Timings {
            dns: reached.dns,
            connect: reached.connect,
            tls: reached.tls,
            ..Timings::default()
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
        way: &Way<'_>,
        fetch: &Fetch<'_>,
    ) -> Result<(Answer, AllShown), Error> {
        let route = way.route(&self.shared.config);
        if way.is_secure() && self.shared.config.http.may_share(fetch.shared) {
            Box::pin(self.share(way, fetch, route)).await
        } else {
            self.ask_alone(way, fetch, route).await
        }
    }

    /// One request over a connection of its own; a resting one that was closed is replaced once.
    pub(super) async fn ask_alone(
        &self,
        way: &Way<'_>,
        fetch: &Fetch<'_>,
        route: Route,
    ) -> Result<(Answer, AllShown), Error> {
        let route = match self.shared.pool.take(&route) {
            None => Arc::new(route),
            Some((route, connection)) => {
                let ready = Ready {
                    connection,
                    route: Arc::clone(&route),
                    came: Came::reused(),
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

    async fn connect(&self, way: &Way<'_>, route: Arc<Route>) -> Result<Ready, Error> {
        let mut reached = self.reach(way).await?;
        if way.is_secure() {
            reached = self.secure(way, reached, Offer::Http1).await?;
        }
        self.own(way, reached, route).await
    }

    /// A stream on the way, TLS with the origin still to come.
    pub(super) async fn reach(&self, way: &Way<'_>) -> Result<Reached, Error> {
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
        way: &Way<'_>,
        reached: Reached,
        offer: Offer,
    ) -> Result<Reached, Error> {
        let target = target(way)?;
        let peer = Peer {
            host: &target.host,
            standing: way.standing,
            offer,
        };
        self.shared.connector.secure(reached, peer, way.url).await
    }

    /// A connection for one request at a time.
    pub(super) async fn own(
        &self,
        way: &Way<'_>,
        reached: Reached,
        route: Arc<Route>,
    ) -> Result<Ready, Error> {
        let came = Came::new(&reached);
        let stall = Stall::new(self.shared.config.stall_timeout);
        let connection = Connection::over(reached.stream, stall).await;
        let connection = connection.map_err(|error| Broke::Http1(error).into_error(way.url))?;
        Ok(Ready {
            connection,
            route,
            came,
        })
    }

    pub(super) async fn send(
        &self,
        way: &Way<'_>,
        fetch: &Fetch<'_>,
        ready: Ready,
    ) -> Result<(Answer, AllShown), Error> {
        let Ready {
            mut connection,
            route,
            mut came,
        } = ready;
        let shown = self.shown(way, fetch.given);
        let request = request(&self.shared.config, way, fetch, &shown)?;
        let authorized = request.headers().contains_key(http::header::AUTHORIZATION);
        let begun = connection.stall.begin();
        let sent = connection.send(request).await;
        let (head, incoming) = sent
            .map_err(|broke| broke.into_error(way.url))?
            .into_parts();
        came.timings.first_byte = begun.elapsed();
        connection.stall.rest();
        let body = Body::Own(Own {
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
    way: &Way<'_>,
    head: Parts,
    (came, authorized): (Came, bool),
    body: Body,
) -> Answer {
    Answer {
        status: head.status,
        headers: head.headers,
        url: without_credentials(way.url),
        redirected: false,
        authorized,
        peer: came.peer,
        timings: came.timings,
        multiplexed: match &body {
            Body::Own(_) => None,
            Body::Shared(body) => Some(body.streams()),
        },
        body,
    }
}

/// Where TCP, or a proxy, is to lead.
fn target(way: &Way<'_>) -> Result<Target, Error> {
    Target::of(way.url).ok_or_else(|| Error::new(Kind::Request, way.url))
}

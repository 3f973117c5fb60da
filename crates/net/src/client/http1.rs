//! One request over an HTTP/1.1 connection of its own: an idle one, or a new one.

use std::sync::Arc;

use haul_plan::AlpnOffer;
use http::header::{IF_MATCH, IF_NONE_MATCH};

use super::{Client, ConnectStats, Exchange, SentCredentials};
use crate::connector::ConnectedStream;
use crate::error::{Error, Kind};
use crate::http1::{Http1Body, Http1Connection};
use crate::request::{FetchRequest, RangeByRoundTrip, RouteKey, RoutedRequest};
use crate::response::FetchBody;

/// A connection that can take a request.
pub(super) struct ReadyConnection {
    connection: Box<Http1Connection>,
    route: Arc<RouteKey>,
    stats: ConnectStats,
}

impl Client {
    /// Sends a request. An idle connection that turns out to be closed is replaced once.
    pub(super) async fn exchange_http1(
        &self,
        request: &RoutedRequest<'_>,
        route: RouteKey,
    ) -> Result<Exchange, Error> {
        let route = match self.state.http1_pool.take(&route) {
            None => Arc::new(route),
            Some((route, connection)) => {
                let ready = ReadyConnection {
                    connection,
                    route: Arc::clone(&route),
                    stats: ConnectStats::reused(),
                };
                match self.send_http1(request, ready).await {
                    // The origin closed the connection while the request was on its way.
                    Err(error) if may_repeat(request, &error) => route,
                    done => return done,
                }
            }
        };
        // Boxed, since connecting is rare in a batch and its future is large.
        let ready = Box::pin(self.connect_http1(request, route)).await?;
        let sent = self.send_http1(request, ready).await;
        // Either the proxy failed here or the origin behind it, so the error names the proxy.
        sent.map_err(|error| match request.absolute_form_proxy() {
            Some(proxy) => error.with_proxy(proxy.name()),
            None => error,
        })
    }

    /// Makes a connection for requests like this one, and keeps it idle, unless there are idle ones already.
    pub(super) async fn connect_http1_ahead(
        &self,
        request: &RoutedRequest<'_>,
    ) -> Result<(), Error> {
        let route = Arc::new(request.route_key(&self.state.config));
        if self.state.http1_pool.has_idle(&route) {
            return Ok(());
        }
        let ready = Box::pin(self.connect_http1(request, route)).await?;
        self.state.http1_pool.put(ready.route, ready.connection);
        Ok(())
    }

    async fn connect_http1(
        &self,
        request: &RoutedRequest<'_>,
        route: Arc<RouteKey>,
    ) -> Result<ReadyConnection, Error> {
        let mut stream = self.connect_stream(request).await?;
        if request.is_tls() {
            stream = self.start_tls(request, stream, AlpnOffer::Http1).await?;
        }
        Ok(self.http1_connection(stream, route))
    }

    /// Makes a stream an HTTP/1.1 connection.
    pub(super) fn http1_connection(
        &self,
        stream: ConnectedStream,
        route: Arc<RouteKey>,
    ) -> ReadyConnection {
        ReadyConnection {
            stats: ConnectStats::new(&stream),
            connection: Box::new(Http1Connection::new(stream.stream, stream.round_trip)),
            route,
        }
    }

    pub(super) async fn send_http1(
        &self,
        request: &RoutedRequest<'_>,
        ready: ReadyConnection,
    ) -> Result<Exchange, Error> {
        let ReadyConnection {
            mut connection,
            route,
            mut stats,
        } = ready;
        let fetch = request.fetch;
        let range = match fetch.range_by_round_trip {
            Some(RangeByRoundTrip(choose)) => Some(choose(connection.connect_time)),
            None => fetch.range.clone(),
        };
        let (head, authorizations) = self.build_head(request, range.as_ref()).await?;
        let sent = SentCredentials::of(head.headers());
        let limits = fetch.silence_limits(&self.state.config);
        let started = connection.read_timeout.start(limits);
        let response = connection.send(head).await;
        let (head, framing) = response.map_err(|error| error.into_error(request.url))?;
        stats.timings.first_byte = started.elapsed();
        connection.read_timeout.reset();
        let pool = Arc::clone(&self.state.http1_pool);
        let body = FetchBody::Http1(Http1Body::new(framing, connection, route, pool));
        let mut response = stats.into_response(request, head, body, sent);
        response.requested_range = range;
        Ok(Exchange {
            response,
            authorizations,
        })
    }
}

/// Whether a request that failed on a connection that had been idle is sent again: an idempotent one (RFC 9110 9.2.2), or one of
/// which nothing was sent. A PUT with a condition is not idempotent: the second would be refused because of the first, and whoever
/// sent it must know that there were two.
pub(super) fn may_repeat(request: &RoutedRequest<'_>, error: &Error) -> bool {
    let FetchRequest {
        method, headers, ..
    } = request.fetch;
    let is_conditional = headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH);
    let is_idempotent = method.is_safe() || method.is_idempotent() && !is_conditional;
    *error.kind() == Kind::Closed
        && (is_idempotent || error.is_unsent())
        && request.fetch.body.can_be_opened()
}

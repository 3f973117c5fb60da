//! One request over an HTTP/1.1 connection of its own: an idle one, one that is being made ahead, or a new one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::join_all;
use haul_plan::{AlpnOffer, BodyFraming};
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::response::Parts;

use super::{Client, ConnectStats, Exchange, SentCredentials};
use crate::connector::ConnectedStream;
use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::http1::{ComingConnection, Http1Body, Http1Connection};
use crate::request::{FetchRequest, RangeByRoundTrip, ResponseObserver, RouteKey, RoutedRequest};
use crate::request_body::OutgoingBody;
use crate::response::FetchBody;

/// When so many bytes of a response have arrived, and its head cannot be read yet, they are of a TLS record with a large body. In bytes;
/// ten packets carry 14 KB (RFC 6928), and a record has up to 16.
const LARGE_BEGINNING: u64 = 12 << 10;

/// A connection that can take a request.
pub(super) struct ReadyConnection {
    connection: Box<Http1Connection>,
    route: Arc<RouteKey>,
    stats: ConnectStats,
}

impl Client {
    /// Sends a request, over a connection that is idle or coming if there is one. If that turns out to be closed, it is replaced once.
    pub(super) async fn exchange_http1(
        &self,
        request: &RoutedRequest<'_>,
        route: RouteKey,
    ) -> Result<Exchange, Error> {
        let kept = match self.state.http1_pool.take(&route) {
            Some(idle) => Some(idle),
            None => {
                let coming = self.state.http1_coming.next(&route).await;
                let failed = |error: Error| error.for_url(request.url);
                let coming = coming.transpose().map_err(failed)?;
                coming.map(|connection| (Arc::new(route.clone()), connection))
            }
        };
        let route = match kept {
            None => Arc::new(route),
            Some((route, connection)) => {
                let ready = ReadyConnection {
                    stats: ConnectStats::reused(Some(connection.peer)),
                    connection,
                    route: Arc::clone(&route),
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

    /// Makes connections for requests like this one, so that with those that are idle or coming there are so many.
    pub(super) async fn connect_http1_ahead(&self, request: &RoutedRequest<'_>, number: usize) {
        let route = Arc::new(request.route_key(&self.state.config));
        let idle = self.state.http1_pool.idle_count(&route);
        let missing = number.saturating_sub(idle);
        let coming = self.state.http1_coming.announce_up_to(missing, &route);
        let connecting = coming.into_iter();
        join_all(connecting.map(|coming| self.connect_one_ahead(request, &route, coming))).await;
    }

    async fn connect_one_ahead(
        &self,
        request: &RoutedRequest<'_>,
        route: &Arc<RouteKey>,
        coming: ComingConnection<'_, Result<Box<Http1Connection>, Error>>,
    ) {
        let connecting = Box::pin(self.connect_http1(request, Arc::clone(route)));
        let made = connecting.await.map(|ready| ready.connection);
        if let Some(Ok(connection)) = coming.made(made) {
            self.state.http1_pool.put(Arc::clone(route), connection);
        }
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
            connection: Box::new(Http1Connection::new(
                stream.stream,
                stream.round_trip,
                stream.peer,
            )),
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
        let connect_time = connection.connect_time;
        let on_begun = || {
            // The connections of a store's requests are spread over its addresses, each as its request needs it.
            if request.signer.is_none()
                && let Some(ResponseObserver(observe)) = fetch.on_response_begun
            {
                observe(request.url, connect_time);
            }
        };
        let response = send_observed(&mut connection, head, on_begun).await;
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

/// Sends a request, and calls `on_begun` if [a large response](LARGE_BEGINNING) begins before its head can be read.
async fn send_observed(
    connection: &mut Http1Connection,
    head: http::Request<OutgoingBody>,
    on_begun: impl FnOnce(),
) -> Result<(Parts, BodyFraming), ExchangeError> {
    let socket = connection.socket_state.clone();
    let received_before = socket.bytes_received();
    let mut on_begun = Some(on_begun);
    let mut sending = pin!(connection.send(head));
    poll_fn(|cx| {
        let response = sending.as_mut().poll(cx);
        let received = socket.bytes_received() - received_before;
        if response.is_pending()
            && received >= LARGE_BEGINNING
            && let Some(on_begun) = on_begun.take()
        {
            on_begun();
        }
        response
    })
    .await
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

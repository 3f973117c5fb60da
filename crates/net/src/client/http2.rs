//! One request over an HTTP/2 connection that it shares, or over HTTP/1.1 where the host has no HTTP/2 or is too near for it.

use std::sync::Arc;

use haul_plan::HttpVersionChoice;
use tokio::time::{Instant, timeout};

use super::http1::ReadyConnection;
use super::{Client, ConnectStats, Exchange, SentCredentials};
use crate::connector::ConnectedStream;
use crate::error::{Error, Kind};
use crate::exchange_error::{ExchangeError, Http2Retry};
use crate::http2::{
    ConnectionReservation, Http2Body, Http2Connection, Http2Host, StreamDecision, StreamLease,
};
use crate::read_timeout::ReadTimeout;
use crate::request::{RouteKey, RoutedRequest};
use crate::request_head::to_http2;
use crate::response::FetchBody;

/// What came of making a connection.
enum ConnectOutcome {
    Http2(StreamLease, ConnectStats),
    Http1(Box<ReadyConnection>),
    /// There will be no connection beside the existing ones.
    NoMoreConnections,
}

/// A connection by the protocol that TLS agreed on.
enum NegotiatedConnection {
    Http1(ConnectedStream),
    Http2(Http2Connection, ConnectStats),
}

impl Client {
    /// Sends a request. One that the origin never looked at is sent once more, and over HTTP/1.1 if the origin wants that.
    pub(super) async fn exchange_http2(
        &self,
        request: &RoutedRequest<'_>,
        route: RouteKey,
    ) -> Result<Exchange, Error> {
        let config = &self.state.config;
        let host = self.state.http2_pool.host(&route);
        let mut is_retry = false;
        loop {
            let (lease, stats) = match self.wait_for_stream(request, &host).await? {
                StreamDecision::UseHttp1 => return self.exchange_http1(request, route).await,
                StreamDecision::Send(lease) => (lease, ConnectStats::reused(None)),
                StreamDecision::Connect(reservation) => {
                    let connecting = self.connect_http2(request, &route, &host, reservation);
                    match Box::pin(connecting).await? {
                        ConnectOutcome::Http2(lease, stats) => (lease, stats),
                        ConnectOutcome::Http1(ready) => {
                            return self.send_http1(request, *ready).await;
                        }
                        ConnectOutcome::NoMoreConnections => continue,
                    }
                }
            };
            let (head, authorizations) = self
                .build_head(request, request.fetch.range.as_ref())
                .await?;
            let head = to_http2(head, request.url)?;
            let sent = SentCredentials::of(head.headers());
            let started = Instant::now();
            let read_timeout = ReadTimeout::new(request.fetch.silence_limits(config));
            let error = match Http2Body::send(lease, head, read_timeout).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let body = FetchBody::Http2(body);
                    let mut response = stats.into_response(request, head, body, sent);
                    response.timings.first_byte = started.elapsed();
                    if !config.http_version.keeps_http2(response.timings.first_byte) {
                        host.use_http1();
                    }
                    response.max_streams = host.max_streams();
                    return Ok(Exchange {
                        response,
                        authorizations,
                    });
                }
                Err(error) => error,
            };
            match error.http2_retry(stats.timings.reused) {
                Http2Retry::Again if !is_retry => is_retry = true,
                Http2Retry::OverHttp1 if config.http_version == HttpVersionChoice::Auto => {
                    host.use_http1();
                }
                _ => return Err(error.into_error(request.url)),
            }
        }
    }

    /// Waits for a stream: as long as connecting may take, and then until a request without a response must have left its stream.
    async fn wait_for_stream(
        &self,
        request: &RoutedRequest<'_>,
        host: &Arc<Http2Host>,
    ) -> Result<StreamDecision, Error> {
        let config = &self.state.config;
        let silence = config.stall_timeout.max(config.response_timeout);
        let limit = config.connector.connect_timeout + silence;
        if let Ok(decision) = timeout(limit, host.lease()).await {
            return decision.map_err(|failure| failure.for_url(request.url));
        }
        let peer = request.target()?.to_string();
        let kind = if host.is_connected() {
            Kind::ConnectionsBusy(peer)
        } else {
            Kind::ConnectTimeout(peer)
        };
        Err(Error::new(kind, request.url))
    }

    /// Makes the connection that others wait for.
    async fn connect_http2(
        &self,
        request: &RoutedRequest<'_>,
        route: &RouteKey,
        host: &Http2Host,
        reservation: ConnectionReservation,
    ) -> Result<ConnectOutcome, Error> {
        match self.negotiate(request, host).await {
            Ok(NegotiatedConnection::Http2(connection, stats)) => {
                let lease = reservation.connected(connection);
                if !self
                    .state
                    .config
                    .http_version
                    .keeps_http2(stats.timings.tls)
                {
                    host.use_http1();
                }
                self.state.http2_pool.connection_opened();
                Ok(ConnectOutcome::Http2(lease, stats))
            }
            Ok(NegotiatedConnection::Http1(stream)) => {
                reservation.use_http1();
                let route = Arc::new(route.clone());
                let ready = self.http1_connection(stream, route);
                Ok(ConnectOutcome::Http1(Box::new(ready)))
            }
            Err(error) if reservation.failed(&error) => Ok(ConnectOutcome::NoMoreConnections),
            Err(error) => Err(error),
        }
    }

    /// Connects, and lets TLS agree on the protocol.
    async fn negotiate(
        &self,
        request: &RoutedRequest<'_>,
        host: &Http2Host,
    ) -> Result<NegotiatedConnection, Error> {
        let alpn = self.state.config.http_version.alpn_offer(true);
        let stream = self.connect_stream(request).await?;
        host.set_round_trip(stream.round_trip);
        let stream = self.start_tls(request, stream, alpn).await?;
        if !stream.stream.is_http2() {
            return Ok(NegotiatedConnection::Http1(stream));
        }
        let stats = ConnectStats::new(&stream);
        match Http2Connection::handshake(stream.stream).await {
            Ok(connection) => Ok(NegotiatedConnection::Http2(connection, stats)),
            Err(error) => Err(ExchangeError::Http2(error).into_error(request.url)),
        }
    }
}

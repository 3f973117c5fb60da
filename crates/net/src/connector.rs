//! Makes byte streams to peers: name, TCP, proxies, TLS.
//!
//! [`Connector::connect`] makes a stream to a [`Target`], directly or through a chain of proxies; [`Connector::start_tls`] adds
//! TLS with the target. The HTTP client uses both, and the tunnel needs nothing else. One connect timeout covers all steps. Every
//! future here is cancel safe: dropping it closes what it had opened.

mod config;
mod dns;
mod happy_eyeballs;
mod http_proxy;
mod proxy_chain;
mod socks5;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use http::header::PROXY_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::auth::{AuthChallenges, Authorization};
use crate::error::{Error, Kind, TlsProblem};
use crate::proxy::{Proxy, ProxyAuthenticator, is_login_refusal};
use crate::target::{AddressFamily, Target};
use crate::tls::{TlsClient, TlsConfigError, TlsOptions, TlsPeer};
use crate::transport::rate_limit::RateLimit;
use crate::transport::tls_error::is_certificate_refused;
use crate::transport::{TcpTransport, TransportStream, handshake_round_trip};
pub use config::{ConnectorConfig, PinnedAddress, ResolverChoice};
use dns::DnsResolver;
use proxy_chain::ChainProgress;
#[cfg(feature = "fuzzing")]
pub(crate) use {http_proxy::parse_connect_response, socks5::handshake_succeeds};

/// A stream that was made, and how long its steps took.
#[derive(Debug)]
pub struct ConnectedStream {
    pub stream: TransportStream,
    /// The peer of the TCP connection: the target, or the first proxy.
    pub peer: SocketAddr,
    /// Looking up the name.
    pub dns: Duration,
    /// TCP and proxies.
    pub connect: Duration,
    /// How long a round trip takes: as `connect`, but without the time that this process waited for a processor or for another address.
    pub round_trip: Duration,
    /// TLS with the target.
    pub tls: Duration,
}

/// Makes streams. Cloning is cheap and shares the name cache.
#[derive(Debug, Clone)]
pub struct Connector {
    state: Arc<ConnectorState>,
    /// Whether each stream begins with another address of a name.
    spreads_addresses: bool,
}

#[derive(Debug)]
struct ConnectorState {
    config: ConnectorConfig,
    /// How many streams were spread over addresses.
    spread: AtomicUsize,
    dns: DnsResolver,
    tls: TlsClient,
    rate_limit: RateLimit,
    proxy_auth: ProxyAuthenticator,
}

impl Connector {
    /// A connector with these settings; no connection is made yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: ConnectorConfig, tls: TlsOptions) -> Result<Self, TlsConfigError> {
        let state = ConnectorState {
            dns: DnsResolver::new(&config),
            tls: TlsClient::new(tls)?,
            rate_limit: RateLimit::new(config.rate_limit),
            proxy_auth: ProxyAuthenticator::default(),
            config,
            spread: AtomicUsize::new(0),
        };
        Ok(Self {
            state: Arc::new(state),
            spreads_addresses: false,
        })
    }

    /// The same connector, whose streams take turns at the addresses of a name: a store has many servers behind one (row F24).
    #[must_use]
    pub fn spreading_addresses(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            spreads_addresses: true,
        }
    }

    /// The rate limit that all streams share, in bytes a second.
    #[must_use]
    pub fn rate_limit(&self) -> Option<u64> {
        self.state.rate_limit.bytes_per_second()
    }

    /// Whether a stream waits now because of that limit.
    #[must_use]
    pub fn is_rate_limit_reached(&self) -> bool {
        self.state.rate_limit.is_reached()
    }

    /// Changes that rate limit, for streams that are open, too. `None` lifts it. Streams that were taken apart by
    /// [`TransportStream::into_tcp`] go on without one.
    pub fn set_rate_limit(&self, bytes_per_second: Option<u64>) {
        self.state.rate_limit.set(bytes_per_second);
    }

    pub(crate) fn proxy_auth(&self) -> &ProxyAuthenticator {
        &self.state.proxy_auth
    }

    /// The Proxy-Authorization of a request in absolute-form; `None` as long as nothing says that the proxy wants one.
    #[must_use]
    pub fn proxy_authorization(
        &self,
        proxy: &Proxy,
        method: &str,
        url: &str,
    ) -> Option<Authorization> {
        self.proxy_auth().authorize(proxy, method, url)
    }

    /// A proxy answered a request in absolute-form with this status and these header fields, or closed the connection (`None`). Returns the
    /// next Proxy-Authorization, if that was for want of one and another try makes sense; `refused` is what the request carried. Limit the
    /// tries to [`MAX_AUTH_ATTEMPTS`](crate::MAX_AUTH_ATTEMPTS).
    #[must_use]
    pub fn retry_proxy_auth(
        &self,
        proxy: &Proxy,
        response: Option<(StatusCode, &HeaderMap)>,
        refused: Option<&Authorization>,
        method: &str,
        url: &str,
    ) -> Option<Authorization> {
        let challenges = match response {
            Some((status, _)) if !is_login_refusal(status) => return None,
            Some((_, fields)) => AuthChallenges::parse(fields.get_all(PROXY_AUTHENTICATE)),
            None => AuthChallenges::default(),
        };
        self.proxy_auth()
            .retry(proxy, &challenges, refused, method, url)
    }

    /// The error of a proxy's final 407 with these header fields. `is_login_sent` is whether the proxy has seen its login, if there
    /// is one: the challenge may come too late for a request that cannot be sent twice.
    #[must_use]
    pub fn proxy_auth_error(
        &self,
        proxy: &Proxy,
        response_headers: &HeaderMap,
        is_login_sent: bool,
        url: &Url,
    ) -> Error {
        let challenges = AuthChallenges::parse(response_headers.get_all(PROXY_AUTHENTICATE));
        let is_late = proxy.login.is_some() && !is_login_sent;
        let error = self.proxy_auth().error(proxy, &challenges, is_late, url);
        error.with_proxy(proxy.name())
    }

    /// The error of a request in absolute-form whose connection the proxy closed instead of a response: adds that the proxy got its login
    /// unasked, if that may be why.
    #[must_use]
    pub fn explain_close(&self, proxy: &Proxy, error: Error) -> Error {
        if *error.kind() == Kind::Closed && self.proxy_auth().is_unasked(proxy) {
            error.with_unasked_login()
        } else {
            error
        }
    }

    /// The error of an HTTP/1.1 exchange over a stream of this connector, with the proxy that the request was sent to. A stream that
    /// was closed because of the client certificate says so.
    #[must_use]
    pub fn exchange_error(
        proxy: Option<&Proxy>,
        url: &Url,
        kind: Kind,
        reason: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        let kind = match kind {
            Kind::Closed if is_certificate_refused(&reason) => {
                Kind::Tls(TlsProblem::ClientCertificate)
            }
            kind => kind,
        };
        through_proxy(Error::new(kind, url).with_source(reason), proxy)
    }

    /// Makes a stream to a target through these proxies, each of which connects to the next. HTTP proxies get a CONNECT.
    ///
    /// # Errors
    /// Every [`Kind`] of the connect phase; messages name `url`.
    pub async fn connect(
        &self,
        target: &Target,
        proxies: &[&Proxy],
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        match proxies.first() {
            Some(proxy) => self.wait_for_lookup_slot(&proxy.target()).await,
            None => self.wait_for_lookup_slot(target).await,
        }
        let limit = self.state.config.connect_timeout;
        self.connect_with_timeout(limit, target, proxies, url).await
    }

    /// The same in less time than the connect timeout, for callers that have other routes to try. The time includes the wait for a
    /// free lookup slot.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_with_timeout(
        &self,
        limit: Duration,
        target: &Target,
        proxies: &[&Proxy],
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        let first = proxies.first().copied();
        let progress = ChainProgress::new(url);
        let timeout_error = || match first {
            // If the first proxy was reached, the time was lost behind it.
            Some(proxy) if !progress.has_reached_first_proxy() => {
                timeout_error(&proxy.target(), first, url)
            }
            _ => timeout_error(target, first, url),
        };
        let connecting = self.connect_through(target, proxies, &progress);
        with_timeout(limit, connecting, timeout_error).await
    }

    /// Makes a stream to an HTTP proxy itself, for requests in absolute-form.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_to_proxy(
        &self,
        proxy: &Proxy,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        self.wait_for_lookup_slot(&proxy.target()).await;
        let limit = self.state.config.connect_timeout;
        self.connect_to_last_proxy(limit, &[proxy], url).await
    }

    /// Makes a stream to the last of these proxies, through those before it, in less time than the connect timeout. The time
    /// includes the wait for a free lookup slot.
    ///
    /// # Errors
    /// As [`Connector::connect`]; [`Kind::InvalidRequest`] without any proxy.
    pub async fn connect_to_last_proxy(
        &self,
        limit: Duration,
        proxies: &[&Proxy],
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        let (Some((last, before)), Some(first)) = (proxies.split_last(), proxies.first()) else {
            return Err(Error::new(Kind::InvalidRequest, url));
        };
        let progress = ChainProgress::new(url);
        let timeout_error = || {
            if progress.has_reached_first_proxy() {
                timeout_error(&last.target(), Some(first), url)
            } else {
                timeout_error(&first.target(), Some(first), url)
            }
        };
        let connecting = self.connect_to_proxy_through(last, before, &progress);
        with_timeout(limit, connecting, timeout_error).await
    }

    /// Adds TLS with a peer to a stream, in the rest of the connect timeout.
    ///
    /// # Errors
    /// [`Kind::Tls`] with what is wrong, [`Kind::Closed`], [`Kind::ConnectTimeout`].
    pub async fn start_tls(
        &self,
        connected: ConnectedStream,
        peer: TlsPeer<'_>,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        let spent = connected.dns + connected.connect;
        let limit = self.state.config.connect_timeout.saturating_sub(spent);
        self.start_tls_with_timeout(limit, connected, peer, url)
            .await
    }

    /// The same with a timeout of its own.
    ///
    /// # Errors
    /// As [`Connector::start_tls`].
    pub async fn start_tls_with_timeout(
        &self,
        limit: Duration,
        connected: ConnectedStream,
        peer: TlsPeer<'_>,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        // The stream's own peer may be a proxy.
        let target = Target::from_url(url).unwrap_or_else(|| Target {
            host: peer.host.to_owned(),
            port: connected.peer.port(),
        });
        let handshake = async {
            let started = Instant::now();
            let stream = self.state.tls.connect(connected.stream, peer, url).await?;
            Ok(ConnectedStream {
                stream,
                tls: started.elapsed(),
                ..connected
            })
        };
        with_timeout(limit, handshake, || {
            timeout_error(&target, None, url).with_source("TLS was not established")
        })
        .await
    }

    /// Waits until a name may be looked up, where very many are looked up at once. This wait is no part of the connect timeout,
    /// which could else pass before the name servers are asked, but it takes no longer than that either.
    async fn wait_for_lookup_slot(&self, target: &Target) {
        if target.host.parse::<IpAddr>().is_ok() {
            return;
        }
        let slot = self.state.dns.wait_for_slot(target);
        // A timeout here is no error: the lookup itself reports what becomes of the name.
        let _ = timeout(self.state.config.connect_timeout, slot).await;
    }

    /// The addresses of a target in the order in which they are tried, and how long the lookup took.
    async fn resolve(&self, target: &Target, url: &Url) -> Result<(Vec<IpAddr>, Duration), Error> {
        let started = Instant::now();
        let found = self
            .state
            .dns
            .lookup(target)
            .await
            .map_err(|error| error.into_error(&target.host, url))?;
        let family = self.state.config.address_family;
        let turn = if self.spreads_addresses {
            self.state.spread.fetch_add(1, Ordering::Relaxed)
        } else {
            0
        };
        let addresses = happy_eyeballs::interleave_families(&found, family, turn);
        if addresses.is_empty() {
            let host = target.host.clone();
            let kind = match family {
                AddressFamily::Any => Kind::NoSuchHost(host),
                AddressFamily::V4 | AddressFamily::V6 => Kind::NoAddress(host, family),
            };
            return Err(Error::new(kind, url));
        }
        Ok((addresses, started.elapsed()))
    }

    async fn connect_tcp(&self, target: &Target, url: &Url) -> Result<ConnectedStream, Error> {
        let (addresses, dns) = self.resolve(target, url).await?;
        let started = Instant::now();
        let connected = happy_eyeballs::connect(&addresses, target.port, &self.state.config).await;
        let (stream, peer) = connected
            .map_err(|e| Error::new(Kind::Connect(target.to_string()), url).with_source(e))?;
        let connect = started.elapsed();
        let round_trip = handshake_round_trip(stream.as_fd()).map_or(connect, |it| it.min(connect));
        Ok(ConnectedStream {
            stream: TransportStream::Tcp(TcpTransport::new(stream, self.state.rate_limit.clone())),
            peer,
            dns,
            connect,
            round_trip,
            tls: Duration::ZERO,
        })
    }
}

/// Runs a future with a timeout. Not an `async fn`, whose future would have room for `future` twice.
fn with_timeout<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Error>>,
    timeout_error: impl FnOnce() -> Error,
) -> impl Future<Output = Result<T, Error>> {
    timeout(limit, future).map(|result| result.unwrap_or_else(|_| Err(timeout_error())))
}

/// The error of a connection, perhaps through a proxy, that took too long.
fn timeout_error(target: &Target, proxy: Option<&Proxy>, url: &Url) -> Error {
    through_proxy(
        Error::new(Kind::ConnectTimeout(target.to_string()), url),
        proxy,
    )
}

fn through_proxy(error: Error, proxy: Option<&Proxy>) -> Error {
    match proxy {
        Some(proxy) => error.with_proxy(proxy.name()),
        None => error,
    }
}

//! How a byte stream to a peer is made: name, TCP, proxy, TLS.
//!
//! [`Connector::connect`] gives a stream to a [`Target`], straight or through proxies in a row; [`Connector::start_tls`] puts TLS
//! to the target on top of a stream. Both are what the HTTP client uses, and all that a tunnel needs. A connect timeout
//! spans the whole way. Every future here is cancel safe: dropping it closes what it had opened.

mod config;
mod dns;
mod happy_eyeballs;
mod http_proxy;
mod proxy_chain;
mod socks5;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::HeaderMap;
use http::header::PROXY_AUTHENTICATE;
use proxy_chain::ChainProgress;
use tokio::time::{Instant, timeout};
use url::Url;

pub use config::{ConnectorConfig, PinnedAddress, ResolverChoice};
use dns::DnsResolver;

use crate::auth::{AuthCache, AuthChallenges, Authorization};
use crate::error::{Error, Kind};
use crate::exchange_error::ExchangeError;
use crate::proxy::Proxy;
use crate::target::{AddressFamily, Target};
use crate::tls::{TlsClient, TlsConfigError, TlsOptions, TlsPeer};
use crate::transport::rate_limit::RateLimit;
use crate::transport::{TcpTransport, TransportStream};
use happy_eyeballs::SocketOptions;

/// A stream that was made, and how long its steps took.
#[derive(Debug)]
pub struct ConnectedStream {
    /// The stream.
    pub stream: TransportStream,
    /// The peer of the TCP connection: the target, or the proxy.
    pub peer: SocketAddr,
    /// Looking up the name.
    pub dns: Duration,
    /// From there until the stream was usable, proxies included.
    pub connect: Duration,
    /// TLS with the target.
    pub tls: Duration,
    /// About a journey there and back: how long TCP took with the address that answered, or through a proxy the whole way.
    pub round_trip: Duration,
}

/// Makes streams. Cloning is cheap and shares the name cache.
#[derive(Debug, Clone)]
pub struct Connector {
    shared: Arc<ConnectorState>,
}

#[derive(Debug)]
struct ConnectorState {
    config: ConnectorConfig,
    dns: DnsResolver,
    tls: TlsClient,
    rate_limit: Option<RateLimit>,
    /// What each HTTP proxy wants to see.
    proxy_auth: AuthCache,
}

impl Connector {
    /// One that makes streams with these settings; no connection is made yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: ConnectorConfig, tls: TlsOptions) -> Result<Self, TlsConfigError> {
        let dns = DnsResolver::new(
            config.pinned_addresses.clone(),
            (config.resolver, config.dns_servers.clone()),
            config.connect_timeout,
        );
        let limit = config.rate_limit.map(RateLimit::new);
        let shared = ConnectorState {
            config,
            dns,
            tls: TlsClient::new(tls)?,
            rate_limit: limit,
            proxy_auth: AuthCache::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Whether all streams together are held to a rate.
    #[must_use]
    pub fn has_rate_limit(&self) -> bool {
        self.shared.rate_limit.is_some()
    }

    /// What HTTP proxies want to see: learnt on CONNECT and on requests in absolute-form alike.
    pub(crate) fn proxy_auth(&self) -> &AuthCache {
        &self.shared.proxy_auth
    }

    /// What a request in absolute-form - its method and its URL - shows to a proxy; nothing as long as that has not asked for anything.
    #[must_use]
    pub fn proxy_authorization(
        &self,
        proxy: &Proxy,
        request: (&str, &str),
    ) -> Option<Authorization> {
        let login = proxy.login.as_ref()?;
        self.proxy_auth()
            .authorize(&proxy.auth_key(), login, request)
    }

    /// A proxy has answered 407, with these fields, to a request that showed it `shown`: what to show it next, if that is worth a
    /// try. No request is sent more often than [`ASKS`](crate::ASKS) says.
    #[must_use]
    pub fn retry_proxy_auth(
        &self,
        (proxy, fields): (&Proxy, &HeaderMap),
        shown: Option<&Authorization>,
        request: (&str, &str),
    ) -> Option<Authorization> {
        let challenges = AuthChallenges::parse(fields.get_all(PROXY_AUTHENTICATE));
        let login = proxy.login.as_ref()?;
        self.proxy_auth()
            .retry(&proxy.auth_key(), (&challenges, shown), (login, request))
    }

    /// What a proxy's 407, with these fields, is to whoever has nothing else to show it. `is_shown` is whether it has seen the login, if
    /// there is one; a request that cannot be sent twice may be asked too late.
    #[must_use]
    pub fn proxy_auth_error(
        (proxy, fields): (&Proxy, &HeaderMap),
        is_shown: bool,
        url: &Url,
    ) -> Error {
        let challenges = AuthChallenges::parse(fields.get_all(PROXY_AUTHENTICATE));
        let is_late = proxy.login.is_some() && !is_shown;
        http_proxy::proxy_auth_error(&challenges, is_late, url).with_proxy(proxy.name())
    }

    /// The error of a request that was passed on and has no response, since hyper's connection with the origin or this proxy failed.
    #[must_use]
    pub fn exchange_error(proxy: Option<&Proxy>, url: &Url, error: hyper::Error) -> Error {
        let error = ExchangeError::Http1(error).into_error(url);
        match proxy {
            Some(proxy) => error.with_proxy(proxy.name()),
            None => error,
        }
    }

    /// The error of a request that was passed on and whose response is HTTP, but cannot be passed on for this reason.
    #[must_use]
    pub fn protocol_error(
        proxy: Option<&Proxy>,
        url: &Url,
        reason: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        let error = Error::new(Kind::Protocol, url).with_source(reason);
        match proxy {
            Some(proxy) => error.with_proxy(proxy.name()),
            None => error,
        }
    }

    /// A stream to a target, by way of these proxies, each of which is asked for the next. HTTP proxies are asked to CONNECT.
    ///
    /// # Errors
    /// Every [`Kind`] of the connect phase; `url` is what the error speaks of.
    pub async fn connect(
        &self,
        target: &Target,
        proxies: &[&Proxy],
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        match proxies.first() {
            Some(proxy) => self.wait_for_lookup_slot(&proxy_target(proxy)).await,
            None => self.wait_for_lookup_slot(target).await,
        }
        let limit = self.shared.config.connect_timeout;
        self.connect_with_timeout(limit, target, (proxies, url))
            .await
    }

    /// The same in less time than the connect timeout, a name's turn to be looked up included: whoever has several ways to try cannot
    /// give all of it to the first.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_with_timeout(
        &self,
        limit: Duration,
        target: &Target,
        (proxies, url): (&[&Proxy], &Url),
    ) -> Result<ConnectedStream, Error> {
        let first = proxies.first().copied();
        let errand = ChainProgress::new(url);
        let late = || match first {
            // Told apart from a target that is slow: then it is not the proxy that is at fault.
            Some(proxy) if !errand.has_reached_first_proxy() => {
                timeout_error(&proxy_target(proxy), first, url)
            }
            _ => timeout_error(target, first, url),
        };
        with_timeout(limit, self.connect_through(target, proxies, &errand), late).await
    }

    /// A stream to an HTTP proxy itself, for requests in absolute-form.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_to_proxy(
        &self,
        proxy: &Proxy,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        self.wait_for_lookup_slot(&proxy_target(proxy)).await;
        let limit = self.shared.config.connect_timeout;
        self.connect_to_last_proxy(limit, &[proxy], url).await
    }

    /// The same, by way of the proxies before it, in less time than the connect timeout, a name's turn included. Without any there is
    /// nothing to connect to, which is [`Kind::InvalidRequest`].
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_to_last_proxy(
        &self,
        limit: Duration,
        proxies: &[&Proxy],
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        let (Some((last, before)), Some(first)) = (proxies.split_last(), proxies.first()) else {
            return Err(Error::new(Kind::InvalidRequest, url));
        };
        let errand = ChainProgress::new(url);
        let late = || match errand.has_reached_first_proxy() {
            true => timeout_error(&proxy_target(last), Some(first), url),
            false => timeout_error(&proxy_target(first), Some(first), url),
        };
        with_timeout(
            limit,
            self.connect_to_proxy_through(last, before, &errand),
            late,
        )
        .await
    }

    /// TLS with a host on top of a stream. Its time is what the way there has left of the connect timeout.
    ///
    /// # Errors
    /// [`Kind::Tls`] with what is wrong, [`Kind::Closed`], [`Kind::ConnectTimeout`].
    pub async fn start_tls(
        &self,
        reached: ConnectedStream,
        peer: TlsPeer<'_>,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        let spent = reached.dns + reached.connect;
        let left = self.shared.config.connect_timeout.saturating_sub(spent);
        self.start_tls_with_timeout(left, reached, (peer, url))
            .await
    }

    /// The same in a time of its own.
    ///
    /// # Errors
    /// As [`Connector::start_tls`].
    pub async fn start_tls_with_timeout(
        &self,
        limit: Duration,
        reached: ConnectedStream,
        (peer, url): (TlsPeer<'_>, &Url),
    ) -> Result<ConnectedStream, Error> {
        // The peer of the stream may be a proxy.
        let target = Target::from_url(url).unwrap_or_else(|| Target {
            host: peer.host.to_owned(),
            port: reached.peer.port(),
        });
        let way = async {
            let begun = Instant::now();
            let stream = self.shared.tls.connect(reached.stream, peer, url).await?;
            Ok(ConnectedStream {
                stream,
                tls: begun.elapsed(),
                ..reached
            })
        };
        with_timeout(limit, way, || timeout_error(&target, None, url)).await
    }

    /// Waits until a name's turn has come, where very many are looked up at once. That is no part of its connection's time, which
    /// would else be over before it was asked for; but it is not waited for longer than that either.
    async fn wait_for_lookup_slot(&self, target: &Target) {
        if self.shared.dns.is_address(target) {
            return;
        }
        let turn = self.shared.dns.wait_for_slot(target);
        // What becomes of the name is seen when it is wanted.
        let _ = timeout(self.shared.config.connect_timeout, turn).await;
    }

    async fn resolve(
        &self,
        target: &Target,
        url: &Url,
    ) -> Result<(Vec<std::net::IpAddr>, Duration), Error> {
        let begun = Instant::now();
        let found = self.shared.dns.lookup(target).await;
        let addresses = found.map_err(|failure| failure.into_error(&target.host, url))?;
        let addresses =
            happy_eyeballs::interleave_families(&addresses, self.shared.config.address_family);
        if addresses.is_empty() {
            let kind = match self.shared.config.address_family {
                AddressFamily::Any => Kind::NoSuchHost(target.host.clone()),
                only => Kind::NoAddress(target.host.clone(), only),
            };
            return Err(Error::new(kind, url));
        }
        Ok((addresses, begun.elapsed()))
    }

    async fn connect_tcp(&self, target: &Target, url: &Url) -> Result<ConnectedStream, Error> {
        let (addresses, dns) = self.resolve(target, url).await?;
        let begun = Instant::now();
        let limit = self.shared.rate_limit.as_ref();
        let options = SocketOptions {
            keepalive: self.shared.config.keepalive,
            receive_buffer: limit.map(RateLimit::receive_buffer),
        };
        let connected = happy_eyeballs::connect(&addresses, target.port, options).await;
        let met = connected
            .map_err(|e| Error::new(Kind::Connect(target.to_string()), url).with_source(e))?;
        Ok(ConnectedStream {
            stream: TransportStream::Tcp(TcpTransport::new(met.stream, limit.cloned())),
            peer: met.address,
            dns,
            connect: begun.elapsed(),
            tls: Duration::ZERO,
            round_trip: met.elapsed,
        })
    }
}

/// What is done within so long, or else the error that says that it was not. No `async fn`: that would have room for the way twice.
fn with_timeout<T>(
    limit: Duration,
    way: impl Future<Output = Result<T, Error>>,
    late: impl FnOnce() -> Error,
) -> impl Future<Output = Result<T, Error>> {
    timeout(limit, way).map(|done| done.unwrap_or_else(|_| Err(late())))
}

/// There was no connection in time, by way of a proxy perhaps.
fn timeout_error(target: &Target, proxy: Option<&Proxy>, url: &Url) -> Error {
    let error = Error::new(Kind::ConnectTimeout(target.to_string()), url);
    match proxy {
        Some(proxy) => error.with_proxy(proxy.name()),
        None => error,
    }
}

/// Where a proxy is.
fn proxy_target(proxy: &Proxy) -> Target {
    Target {
        host: proxy.host.clone(),
        port: proxy.port,
    }
}

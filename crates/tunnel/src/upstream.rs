//! How a target is reached: through upstream proxies by one of several routes, or directly.
//!
//! [`Upstream::connect`] tries the routes in the order of [`UpstreamRoutes`], each with its share of the connect timeout, and reports
//! success and failure back. The streams come from `net`'s connector, which speaks with each kind of proxy; [`error`] says what a failure
//! means for the other routes.

mod error;
mod routes;
#[cfg(test)]
mod tests;
mod unchallenged;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_net::{
    AlpnOffer, ConnectedStream, Connector, ConnectorConfig, CredentialScope, Error, NoProxy, Proxy,
    Target, TlsOptions, TlsPeer, TransportStream,
};
use tokio::time::Instant;
use url::Url;

use error::{MAX_ROUTES, route_failure};
pub use error::{UpstreamConfigError, UpstreamConnectError};
use routes::{RouteFailure, UpstreamRoute, UpstreamRoutes, attempt_timeout};
use unchallenged::UnchallengedProxies;

/// How targets are reached.
#[derive(Debug, Clone, Default)]
pub struct UpstreamOptions {
    /// A chain of proxies, each of which connects to the next. At each place are its alternatives, the preferred one first. Without any,
    /// targets are reached directly.
    pub proxies: Vec<Vec<Proxy>>,
    /// Targets that are reached directly.
    pub no_proxy: NoProxy,
    /// Whether a target is reached directly when no proxy can be reached.
    pub direct_fallback: bool,
    /// Whether there is TLS with the target, for clients that have none.
    pub target_tls: bool,
    /// Name resolution, addresses and timeouts.
    pub connector: ConnectorConfig,
    /// Whom to trust and which certificate to show where there is TLS with the target.
    pub tls: TlsOptions,
}

/// Reaches targets. All connections of a tunnel share one, and what it learns about its proxies.
#[derive(Debug)]
pub struct Upstream {
    connector: Connector,
    /// The proxies of each route.
    chains: Vec<ProxyChain>,
    /// Which route is tried first.
    routes: Mutex<UpstreamRoutes>,
    /// What `routes` counts time from.
    epoch: Instant,
    no_proxy: NoProxy,
    target_tls: bool,
    /// For a connection, however many routes are tried.
    connect_timeout: Duration,
    /// The direct route's name in the log.
    direct: Arc<str>,
    unchallenged: UnchallengedProxies,
}

/// The proxies of one route.
#[derive(Debug)]
struct ProxyChain {
    proxies: Vec<Proxy>,
    /// Its name in the log.
    name: Arc<str>,
}

/// What a stream is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPurpose {
    /// Any bytes: proxies get a CONNECT for the target.
    Tunnel,
    /// Requests for `http` URLs. The last HTTP proxy of a route takes them in absolute-form: many proxies let CONNECT through to port 443
    /// alone. Where there is TLS with the target, no proxy could read them, and they go through a tunnel.
    HttpRequest,
}

/// A stream to a target, or to the proxy that takes requests for it.
#[derive(Debug)]
pub struct UpstreamConnection {
    pub stream: TransportStream,
    /// The route's name in the log.
    pub via: Arc<str>,
    /// The proxy that the stream leads to, if that takes requests in absolute-form; `None`: it leads to the target.
    pub http_proxy: Option<Proxy>,
    /// The target's URL, for errors.
    pub url: Url,
}

/// One attempt to reach a target.
struct ConnectAttempt<'a> {
    target: &'a Target,
    purpose: StreamPurpose,
    url: &'a Url,
    /// When the first attempt began.
    started: Instant,
    /// What this one may take.
    timeout: Duration,
}

impl Upstream {
    /// Checks the options; no connection is made yet.
    ///
    /// # Errors
    /// More alternatives than can be tried; certificates and keys that cannot be used.
    pub fn new(options: UpstreamOptions) -> Result<Self, UpstreamConfigError> {
        let chains = chains(options.proxies)?;
        let connect_timeout = options.connector.connect_timeout;
        Ok(Self {
            routes: Mutex::new(UpstreamRoutes::new(chains.len(), options.direct_fallback)),
            connector: Connector::new(options.connector, options.tls)?,
            chains,
            epoch: Instant::now(),
            no_proxy: options.no_proxy,
            target_tls: options.target_tls,
            connect_timeout,
            direct: "direct".into(),
            unchallenged: UnchallengedProxies::default(),
        })
    }

    /// A stream to a target. Cancel safe: dropped, it closes what it had opened.
    ///
    /// # Errors
    /// The error of each route that was tried.
    pub async fn connect(
        &self,
        target: &Target,
        purpose: StreamPurpose,
    ) -> Result<UpstreamConnection, UpstreamConnectError> {
        let Some(url) = target.to_url() else {
            return Err(UpstreamConnectError::new(Vec::new()));
        };
        let started = Instant::now();
        let mut routes = self.routes_to(target).into_iter().peekable();
        let mut errors = Vec::new();
        while let Some(route) = routes.next() {
            let left = self.connect_timeout.saturating_sub(started.elapsed());
            // A route without time would not be tried, and nothing would be known of it.
            if left.is_zero() && !errors.is_empty() {
                break;
            }
            let attempt = ConnectAttempt {
                target,
                purpose,
                url: &url,
                started,
                timeout: attempt_timeout(left, routes.len() + 1),
            };
            match self.connect_by(route, attempt).await {
                Ok(connection) => {
                    self.lock_routes().record_success(route);
                    return Ok(connection);
                }
                Err((error, failure)) => {
                    let now = self.epoch.elapsed();
                    self.lock_routes().record_failure(route, failure, now);
                    errors.push(error);
                    while routes.next_if(|next| !failure.allows(*next)).is_some() {}
                }
            }
        }
        Err(UpstreamConnectError::new(errors))
    }

    /// The routes to a target, in the order in which they are tried.
    fn routes_to(&self, target: &Target) -> Vec<UpstreamRoute> {
        if self.bypasses_proxies(target) {
            vec![UpstreamRoute::Direct]
        } else {
            self.lock_routes().order(self.epoch.elapsed())
        }
    }

    async fn connect_by(
        &self,
        route: UpstreamRoute,
        attempt: ConnectAttempt<'_>,
    ) -> Result<UpstreamConnection, (Error, RouteFailure)> {
        let ConnectAttempt {
            target,
            purpose,
            url,
            timeout,
            ..
        } = attempt;
        let chain = match route {
            UpstreamRoute::Proxies(number) => self.chains.get(number),
            UpstreamRoute::Direct => None,
        };
        let proxies: Vec<&Proxy> = chain.iter().flat_map(|chain| &chain.proxies).collect();
        let via = Arc::clone(chain.map_or(&self.direct, |chain| &chain.name));
        let with_failure = |error: Error| {
            let failure = route_failure(&error);
            (error, failure)
        };
        let is_for_proxy = purpose == StreamPurpose::HttpRequest && !self.target_tls;
        if is_for_proxy && proxies.last().is_some_and(|last| last.is_http()) {
            // Boxed, since most connections are tunnels and need no room for it.
            let connecting = (self.connector).connect_to_last_proxy(timeout, &proxies, url);
            let reached = Box::pin(connecting).await.map_err(with_failure)?;
            return Ok(UpstreamConnection {
                stream: reached.stream,
                via,
                http_proxy: proxies.last().copied().cloned(),
                url: url.clone(),
            });
        }
        let connecting = self
            .connector
            .connect_with_timeout(timeout, target, &proxies, url);
        let reached = connecting.await.map_err(with_failure)?;
        let stream = if self.target_tls {
            // What fails from here on fails by any route: no other is tried, and needs to be left time.
            let securing = Box::pin(self.start_target_tls(reached, &attempt));
            securing
                .await
                .map_err(|error| (error, RouteFailure::TargetTls))?
                .stream
        } else {
            reached.stream
        };
        Ok(UpstreamConnection {
            stream,
            via,
            http_proxy: None,
            url: url.clone(),
        })
    }

    async fn start_target_tls(
        &self,
        reached: ConnectedStream,
        attempt: &ConnectAttempt<'_>,
    ) -> Result<ConnectedStream, Error> {
        let peer = TlsPeer {
            host: &attempt.target.host,
            scope: CredentialScope::UserOrigin,
            // The target may speak any protocol.
            alpn: AlpnOffer::None,
        };
        let left = self
            .connect_timeout
            .saturating_sub(attempt.started.elapsed());
        self.connector
            .start_tls_with_timeout(left, reached, peer, attempt.url)
            .await
    }

    /// Whether there is TLS with targets.
    #[must_use]
    pub fn has_target_tls(&self) -> bool {
        self.target_tls
    }

    /// Whether a target is reached without the proxies.
    pub(crate) fn bypasses_proxies(&self, target: &Target) -> bool {
        self.no_proxy.matches(&target.host, target.port)
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Proxies that want no login.
    pub(crate) fn unchallenged(&self) -> &UnchallengedProxies {
        &self.unchallenged
    }

    /// How long a connection may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    fn lock_routes(&self) -> MutexGuard<'_, UpstreamRoutes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One chain for each combination of the alternatives of all places.
fn chains(places: Vec<Vec<Proxy>>) -> Result<Vec<ProxyChain>, UpstreamConfigError> {
    let mut chains: Vec<Vec<Proxy>> = vec![Vec::new()];
    for alternatives in places.into_iter().filter(|place| !place.is_empty()) {
        let longer = chains.iter().flat_map(|chain| {
            alternatives.iter().map(|proxy| {
                let mut chain = chain.clone();
                chain.push(proxy.clone());
                chain
            })
        });
        chains = longer.take(MAX_ROUTES + 1).collect();
    }
    chains.retain(|chain| !chain.is_empty());
    if chains.len() > MAX_ROUTES {
        return Err(UpstreamConfigError::TooManyRoutes);
    }
    let with_name = |proxies: Vec<Proxy>| {
        let names: Vec<String> = proxies.iter().map(Proxy::address).collect();
        ProxyChain {
            name: names.join(" > ").into(),
            proxies,
        }
    };
    Ok(chains.into_iter().map(with_name).collect())
}

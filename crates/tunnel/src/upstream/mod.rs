//! How a target is reached: through the upstream proxies in one of the ways that there are, or straight.
//!
//! [`Upstream::connect`] tries the ways in the order that [`UpstreamRoutes`] has them in, each with its share of the connect timeout, and tells the
//! ways what became of each. The bytes are made by `net`'s connector, which knows how each kind of proxy is spoken to; what a
//! failure means for the next way is in `setback`.

mod setback;
#[cfg(test)]
mod tests;
mod unchallenged;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_net::{
    AlpnOffer, ConnectedStream, Connector, ConnectorConfig, CredentialScope, Error, Kind, NoProxy,
    Proxy, Target, TlsConfigError, TlsOptions, TlsPeer, TransportStream,
};
use haul_plan::tunnel::{RouteFailure, UpstreamRoute, UpstreamRoutes, attempt_timeout};
use tokio::time::Instant;
use url::Url;

use setback::setback;
use unchallenged::UnchallengedProxies;

/// The most ways that alternatives may come to: each of one place with each of the next.
const MOST: usize = 16;

/// How targets are reached.
#[derive(Debug, Clone, Default)]
pub struct UpstreamOptions {
    /// Proxies in a row, each asked for the next; at each place are those that will do, the first one's first. Empty is straight.
    pub proxies: Vec<Vec<Proxy>>,
    /// Targets that are reached straight.
    pub no_proxy: NoProxy,
    /// Whether a target is reached straight when no proxy can be.
    pub direct_fallback: bool,
    /// Whether there is TLS with the target, for clients that have none.
    pub target_tls: bool,
    /// Name, addresses and times.
    pub connector: ConnectorConfig,
    /// Whom to trust, and who we are, where there is TLS with the target.
    pub tls: TlsOptions,
}

/// Why there is no upstream.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamConfigError {
    /// Alternatives of several places multiply.
    #[error("these alternatives come to more than {MOST} ways")]
    TooManyRoutes,
    /// Certificates that cannot be used.
    #[error(transparent)]
    Certificates(#[from] TlsConfigError),
}

/// The way to targets, shared by all connections of a tunnel.
#[derive(Debug)]
pub struct Upstream {
    connector: Connector,
    /// The proxies of each way.
    ways: Vec<ProxyChain>,
    /// Which of them comes first.
    state: Mutex<UpstreamRoutes>,
    /// What `state` counts time from.
    epoch: Instant,
    no_proxy: NoProxy,
    target_tls: bool,
    /// For a connection, whichever ways are tried.
    limit: Duration,
    /// What a log calls the way without proxies.
    straight: Arc<str>,
    /// Proxies that need not be asked what they want to see.
    unchallenged: UnchallengedProxies,
}

/// Proxies in a row.
#[derive(Debug)]
struct ProxyChain {
    proxies: Vec<Proxy>,
    /// What a log calls them.
    name: Arc<str>,
}

/// What a stream is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPurpose {
    /// Any bytes: proxies are asked to connect.
    Tunnel,
    /// One request for an `http` URL, which an HTTP proxy takes as it is: many let CONNECT through to 443 alone. Where there is to be TLS
    /// with the target, it is a tunnel like any other.
    HttpRequest,
}

/// A target that was reached.
#[derive(Debug)]
pub struct UpstreamConnection {
    /// Its stream.
    pub stream: TransportStream,
    /// What a log calls the way.
    pub via: Arc<str>,
    /// The proxy at whose door the stream ends, where that takes requests in absolute-form.
    pub http_proxy: Option<Proxy>,
    /// What errors speak of.
    pub url: Url,
}

/// No way led to the target: the error of each that was tried, in their order.
#[derive(Debug, Clone)]
pub struct UpstreamConnectError(Vec<Error>);

impl Upstream {
    /// A way to targets; no connection is made yet.
    ///
    /// # Errors
    /// More alternatives than can be tried; certificates and keys that cannot be used.
    pub fn new(options: UpstreamOptions) -> Result<Self, UpstreamConfigError> {
        let ways = product(options.proxies)?;
        let limit = options.connector.connect_timeout;
        Ok(Self {
            state: Mutex::new(UpstreamRoutes::new(ways.len(), options.direct_fallback)),
            connector: Connector::new(options.connector, options.tls)?,
            ways,
            epoch: Instant::now(),
            no_proxy: options.no_proxy,
            target_tls: options.target_tls,
            limit,
            straight: "direct".into(),
            unchallenged: UnchallengedProxies::default(),
        })
    }

    /// A stream to a target. Cancel safe: dropped, it closes what it had opened.
    ///
    /// # Errors
    /// What each way that was tried led to.
    pub async fn connect(
        &self,
        target: &Target,
        errand: StreamPurpose,
    ) -> Result<UpstreamConnection, UpstreamConnectError> {
        let Some(url) = target.to_url() else {
            return Err(UpstreamConnectError(Vec::new()));
        };
        let begun = Instant::now();
        let mut order = self.order(target).into_iter().peekable();
        let mut errors = Vec::new();
        while let Some(way) = order.next() {
            let left = self.limit.saturating_sub(begun.elapsed());
            // What had no time was not tried: nothing is known of it.
            if left.is_zero() && !errors.is_empty() {
                break;
            }
            let left = attempt_timeout(left, order.len() + 1);
            match self.by(way, (target, errand), (&url, left), begun).await {
                Ok(found) => {
                    self.state().record_success(way);
                    return Ok(found);
                }
                Err((error, setback)) => {
                    self.state()
                        .record_failure(way, setback, self.epoch.elapsed());
                    errors.push(error);
                    while order.next_if(|next| !setback.allows(*next)).is_some() {}
                }
            }
        }
        Err(UpstreamConnectError(errors))
    }

    /// The ways to a target.
    fn order(&self, target: &Target) -> Vec<UpstreamRoute> {
        match self.bypasses_proxies(target) {
            true => vec![UpstreamRoute::Direct],
            false => self.state().order(self.epoch.elapsed()),
        }
    }

    async fn by(
        &self,
        way: UpstreamRoute,
        (target, errand): (&Target, StreamPurpose),
        (url, limit): (&Url, Duration),
        begun: Instant,
    ) -> Result<UpstreamConnection, (Error, RouteFailure)> {
        let chain = match way {
            UpstreamRoute::Proxies(number) => self.ways.get(number),
            UpstreamRoute::Direct => None,
        };
        let proxies: Vec<&Proxy> = chain.iter().flat_map(|chain| &chain.proxies).collect();
        let via = Arc::clone(chain.map_or(&self.straight, |chain| &chain.name));
        let judged = |error: Error| {
            let setback = setback(&error);
            (error, setback)
        };
        // With TLS there is nothing in between that a proxy could read, and so no request for it to take.
        let is_passed_on = errand == StreamPurpose::HttpRequest && !self.target_tls;
        if is_passed_on && proxies.last().is_some_and(|last| last.is_http()) {
            // Apart: most are tunnels, and need not have room for it.
            let way = (self.connector).connect_to_last_proxy(limit, &proxies, url);
            let reached = Box::pin(way).await.map_err(judged)?;
            return Ok(UpstreamConnection {
                stream: reached.stream,
                via,
                http_proxy: proxies.last().copied().cloned(),
                url: url.clone(),
            });
        }
        let reached = self
            .connector
            .connect_with_timeout(limit, target, (&proxies, url))
            .await
            .map_err(judged)?;
        let stream = match self.target_tls {
            false => reached.stream,
            true => {
                // By now it is the target's affair, and would be by any way: no other is tried, and needs to be left time.
                let left = self.limit.saturating_sub(begun.elapsed());
                let secured = Box::pin(self.secured(reached, target, (url, left))).await;
                secured
                    .map_err(|error| (error, RouteFailure::TargetTls))?
                    .stream
            }
        };
        Ok(UpstreamConnection {
            stream,
            via,
            http_proxy: None,
            url: url.clone(),
        })
    }

    /// TLS with the target.
    async fn secured(
        &self,
        reached: ConnectedStream,
        target: &Target,
        (url, limit): (&Url, Duration),
    ) -> Result<ConnectedStream, Error> {
        let peer = TlsPeer {
            host: &target.host,
            scope: CredentialScope::UserOrigin,
            // It may be any protocol's server.
            alpn: AlpnOffer::None,
        };
        let way = (self.connector).start_tls_with_timeout(limit, reached, (peer, url));
        way.await
    }

    /// Whether there is TLS with targets.
    #[must_use]
    pub fn has_target_tls(&self) -> bool {
        self.target_tls
    }

    /// What makes the streams.
    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Proxies that need not be asked what they want to see.
    pub(crate) fn unchallenged(&self) -> &UnchallengedProxies {
        &self.unchallenged
    }

    /// How long a connection may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.limit
    }

    /// Whether a target is reached without the proxies.
    pub(crate) fn bypasses_proxies(&self, target: &Target) -> bool {
        self.no_proxy.matches(&target.host, target.port)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, UpstreamRoutes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each alternative of one place with each of the next.
fn product(places: Vec<Vec<Proxy>>) -> Result<Vec<ProxyChain>, UpstreamConfigError> {
    let mut chains: Vec<Vec<Proxy>> = vec![Vec::new()];
    for alternatives in places.into_iter().filter(|place| !place.is_empty()) {
        let longer = chains.iter().flat_map(|chain| {
            alternatives.iter().map(|proxy| {
                let mut chain = chain.clone();
                chain.push(proxy.clone());
                chain
            })
        });
        chains = longer.take(MOST + 1).collect();
    }
    chains.retain(|chain| !chain.is_empty());
    if chains.len() > MOST {
        return Err(UpstreamConfigError::TooManyRoutes);
    }
    let named = |proxies: Vec<Proxy>| {
        let names: Vec<String> = proxies.iter().map(Proxy::address).collect();
        ProxyChain {
            name: names.join(" > ").into(),
            proxies,
        }
    };
    Ok(chains.into_iter().map(named).collect())
}

impl UpstreamConnectError {
    /// The error of each way that was tried; of a target that is none there is no error.
    #[must_use]
    pub fn errors(&self) -> &[Error] {
        &self.0
    }

    /// Whether a proxy has refused our login.
    pub(crate) fn is_of_login(&self) -> bool {
        let is_refused = |error: &Error| matches!(error.kind(), Kind::ProxyAuth(_));
        self.0.iter().any(is_refused)
    }
}

impl From<Error> for UpstreamConnectError {
    /// By the only way that was tried.
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for UpstreamConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("that is no host");
        }
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; then ")?;
            }
            write!(f, "{error}")?;
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for UpstreamConnectError {}

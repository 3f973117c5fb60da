//! GET requests: over a resting connection or a new one, through proxies and redirects, with credentials.
//!
//! A request is one of these steps in a row: [`Client::fetch`] follows redirects, `authorized` answers a 401 and a 407 once,
//! `exchange` sends over one connection. A resting connection that turns out to be closed is replaced once, since the
//! origin never saw that request; nothing else is ever tried twice here. What a request says is in `request`.

mod config;

use std::sync::Arc;

use haul_plan::follow;
use http::StatusCode;
use http::header::{LOCATION, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::answer::{Answer, Body, Stall, Timings, http_kind};
use crate::auth::{Authenticator, Challenges};
use crate::connection::Connection;
use crate::connector::{Connector, Reached, Target};
use crate::error::{ConfigError, Error, Kind};
use crate::pool::{Pool, Route, TOTAL};
use crate::proxy::{Proxy, ProxyScheme};
use crate::refusal::is_proxys_own;
use crate::request::{AllShown, absolute, request};
use crate::secret::without_credentials;
use crate::standing::Standing;
use crate::tls::Tls;
pub use config::{ClientConfig, Fetch};

/// Makes requests. Cloning is cheap and shares connections, name cache and rate limit.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ClientConfig,
    connector: Connector,
    authenticator: Authenticator,
    pool: Arc<Pool>,
}

/// A connection and how it came about.
struct Ready {
    connection: Connection,
    route: Route,
    timings: Timings,
    peer: Option<std::net::SocketAddr>,
}

impl Client {
    /// A client; no connection is made yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        let tls = Tls::new(config.tls.clone())?;
        let connector = Connector::new(config.connector.clone(), tls);
        let authenticator = Authenticator::new(config.credentials.clone());
        let pool = Arc::new(Pool::new(config.idle, config.idle.max(TOTAL)));
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                connector,
                authenticator,
                pool,
            }),
        })
    }

    /// What makes this client's streams.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.shared.connector
    }

    /// Sends a GET and waits for the head of the final answer. Cancel safe: dropped, it closes what it had opened.
    ///
    /// # Errors
    /// Every [`Kind`]; see [`Error::is_transient`].
    pub async fn fetch(&self, fetch: Fetch<'_>) -> Result<Answer, Error> {
        let mut url = fetch.url.clone();
        for hops in 0.. {
            let answer = self
                .authorized(&url, &fetch)
                .await
                .map_err(|e| e.of_range(fetch.range.clone()))?;
            if !is_redirect(answer.status) {
                return Ok(Answer {
                    url: without_credentials(&url),
                    redirected: hops > 0,
                    ..answer
                });
            }
            let next = follow(
                &url,
                answer.headers.get(LOCATION),
                hops,
                self.shared.config.redirects,
            );
            let next = next.map_err(|error| Error::new(Kind::Redirect(error), &url))?;
            answer.discard().await;
            url = next;
        }
        Err(Error::new(Kind::Protocol, &url))
    }

    /// One answer; a 401 and a 407 are answered once each, if there is something to answer with.
    async fn authorized(&self, url: &Url, fetch: &Fetch<'_>) -> Result<Answer, Error> {
        let (mut origin_asked, mut proxy_asked) = (false, false);
        loop {
            let (answer, shown) = self.exchange(url, fetch).await?;
            let again = match answer.status {
                StatusCode::UNAUTHORIZED if !origin_asked => {
                    origin_asked = true;
                    let challenges = Challenges::of(answer.headers.get_all(WWW_AUTHENTICATE));
                    let urls = (url, fetch.given);
                    let authenticator = &self.shared.authenticator;
                    authenticator.challenged(urls, &challenges, shown.origin.as_ref())
                }
                StatusCode::PROXY_AUTHENTICATION_REQUIRED if !proxy_asked => {
                    proxy_asked = true;
                    let challenges = Challenges::of(answer.headers.get_all(PROXY_AUTHENTICATE));
                    let proxy = self.forwarder(url).filter(|proxy| proxy.login.is_some());
                    proxy.is_some_and(|proxy| {
                        let proxies = self.shared.connector.proxies();
                        proxies.refused(&proxy.key(), &challenges, shown.proxy.as_ref())
                    })
                }
                _ => false,
            };
            if !again {
                return self.welcome(url, answer).await;
            }
            answer.discard().await;
        }
    }

    /// A proxy's last word that it wants other credentials is no answer of the origin's, and neither is an error of its own.
    async fn welcome(&self, url: &Url, answer: Answer) -> Result<Answer, Error> {
        match self.forwarder(url) {
            Some(proxy) if answer.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let realm = Challenges::of(answer.headers.get_all(PROXY_AUTHENTICATE)).realm();
                Err(Error::new(Kind::ProxyAuth(realm), url).through(proxy))
            }
            Some(proxy) if is_proxys_own(answer.status, &answer.headers) => {
                let refused = Kind::ProxyRefused(Some(answer.status));
                answer.discard().await;
                Err(Error::new(refused, url).through(proxy))
            }
            _ => Ok(answer),
        }
    }

    /// The credentials for one request over the wire: an answer to a Digest counts how often it was given.
    fn shown(&self, url: &Url, fetch: &Fetch<'_>) -> AllShown {
        let to_proxy = |proxy: &Proxy| {
            let target = absolute(url);
            let what = ("GET", target.as_str());
            let proxies = self.shared.connector.proxies();
            proxies.answer(&proxy.key(), proxy.login.as_ref()?, what)
        };
        AllShown {
            origin: self.shared.authenticator.authorize(url, fetch.given),
            proxy: self.forwarder(url).and_then(to_proxy),
        }
    }

    /// The proxy that sees requests in absolute-form, if that is how this URL is fetched.
    fn forwarder(&self, url: &Url) -> Option<&Proxy> {
        let proxy = self.shared.config.proxy.for_url(url)?;
        let http = matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https);
        (http && url.scheme() == "http").then_some(proxy)
    }

    /// One request over one connection; a resting connection that was closed is replaced once.
    async fn exchange(&self, url: &Url, fetch: &Fetch<'_>) -> Result<(Answer, AllShown), Error> {
        let (route, forward) = self.route(url, fetch.given);
        if let Some(connection) = self.shared.pool.take(&route) {
            let timings = Timings {
                reused: true,
                ..Timings::default()
            };
            let ready = Ready {
                connection,
                route: route.clone(),
                timings,
                peer: None,
            };
            match self.send(url, fetch, forward, ready).await {
                // Closed before a byte of the answer: the origin gave up the connection while the request was
                // on its way. It is a GET, so nothing can have happened twice.
                Err(error) if *error.kind() == Kind::Closed => {}
                done => return done,
            }
        }
        let ready = self.open(url, fetch.given, (route, forward)).await?;
        let sent = self.send(url, fetch, forward, ready).await;
        // Whoever broke off here was the proxy, or the origin behind it.
        sent.map_err(|error| match self.forwarder(url) {
            Some(proxy) => error.through(proxy),
            None => error,
        })
    }

    /// Where a URL's requests go, and whether a proxy sees them in absolute-form.
    fn route(&self, url: &Url, given: &Url) -> (Route, bool) {
        let proxy = self.shared.config.proxy.for_url(url);
        let forward = self.forwarder(url).is_some();
        let proxy = proxy.map(Proxy::key);
        let peer = if forward {
            String::new()
        } else {
            url.origin().ascii_serialization()
        };
        let certified = self.shared.config.tls.identity.is_some()
            && url.scheme() == "https"
            && Standing::of(url, given) == Standing::Named;
        let route = Route {
            peer,
            proxy,
            certified,
        };
        (route, forward)
    }

    async fn open(
        &self,
        url: &Url,
        given: &Url,
        (route, forward): (Route, bool),
    ) -> Result<Ready, Error> {
        let connector = &self.shared.connector;
        let target = Target::of(url).ok_or_else(|| Error::new(Kind::Request, url))?;
        let reached = match self.shared.config.proxy.for_url(url) {
            Some(proxy) if forward => connector.connect_to_proxy(proxy, url).await?,
            proxy => connector.connect(&target, proxy, url).await?,
        };
        let secure = url.scheme() == "https";
        let reached = if secure {
            let peer = (target.host.as_str(), Standing::of(url, given));
            connector.secure(reached, peer, url).await?
        } else {
            reached
        };
        let Reached {
            stream,
            peer,
            dns,
            connect,
            tls,
        } = reached;
        let connection = Connection::over(stream).await;
        let connection = connection.map_err(|e| Error::new(http_kind(&e), url).because(e))?;
        let timings = Timings {
            dns,
            connect,
            tls,
            ..Timings::default()
        };
        Ok(Ready {
            connection,
            route,
            timings,
            peer: Some(peer),
        })
    }

    async fn send(
        &self,
        url: &Url,
        fetch: &Fetch<'_>,
        forward: bool,
        mut ready: Ready,
    ) -> Result<(Answer, AllShown), Error> {
        let shown = self.shown(url, fetch);
        let request = request(&self.shared.config, (url, forward), fetch, &shown)?;
        let authorized = request.headers().contains_key(http::header::AUTHORIZATION);
        let begun = Instant::now();
        let stall = self.shared.config.stall_timeout;
        // One limit for the whole head: a head that drips, or a row of 1xx without end, is cut off by it too.
        let answer = match timeout(stall, ready.connection.send(request)).await {
            Ok(answer) => answer.map_err(|e| Error::new(http_kind(&e), url).because(e))?,
            Err(_) => return Err(Error::new(Kind::Stall, url)),
        };
        ready.timings.first_byte = begun.elapsed();
        let (head, incoming) = answer.into_parts();
        let body = Body {
            incoming,
            connection: ready.connection,
            route: ready.route,
            pool: Arc::clone(&self.shared.pool),
            stall: Stall::new(stall),
            ended: false,
        };
        let answer = Answer {
            status: head.status,
            headers: head.headers,
            url: url.clone(),
            redirected: false,
            authorized,
            peer: ready.peer,
            timings: ready.timings,
            body,
        };
        Ok((answer, shown))
    }
}

/// Statuses whose Location is followed for a GET.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

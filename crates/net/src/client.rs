//! GET requests: over a resting connection or a new one, through proxies and redirects, with credentials.
//!
//! A request is one of these steps in a row: [`Client::fetch`] follows redirects, `authorized` answers a 401 once,
//! `exchange` sends over one connection. A resting connection that turns out to be closed is replaced once, since the
//! origin never saw that request; nothing else is ever tried twice here.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_plan::{RedirectOptions, follow};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RANGE, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderName, Request, StatusCode};
use http_body_util::Empty;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::answer::{Answer, Body, Stall, Timings, http_kind};
use crate::auth::{Authenticator, Challenges, Credentials, Login, sensitive};
use crate::connection::Connection;
use crate::connector::{Connector, ConnectorConfig, Reached, Target};
use crate::error::{ConfigError, Error, Kind};
use crate::limit::Limit;
use crate::pool::{Pool, Route};
use crate::proxy::{Proxy, ProxyRules, ProxyScheme};
use crate::refusal::is_proxys_own;
use crate::secret::without_credentials;
use crate::tls::{Tls, TlsOptions};

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// How streams are made.
    pub connector: ConnectorConfig,
    /// How long a peer may be silent, before its answer's head or within the body.
    pub stall_timeout: Duration,
    /// Which proxy for which URL.
    pub proxy: ProxyRules,
    /// Whom to trust.
    pub tls: TlsOptions,
    /// What redirects may do.
    pub redirects: RedirectOptions,
    /// Who we are.
    pub credentials: Credentials,
    /// Header fields for every request, in place of our own of the same name.
    pub headers: HeaderMap,
    /// Own header fields that are not sent.
    pub without: Vec<HeaderName>,
    /// Bytes a second for all answers together.
    pub limit_rate: Option<u64>,
    /// Connections kept at rest for each peer.
    pub idle: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connector: ConnectorConfig::default(),
            // Longer than a TCP retransmission after a lost wireless link, shorter than a user's patience.
            stall_timeout: Duration::from_secs(30),
            proxy: ProxyRules::default(),
            tls: TlsOptions::default(),
            redirects: RedirectOptions::default(),
            credentials: Credentials::default(),
            headers: HeaderMap::new(),
            without: Vec::new(),
            limit_rate: None,
            idle: 16,
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// Where to ask.
    pub url: &'a Url,
    /// The URL that the user gave: credentials that are for no named host go to its origin only.
    pub given: &'a Url,
    /// Which bytes; an end of `u64::MAX` is open. `None`: no Range is sent.
    pub range: Option<Range<u64>>,
    /// Further header fields: conditions.
    pub headers: HeaderMap,
}

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
    limit: Option<Limit>,
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
        let pool = Arc::new(Pool::new(config.idle));
        let limit = config.limit_rate.map(Limit::new);
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                connector,
                authenticator,
                pool,
                limit,
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
            let hop = follow(
                &url,
                answer.headers.get(LOCATION),
                hops,
                self.shared.config.redirects,
            );
            let hop = hop.map_err(|error| Error::new(Kind::Redirect(error), &url))?;
            answer.discard().await;
            url = hop.url;
        }
        Err(Error::new(Kind::Protocol, &url))
    }

    /// One answer, a 401 or 407 answered once if there is something to answer with.
    async fn authorized(&self, url: &Url, fetch: &Fetch<'_>) -> Result<Answer, Error> {
        let mut proxy_authorization = self.proxy_login(url).map(Login::basic);
        let answer = self
            .exchange(url, fetch, proxy_authorization.as_deref())
            .await?;
        let retry = match answer.status {
            StatusCode::UNAUTHORIZED => {
                let challenges = Challenges::of(answer.headers.get_all(WWW_AUTHENTICATE));
                self.shared
                    .authenticator
                    .challenged(url, fetch.given, challenges)
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => match self.proxy_login(url) {
                Some(login) => {
                    let mut challenges = Challenges::of(answer.headers.get_all(PROXY_AUTHENTICATE));
                    let response = challenges.answer(login, "GET", absolute(url).as_str());
                    let new = challenges.has_digest() && response.is_some();
                    proxy_authorization = response.or(proxy_authorization);
                    new
                }
                None => false,
            },
            _ => false,
        };
        let answer = if retry {
            answer.discard().await;
            self.exchange(url, fetch, proxy_authorization.as_deref())
                .await?
        } else {
            answer
        };
        self.welcome(url, answer).await
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

    /// The proxy that sees requests in absolute-form, if that is how this URL is fetched.
    fn forwarder(&self, url: &Url) -> Option<&Proxy> {
        let proxy = self.shared.config.proxy.for_url(url)?;
        let http = matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https);
        (http && url.scheme() == "http").then_some(proxy)
    }

    /// Its login.
    fn proxy_login(&self, url: &Url) -> Option<&Login> {
        self.forwarder(url)?.login.as_ref()
    }

    /// One request over one connection; a resting connection that was closed is replaced once.
    async fn exchange(
        &self,
        url: &Url,
        fetch: &Fetch<'_>,
        proxy_auth: Option<&str>,
    ) -> Result<Answer, Error> {
        let (route, forward) = self.route(url);
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
            match self.send(url, fetch, (forward, proxy_auth), ready).await {
                // Closed before a byte of the answer: the origin gave up the connection while the request was
                // on its way. It is a GET, so nothing can have happened twice.
                Err(error) if *error.kind() == Kind::Closed => {}
                done => return done,
            }
        }
        let ready = self.open(url, route, forward).await?;
        let sent = self.send(url, fetch, (forward, proxy_auth), ready).await;
        // Whoever broke off here was the proxy, or the origin behind it.
        sent.map_err(|error| match self.forwarder(url) {
            Some(proxy) => error.through(proxy),
            None => error,
        })
    }

    /// Where a URL's requests go, and whether a proxy sees them in absolute-form.
    fn route(&self, url: &Url) -> (Route, bool) {
        let proxy = self.shared.config.proxy.for_url(url);
        let forward = self.forwarder(url).is_some();
        let proxy = proxy.map(|p| {
            let user = p.login.as_ref().map_or("", |login| login.user.as_str());
            format!("{:?}:{user}@{}:{}", p.scheme, p.host, p.port)
        });
        let peer = if forward {
            String::new()
        } else {
            url.origin().ascii_serialization()
        };
        (Route { peer, proxy }, forward)
    }

    async fn open(&self, url: &Url, route: Route, forward: bool) -> Result<Ready, Error> {
        let connector = &self.shared.connector;
        let target = Target::of(url).ok_or_else(|| Error::new(Kind::Request, url))?;
        let reached = match self.shared.config.proxy.for_url(url) {
            Some(proxy) if forward => connector.connect_to_proxy(proxy, url).await?,
            proxy => connector.connect(&target, proxy, url).await?,
        };
        let secure = url.scheme() == "https";
        let reached = if secure {
            connector.secure(reached, &target.host, url).await?
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
        (forward, proxy_auth): (bool, Option<&str>),
        mut ready: Ready,
    ) -> Result<Answer, Error> {
        let request = self.request(url, fetch, forward, proxy_auth)?;
        let authorized = request.headers().contains_key(AUTHORIZATION);
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
            limit: self.shared.limit.clone(),
            due: None,
            stall: Stall::new(stall),
            ended: false,
        };
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            url: url.clone(),
            redirected: false,
            authorized,
            peer: ready.peer,
            timings: ready.timings,
            body,
        })
    }

    fn request(
        &self,
        url: &Url,
        fetch: &Fetch<'_>,
        forward: bool,
        proxy_auth: Option<&str>,
    ) -> Result<Request<Empty<Bytes>>, Error> {
        let target = if forward {
            absolute(url).to_string()
        } else {
            request_target(url).to_owned()
        };
        let mut request = Request::get(target)
            .body(Empty::new())
            .map_err(|e| Error::new(Kind::Request, url).because(e))?;
        let headers = request.headers_mut();
        let host = Target::of(url)
            .map(|t| host_field(&t, url))
            .unwrap_or_default();
        headers.insert(
            HOST,
            HeaderValue::from_str(&host).map_err(|e| Error::new(Kind::Request, url).because(e))?,
        );
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("haul/", env!("CARGO_PKG_VERSION"))),
        );
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(value) = self.shared.authenticator.authorize(url, fetch.given) {
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(value) = proxy_auth.and_then(sensitive) {
            headers.insert(PROXY_AUTHORIZATION, value);
        }
        for name in &self.shared.config.without {
            headers.remove(name);
        }
        let ours = url.origin() == fetch.given.origin();
        let mut replaced: Option<HeaderName> = None;
        for (name, value) in &self.shared.config.headers {
            // What a user sends to one origin to be known there is not for another.
            if !ours && matches!(*name, AUTHORIZATION | COOKIE | PROXY_AUTHORIZATION) {
                continue;
            }
            if replaced.as_ref() != Some(name) {
                headers.remove(name);
                replaced = Some(name.clone());
            }
            headers.append(name.clone(), value.clone());
        }
        headers.extend(fetch.headers.clone());
        if let Some(range) = &fetch.range {
            headers.insert(RANGE, range_field(range, url)?);
        }
        Ok(request)
    }
}

/// Statuses whose Location is followed for a GET.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Inclusive here and nowhere else: on the wire.
fn range_field(range: &Range<u64>, url: &Url) -> Result<HeaderValue, Error> {
    let text = if range.end == u64::MAX {
        format!("bytes={}-", range.start)
    } else {
        format!("bytes={}-{}", range.start, range.end.saturating_sub(1))
    };
    HeaderValue::from_str(&text).map_err(|e| Error::new(Kind::Request, url).because(e))
}

/// The port is left out when it is the scheme's own.
fn host_field(target: &Target, url: &Url) -> String {
    match url.port() {
        Some(_) => target.to_string(),
        None if target.host.contains(':') => format!("[{}]", target.host),
        None => target.host.clone(),
    }
}

/// Path and query.
fn request_target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// The URL as a proxy wants to see it: without credentials and fragment.
fn absolute(url: &Url) -> Url {
    let mut url = without_credentials(url);
    url.set_fragment(None);
    url
}

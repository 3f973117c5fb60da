//! Requests: over idle or new connections, through proxies and redirects, with credentials.
//!
//! [`Client::fetch`] follows redirects. For each hop, `fetch_with_auth` answers one 401 and one 407, and `exchange` sends the
//! request once, over an HTTP/1.1 connection of its own (`http1`) or a shared HTTP/2 connection (`http2`). An idle connection
//! that turns out to be closed is replaced once, since the origin never saw the request; nothing else is ever tried twice here, but
//! a request that its signer corrects (`signed`).

mod http1;
mod http2;
mod signed;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_plan::{AlpnOffer, redirect_digests};
use http::header::{AUTHORIZATION, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;

use crate::auth::{AuthChallenges, Authenticator, MAX_AUTH_ATTEMPTS};
use crate::config::ClientConfig;
use crate::connector::{ConnectedStream, Connector, ConnectorConfig};
use crate::credential_scope::CredentialScope;
use crate::error::proxy_refusal::is_proxy_generated;
use crate::error::{Error, Kind};
use crate::http1::{ComingConnections, ConnectionPool, Http1Connection};
use crate::http2::Http2Pool;
use crate::proxy::{Proxy, is_login_refusal};
use crate::redirect::{RedirectOptions, checked_location, follow_redirect};
use crate::request::{ConnectObserver, FetchRequest, RoutedRequest};
use crate::request_body::OutgoingBody;
use crate::request_head::{RequestAuthorizations, build_request, secret_fields};
use crate::request_target::{absolute_form, without_credentials};
use crate::response::{FetchBody, FetchResponse, RequestTimings, ResponseState};
use crate::signer::SIGNED_SCHEME;
use crate::tls::{TlsConfigError, TlsPeer};

/// Makes requests. Cloning is cheap and shares connections, name cache and rate limit.
#[derive(Debug, Clone)]
pub struct Client {
    state: Arc<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    config: ClientConfig,
    connector: Connector,
    authenticator: Authenticator,
    http1_pool: Arc<ConnectionPool>,
    /// Connections that are being made ahead.
    http1_coming: ComingConnections<Result<Box<Http1Connection>, Error>>,
    http2_pool: Http2Pool,
    /// Whether any request has had a response.
    has_responded: AtomicBool,
}

/// A response, and the credentials that its request carried: a challenge is judged by them.
struct Exchange {
    response: FetchResponse,
    authorizations: RequestAuthorizations,
}

/// What the head of a request had for its peer alone.
struct SentCredentials {
    authorized: bool,
    secret_fields: Vec<HeaderValue>,
}

impl SentCredentials {
    fn of(headers: &HeaderMap) -> Self {
        Self {
            authorized: headers.contains_key(AUTHORIZATION),
            secret_fields: secret_fields(headers),
        }
    }
}

/// How the connection of a request came about.
#[derive(Default)]
struct ConnectStats {
    timings: RequestTimings,
    /// The TCP peer; `None` for a connection that requests share.
    peer: Option<std::net::SocketAddr>,
}

impl Client {
    /// A client; no connection is made yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, TlsConfigError> {
        let connector = ConnectorConfig {
            dead_peer_timeout: Some(config.stall_timeout),
            ..config.connector.clone()
        };
        let connector = Connector::new(connector, config.tls.clone())?;
        let authenticator = Authenticator::new(config.credentials.clone());
        let http1_pool = Arc::new(ConnectionPool::new(
            config.max_idle_per_host,
            config.max_idle_per_host.max(config.max_idle),
        ));
        let http2_pool = Http2Pool::new(config.max_idle);
        Ok(Self {
            state: Arc::new(ClientState {
                config,
                connector,
                authenticator,
                http1_pool,
                http1_coming: ComingConnections::default(),
                http2_pool,
                has_responded: AtomicBool::new(false),
            }),
        })
    }

    /// The connector that makes this client's streams.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.state.connector
    }

    /// Changes the rate that all connections together may have, in bytes a second; `None` lifts the limit. It holds from now on, for
    /// open connections, too: within a quarter of a second for those that wait for their turn under the limit before.
    pub fn set_rate_limit(&self, bytes_per_second: Option<u64>) {
        self.state.connector.set_rate_limit(bytes_per_second);
    }

    /// Which redirects are followed. Other links from one URL to another should be held to the same rules.
    #[must_use]
    pub fn redirects(&self) -> RedirectOptions {
        self.state.config.redirects
    }

    /// Sends a request and waits for the head of the final response. Cancel safe: dropped, it closes what it had opened.
    ///
    /// GET and HEAD follow redirects. Of other methods only 307 and 308 are followed, and only to send the same to the same origin.
    ///
    /// # Errors
    /// Every [`Kind`]; see [`Error::is_transient`].
    pub async fn fetch(&self, fetch: FetchRequest<'_>) -> Result<FetchResponse, Error> {
        let has_responded = &self.state.has_responded;
        match self.fetch_final(fetch).await {
            Ok(response) => {
                has_responded.store(true, Ordering::Relaxed);
                Ok(response)
            }
            Err(error) if has_responded.load(Ordering::Relaxed) => Err(error),
            Err(error) => Err(error.at_first_contact()),
        }
    }

    /// Makes HTTP/1.1 connections before the requests that need them are known, until with the idle and the coming ones there are `number`. They are kept
    /// idle for the next requests to this origin; one that is sent meanwhile waits for one of them. This request is not sent. Cancel safe.
    ///
    /// A connection that cannot be made is missing. The error is that of the request that waits for it, if one does.
    pub async fn connect_ahead(&self, fetch: &FetchRequest<'_>, number: usize) {
        if let Ok(request) = RoutedRequest::new(fetch, fetch.url, &self.state.config) {
            self.connect_http1_ahead(&request, number).await;
        }
    }

    async fn fetch_final(&self, fetch: FetchRequest<'_>) -> Result<FetchResponse, Error> {
        if fetch.url.scheme() == SIGNED_SCHEME {
            return Box::pin(self.fetch_signed(&fetch)).await;
        }
        let (mut url, mut digests) = (Cow::Borrowed(fetch.url), Vec::new());
        let (mut earlier_urls, mut earlier_fields) = (Vec::new(), Vec::new());
        for hops in 0.. {
            let request = RoutedRequest::new(&fetch, &url, &self.state.config);
            let mut response = self.fetch_with_auth(&request?).await?;
            let redirect_error = |error| Error::new(Kind::Redirect(error), &url);
            if !is_redirect(response.status) {
                checked_location(&response.headers).map_err(redirect_error)?;
                response.redirected = hops > 0;
                response.redirect_digests = digests;
                response.earlier_urls = earlier_urls;
                response.secret_fields.append(&mut earlier_fields);
                return Ok(response);
            }
            let redirects = self.state.config.redirects;
            let next = follow_redirect(&url, &response.headers, hops, redirects)
                .map_err(redirect_error)?;
            if !may_follow(&fetch, response.status, &next) {
                return Ok(response);
            }
            digests.append(&mut redirect_digests(&response.headers));
            earlier_fields.append(&mut response.secret_fields);
            earlier_urls.push(std::mem::replace(&mut url, Cow::Owned(next)).into_owned());
            response.discard().await;
        }
        Err(Error::new(Kind::Protocol, &url))
    }

    /// One response. A 401 is answered once and a 407 twice, if the client has credentials for them. A proxy that refuses without asking
    /// may have wanted its login, too.
    async fn fetch_with_auth(&self, request: &RoutedRequest<'_>) -> Result<FetchResponse, Error> {
        let (mut has_answered_origin, mut proxy_answers) = (false, 1..MAX_AUTH_ATTEMPTS);
        let mut earlier_fields = Vec::new();
        loop {
            let Exchange {
                mut response,
                authorizations,
            } = match self.exchange(request).await {
                Err(error) if self.may_mend_by_proxy_login(request, &error) => continue,
                exchange => exchange.map_err(|error| match request.absolute_form_proxy() {
                    Some(proxy) => self.state.connector.explain_close(proxy, error),
                    None => error,
                })?,
            };
            response.secret_fields.append(&mut earlier_fields);
            let may_answer_origin = response.status == StatusCode::UNAUTHORIZED
                && !std::mem::replace(&mut has_answered_origin, true);
            let is_retry = may_answer_origin
                && self.records_challenge(request, &response, &authorizations)
                || is_login_refusal(response.status)
                    && proxy_answers.next().is_some()
                    && self.records_proxy_refusal(request, &response, &authorizations);
            if !is_retry {
                let sent = authorizations.proxy.is_some();
                return self.check_proxy_response(request, response, sent).await;
            }
            earlier_fields.append(&mut response.secret_fields);
            response.discard().await;
        }
    }

    /// Whether a 401 of the origin should be answered.
    fn records_challenge(
        &self,
        request: &RoutedRequest<'_>,
        response: &FetchResponse,
        sent: &RequestAuthorizations,
    ) -> bool {
        self.state.authenticator.record_challenge(
            request.url,
            request.fetch.user_url,
            &AuthChallenges::parse(response.headers.get_all(WWW_AUTHENTICATE)),
            sent.origin.as_ref(),
        )
    }

    /// Whether a refusal that may be the proxy's should be answered by its login.
    fn records_proxy_refusal(
        &self,
        request: &RoutedRequest<'_>,
        response: &FetchResponse,
        sent: &RequestAuthorizations,
    ) -> bool {
        let challenges = AuthChallenges::parse(response.headers.get_all(PROXY_AUTHENTICATE));
        let proxy_auth = self.state.connector.proxy_auth();
        let sent = sent.proxy.as_ref();
        let proxy = request.absolute_form_proxy();
        let may_log_in =
            proxy.is_some_and(|proxy| proxy_auth.record_refusal(proxy, &challenges, sent));
        may_log_in && request.fetch.body.can_be_opened()
    }

    /// Whether a proxy may have closed the connection for want of a login, and the request may be sent again with it.
    fn may_mend_by_proxy_login(&self, request: &RoutedRequest<'_>, error: &Error) -> bool {
        let proxy_auth = self.state.connector.proxy_auth();
        let proxy = request.absolute_form_proxy();
        let may_repeat = || http1::may_repeat(request, error);
        proxy.is_some_and(|proxy| may_repeat() && proxy_auth.record_close(proxy))
    }

    /// Makes an error of a response that a proxy generated: its final 407, or a failure of its own. Neither is the origin's.
    async fn check_proxy_response(
        &self,
        request: &RoutedRequest<'_>,
        response: FetchResponse,
        is_login_sent: bool,
    ) -> Result<FetchResponse, Error> {
        match request.absolute_form_proxy() {
            Some(proxy) if response.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let (connector, fields) = (&self.state.connector, &response.headers);
                let error = connector.proxy_auth_error(proxy, fields, is_login_sent, request.url);
                Err(error.redacted_by(&response.request_secrets()))
            }
            Some(proxy) if is_proxy_generated(response.status, &response.headers) => {
                let refused = Kind::ProxyRefused(Some(response.status));
                response.discard().await;
                Err(Error::new(refused, request.url).with_proxy(proxy.name()))
            }
            _ => Ok(response),
        }
    }

    /// Sends a request once, over a connection that it shares or that is its own.
    async fn exchange(&self, request: &RoutedRequest<'_>) -> Result<Exchange, Error> {
        let config = &self.state.config;
        let route = request.route_key(config);
        let fetch = request.fetch;
        let may_multiplex = request.is_tls() && fetch.may_multiplex && fetch.body.is_empty();
        match config.http_version.alpn_offer(may_multiplex) {
            AlpnOffer::Http2OrHttp1 | AlpnOffer::Http2 => {
                Box::pin(self.exchange_http2(request, route)).await
            }
            AlpnOffer::Http1 | AlpnOffer::None => self.exchange_http1(request, route).await,
        }
    }

    /// A stream to the origin, or to the proxy that takes the request in absolute-form. TLS with the origin is still to come.
    async fn connect_stream(&self, request: &RoutedRequest<'_>) -> Result<ConnectedStream, Error> {
        let (connector, url) = (&self.state.connector, request.url);
        let spreading = request.signer.map(|_| connector.spreading_addresses());
        let connector = spreading.as_ref().unwrap_or(connector);
        let stream = match request.absolute_form_proxy() {
            Some(proxy) => connector.connect_to_proxy(proxy, url).await?,
            None => {
                let (target, proxies) = (request.target()?, request.proxy.as_slice());
                connector.connect(&target, proxies, url).await?
            }
        };
        if let Some(ConnectObserver(observe)) = request.fetch.on_connected {
            observe(stream.connect);
        }
        Ok(stream)
    }

    /// TLS with the origin.
    async fn start_tls(
        &self,
        request: &RoutedRequest<'_>,
        stream: ConnectedStream,
        alpn: AlpnOffer,
    ) -> Result<ConnectedStream, Error> {
        let target = request.target()?;
        let peer = TlsPeer {
            host: &target.host,
            scope: request.scope,
            alpn,
        };
        let connector = &self.state.connector;
        connector.start_tls(stream, peer, request.url).await
    }

    /// The head of a request with all its credentials.
    async fn build_head(
        &self,
        request: &RoutedRequest<'_>,
        range: Option<&Range<u64>>,
    ) -> Result<(http::Request<OutgoingBody>, RequestAuthorizations), Error> {
        let authorizations = self.authorizations(request);
        let head = build_request(&self.state.config, request, range, &authorizations)?;
        let Some(signer) = request.signer else {
            return Ok((head, authorizations));
        };
        let (mut parts, body) = head.into_parts();
        let signing = signer.sign(
            request.fetch.url,
            request.url,
            &mut parts,
            &request.fetch.body,
        );
        let signed = signing.await;
        signed.map_err(|error| signed::signing_error(error, request.fetch))?;
        Ok((http::Request::from_parts(parts, body), authorizations))
    }

    /// The credentials for sending a request once: the response to a Digest challenge counts how often it was given.
    fn authorizations(&self, request: &RoutedRequest<'_>) -> RequestAuthorizations {
        let for_proxy = |proxy: &Proxy| {
            let target = absolute_form(request.url);
            let proxy_auth = self.state.connector.proxy_auth();
            let method = request.fetch.method.as_str();
            proxy_auth.authorize(proxy, method, target.as_str())
        };
        let authenticator = &self.state.authenticator;
        let for_origin = || {
            let method = request.fetch.method.as_str();
            authenticator.authorize(method, request.url, request.fetch.user_url)
        };
        RequestAuthorizations {
            origin: request.signer.is_none().then(for_origin).flatten(),
            proxy: request.absolute_form_proxy().and_then(for_proxy),
        }
    }
}

impl ConnectStats {
    fn reused(peer: Option<std::net::SocketAddr>) -> Self {
        let timings = RequestTimings {
            reused: true,
            ..RequestTimings::default()
        };
        Self { timings, peer }
    }

    fn new(stream: &ConnectedStream) -> Self {
        let timings = RequestTimings {
            dns: stream.dns,
            connect: stream.connect,
            tls: stream.tls,
            ..RequestTimings::default()
        };
        Self {
            timings,
            peer: Some(stream.peer),
        }
    }

    fn into_response(
        self,
        request: &RoutedRequest<'_>,
        head: Parts,
        body: FetchBody,
        sent: SentCredentials,
    ) -> FetchResponse {
        let state = ResponseState {
            status: head.status,
            headers: head.headers,
            url: without_credentials(request.url),
            redirected: false,
            requested_range: request.fetch.range.clone(),
            redirect_digests: Vec::new(),
            authorized: sent.authorized,
            peer: self.peer,
            timings: self.timings,
            max_streams: None,
            secret_fields: sent.secret_fields,
            earlier_urls: Vec::new(),
            body,
        };
        state.into()
    }
}

/// Whether a request that may change something is sent to where a redirect leads. Its body is for the origin that the user named.
fn may_follow(fetch: &FetchRequest<'_>, status: StatusCode, next: &Url) -> bool {
    match fetch.method {
        Method::GET | Method::HEAD => true,
        _ => {
            matches!(status.as_u16(), 307 | 308)
                && CredentialScope::for_url(next, fetch.user_url) == CredentialScope::UserOrigin
                && fetch.body.can_be_opened()
        }
    }
}

/// Whether a GET follows the Location of this status.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

//! GET requests: over a resting connection or a new one, through proxies and redirects, with credentials.
//!
//! A request is one of these steps in a row: [`Client::fetch`] follows redirects, `fetch_with_auth` answers a 401 and a 407 once,
//! `exchange` sends over one connection, or `sharing` over one that others use, too. A resting connection that turns out to be closed is replaced once, since the
//! origin never saw that request; nothing else is ever tried twice here. What a request says is in `request`.

mod http1;
mod http2;

use std::borrow::Cow;
use std::sync::Arc;

use haul_plan::follow_redirect;
use http::StatusCode;
use http::header::{LOCATION, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use url::Url;

use crate::auth::{AuthChallenges, Authenticator};
use crate::config::ClientConfig;
use crate::connector::Connector;
use crate::error::proxy_refusal::is_proxy_generated;
use crate::error::{Error, Kind};
use crate::http1::ConnectionPool;
use crate::http2::Http2Pool;
use crate::proxy::Proxy;
use crate::request::FetchRequest;
use crate::request::Route;
use crate::request_head::RequestAuthorizations;
use crate::request_target::absolute_form;
use crate::response::FetchResponse;
use crate::tls::TlsConfigError;

/// Makes requests. Cloning is cheap and shares connections, name cache and rate limit.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    config: ClientConfig,
    connector: Connector,
    authenticator: Authenticator,
    http1_pool: Arc<ConnectionPool>,
    /// Connections that requests share.
    http2_pool: Http2Pool,
}

impl Client {
    /// A client; no connection is made yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, TlsConfigError> {
        let connector = Connector::new(config.connector.clone(), config.tls.clone())?;
        let authenticator = Authenticator::new(config.credentials.clone());
        let pool = Arc::new(ConnectionPool::new(
            config.max_idle_per_host,
            config.max_idle_per_host.max(config.max_idle),
        ));
        let hosts = Http2Pool::new(config.max_idle);
        Ok(Self {
            shared: Arc::new(ClientState {
                config,
                connector,
                authenticator,
                http1_pool: pool,
                http2_pool: hosts,
            }),
        })
    }

    /// What makes this client's streams.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.shared.connector
    }

    /// What redirects may do; what else leads from one URL to another should do no more.
    #[must_use]
    pub fn redirects(&self) -> haul_plan::RedirectOptions {
        self.shared.config.redirects
    }

    /// Sends a GET and waits for the head of the final answer. Cancel safe: dropped, it closes what it had opened.
    ///
    /// # Errors
    /// Every [`Kind`]; see [`Error::is_transient`].
    pub async fn fetch(&self, fetch: FetchRequest<'_>) -> Result<FetchResponse, Error> {
        let mut url = Cow::Borrowed(fetch.url);
        for hops in 0.. {
            let answer = self
                .fetch_with_auth(&url, &fetch)
                .await
                .map_err(|e| e.with_range(fetch.range.clone()))?;
            if !is_redirect(answer.status) {
                return Ok(FetchResponse {
                    redirected: hops > 0,
                    ..answer
                });
            }
            let next = follow_redirect(
                &url,
                answer.headers.get(LOCATION),
                hops,
                self.shared.config.redirects,
            );
            let next = next.map_err(|error| Error::new(Kind::Redirect(error), &url))?;
            answer.discard().await;
            url = Cow::Owned(next);
        }
        Err(Error::new(Kind::Protocol, &url))
    }

    /// One answer; a 401 and a 407 are answered once each, if there is something to answer with.
    async fn fetch_with_auth(
        &self,
        url: &Url,
        fetch: &FetchRequest<'_>,
    ) -> Result<FetchResponse, Error> {
        let way = Route::new(url, fetch.user_url, &self.shared.config)?;
        let (mut origin_asked, mut proxy_asked) = (false, false);
        loop {
            let (answer, shown) = self.exchange(&way, fetch).await?;
            let again = match answer.status {
                StatusCode::UNAUTHORIZED if !origin_asked => {
                    origin_asked = true;
                    let challenges =
                        AuthChallenges::parse(answer.headers.get_all(WWW_AUTHENTICATE));
                    let urls = (url, fetch.user_url);
                    let authenticator = &self.shared.authenticator;
                    authenticator.record_challenge(urls, &challenges, shown.origin.as_ref())
                }
                StatusCode::PROXY_AUTHENTICATION_REQUIRED if !proxy_asked => {
                    proxy_asked = true;
                    let challenges =
                        AuthChallenges::parse(answer.headers.get_all(PROXY_AUTHENTICATE));
                    let proxy = way
                        .absolute_form_proxy()
                        .filter(|proxy| proxy.login.is_some());
                    proxy.is_some_and(|proxy| {
                        let proxies = self.shared.connector.proxy_auth();
                        proxies.record_refusal(&proxy.auth_key(), &challenges, shown.proxy.as_ref())
                    })
                }
                _ => false,
            };
            if !again {
                return self.check_proxy_response(&way, answer).await;
            }
            answer.discard().await;
        }
    }

    /// A proxy's last word that it wants other credentials is no answer of the origin's, and neither is an error of its own.
    async fn check_proxy_response(
        &self,
        way: &Route<'_>,
        answer: FetchResponse,
    ) -> Result<FetchResponse, Error> {
        let url = way.url;
        match way.absolute_form_proxy() {
            Some(proxy) if answer.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(
                Connector::proxy_auth_error((proxy, &answer.headers), true, url),
            ),
            Some(proxy) if is_proxy_generated(answer.status, &answer.headers) => {
                let refused = Kind::ProxyRefused(Some(answer.status));
                answer.discard().await;
                Err(Error::new(refused, url).with_proxy(proxy.name()))
            }
            _ => Ok(answer),
        }
    }

    /// The credentials for one request over the wire: an answer to a Digest counts how often it was given.
    fn authorizations(&self, way: &Route<'_>, given: &Url) -> RequestAuthorizations {
        let to_proxy = |proxy: &Proxy| {
            let login = proxy.login.as_ref()?;
            let target = absolute_form(way.url);
            let proxies = self.shared.connector.proxy_auth();
            proxies.authorize(&proxy.auth_key(), login, ("GET", target.as_str()))
        };
        RequestAuthorizations {
            origin: self.shared.authenticator.authorize(way.url, given),
            proxy: way.absolute_form_proxy().and_then(to_proxy),
        }
    }
}

/// Statuses whose Location is followed for a GET.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

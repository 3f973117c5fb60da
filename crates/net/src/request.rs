//! One request: what the caller wants, how one hop of its redirect chain is routed, and which connections can carry it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use url::Url;

use crate::config::ClientConfig;
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::proxy::Proxy;
use crate::read_timeout::SilenceLimits;
use crate::request_body::RequestBody;
use crate::signer::RequestSigner;
use crate::target::Target;

#[derive(Debug)]
pub struct FetchRequest<'a> {
    /// Where the first request goes.
    pub url: &'a Url,
    /// The URL that the user gave. Credentials that name no host go to its origin alone.
    pub user_url: &'a Url,
    /// The bytes to ask for; an end of `u64::MAX` is open. `None` sends no Range field.
    pub range: Option<Range<u64>>,
    /// Chooses the range in place of `range`, over HTTP/1.1.
    pub range_by_round_trip: Option<RangeByRoundTrip<'a>>,
    /// The user's own header fields for this request, beside those of the [`ClientConfig`] and under the same rule: origins that
    /// the user did not name get only the fields that say which content is wanted.
    pub user_headers: Option<&'a HeaderMap>,
    /// Fields that the caller decides: conditions, and what describes the body. They replace those of the same name.
    pub headers: HeaderMap,
    /// GET, unless something else is done than fetched.
    pub method: Method,
    /// The body. Over HTTP/2 there is none.
    pub body: RequestBody,
    /// Whether the request may share a connection with others, by HTTP/2. For small files; a file that is large enough to come
    /// in segments is faster over several connections.
    pub may_multiplex: bool,
    /// Whether another peer may send the same. Then the head of the response is not waited for longer than a body that is silent.
    pub is_replaceable: bool,
    /// Is called when a connection was made for the request.
    pub on_connected: Option<ConnectObserver<'a>>,
    /// Is called once over HTTP/1.1 if a large response has begun to arrive before its head can be read: a TLS record is read when it is
    /// whole, and where it is longer than what a server sends at first, that is a round trip later.
    pub on_response_begun: Option<ResponseObserver<'a>>,
}

/// A function that learns which URL a response comes from, after redirects, and how long its connection took to make.
#[derive(Clone, Copy)]
pub struct ResponseObserver<'a>(pub &'a (dyn Fn(&Url, Duration) + Sync));

/// A function that learns how long a connection took, which is about a round trip: the time until TCP, and a proxy, were ready.
#[derive(Clone, Copy)]
pub struct ConnectObserver<'a>(pub &'a (dyn Fn(Duration) + Sync));

/// The bytes to ask for over a connection that took so long to make, which is about a round trip.
#[derive(Clone, Copy)]
pub struct RangeByRoundTrip<'a>(pub &'a (dyn Fn(Duration) -> Range<u64> + Sync));

impl fmt::Debug for RangeByRoundTrip<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RangeByRoundTrip")
    }
}

impl fmt::Debug for ResponseObserver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseObserver")
    }
}

impl fmt::Debug for ConnectObserver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectObserver")
    }
}

impl<'a> FetchRequest<'a> {
    /// A GET of the whole resource, over a connection of its own. The user gave its URL.
    #[must_use]
    pub fn get(url: &'a Url) -> Self {
        Self {
            url,
            user_url: url,
            range: None,
            range_by_round_trip: None,
            user_headers: None,
            headers: HeaderMap::new(),
            method: Method::GET,
            body: RequestBody::Empty,
            may_multiplex: false,
            is_replaceable: false,
            on_connected: None,
            on_response_begun: None,
        }
    }

    /// How long the peer may be silent.
    pub(crate) fn silence_limits(&self, config: &ClientConfig) -> SilenceLimits {
        let (stall, response) = (config.stall_timeout, config.response_timeout);
        SilenceLimits {
            stall,
            response: if self.is_replaceable {
                response.min(stall)
            } else {
                response
            },
        }
    }
}

/// One request of a redirect chain, with what follows from its URL.
#[derive(Debug)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) fetch: &'a FetchRequest<'a>,
    /// The URL of this hop.
    pub(crate) url: &'a Url,
    /// Which of the user's credentials and header fields the origin may see.
    pub(crate) scope: CredentialScope,
    pub(crate) proxy: Option<&'a Proxy>,
    pub(crate) signer: Option<&'a Arc<dyn RequestSigner>>,
}

/// What requests on one connection have in common. The proxy is no part of it: within one client, scheme, host and port
/// determine it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RouteKey {
    /// Whether there is TLS with the origin.
    pub(crate) is_tls: bool,
    /// The origin's host, as URLs write it. Empty where a proxy takes requests in absolute-form: it is the peer for all origins.
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// Whether the peer saw our client certificate. A request that a redirect led here must not use such a connection.
    pub(crate) has_client_certificate: bool,
}

impl<'a> RoutedRequest<'a> {
    /// Routes one hop of a request.
    ///
    /// # Errors
    /// The environment variable that should name the proxy for this URL is unusable.
    pub(crate) fn new(
        fetch: &'a FetchRequest<'a>,
        url: &'a Url,
        config: &'a ClientConfig,
    ) -> Result<Self, Error> {
        let proxy = config.proxy.for_url(url).map_err(|unusable| {
            let kind = Kind::UnusableProxyVariable(unusable.variable);
            Error::new(kind, url).with_source(unusable.error.clone())
        })?;
        Ok(Self {
            fetch,
            url,
            scope: CredentialScope::for_url(url, fetch.user_url),
            proxy,
            signer: None,
        })
    }

    /// The same request, signed. Its origin is the one that the user named, as long as the `s3://` URL is.
    pub(crate) fn signed_by(self, signer: &'a Arc<dyn RequestSigner>) -> Self {
        Self {
            scope: CredentialScope::for_url(self.fetch.url, self.fetch.user_url),
            signer: Some(signer),
            ..self
        }
    }

    /// Whether there is TLS with the origin.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The proxy, if it takes the request in absolute-form.
    pub(crate) fn absolute_form_proxy(&self) -> Option<&'a Proxy> {
        self.proxy
            .filter(|proxy| self.url.scheme() == "http" && proxy.is_http())
    }

    /// The far end of the TCP connection, or of the proxy's tunnel.
    ///
    /// # Errors
    /// The URL has no host or no port.
    pub(crate) fn target(&self) -> Result<Target, Error> {
        Target::from_url(self.url).ok_or_else(|| Error::new(Kind::InvalidRequest, self.url))
    }

    /// Which connections can carry the request.
    pub(crate) fn route_key(&self, config: &ClientConfig) -> RouteKey {
        if self.absolute_form_proxy().is_some() {
            return RouteKey {
                is_tls: false,
                host: Box::default(),
                port: 0,
                has_client_certificate: false,
            };
        }
        RouteKey {
            is_tls: self.is_tls(),
            host: self.url.host_str().unwrap_or_default().into(),
            port: self.url.port_or_known_default().unwrap_or_default(),
            has_client_certificate: config.tls.client_certificate.is_some()
                && self.is_tls()
                && self.scope == CredentialScope::UserOrigin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::ProxyRules;
    use crate::tls::{ClientCertificate, TlsOptions};

    fn route_key(config: &ClientConfig, url: &str, user_url: &str) -> RouteKey {
        let (url, user_url): (Url, Url) = (url.parse().unwrap(), user_url.parse().unwrap());
        let fetch = FetchRequest {
            user_url: &user_url,
            ..FetchRequest::get(&url)
        };
        let request = RoutedRequest::new(&fetch, &url, config).unwrap();
        request.route_key(config)
    }

    fn with_proxy(proxy: &str) -> ClientConfig {
        ClientConfig {
            proxy: ProxyRules::all(proxy.parse().unwrap()),
            ..ClientConfig::default()
        }
    }

    #[test]
    fn only_requests_for_one_origin_have_the_same_route_key() {
        let config = ClientConfig::default();
        let key = |url| route_key(&config, url, "https://h.test/");
        assert_eq!(key("https://h.test/a"), key("https://me@H.test:443/b?c#d"));
        for other in [
            "http://h.test:443/",
            "https://h.test:444/",
            "https://i.test/",
        ] {
            assert_ne!(key("https://h.test/"), key(other));
        }
    }

    #[test]
    fn a_client_certificate_changes_the_route_key_for_the_users_origin_only() {
        let config = ClientConfig {
            tls: TlsOptions {
                client_certificate: Some(ClientCertificate {
                    certificates: Vec::new(),
                    key: Vec::new(),
                }),
                ..TlsOptions::default()
            },
            ..ClientConfig::default()
        };
        let url = "https://h.test/";
        assert!(route_key(&config, url, url).has_client_certificate);
        assert!(!route_key(&config, url, "https://i.test/").has_client_certificate);
        let plain = "http://h.test/";
        assert!(!route_key(&config, plain, plain).has_client_certificate);
    }

    #[test]
    fn an_absolute_form_proxy_is_the_peer_for_every_origin() {
        let config = with_proxy("http://p:3128");
        let key = |url| route_key(&config, url, url);
        assert_eq!(key("http://h.test/"), key("http://i.test:81/"));
        assert_ne!(key("https://h.test/"), key("https://i.test/"));
        let config = with_proxy("socks5h://p");
        let key = |url| route_key(&config, url, url);
        assert_ne!(key("http://h.test/"), key("http://i.test/"));
    }
}

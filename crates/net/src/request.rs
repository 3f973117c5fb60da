//! Where requests lead: what a URL, the proxy rules and the user's certificate come to.

use std::ops::Range;

use http::HeaderMap;
use url::Url;

use crate::config::ClientConfig;
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::proxy::{Proxy, ProxyScheme};

/// One request.
#[derive(Debug)]
pub struct FetchRequest<'a> {
    /// Where to ask.
    pub url: &'a Url,
    /// The URL that the user gave: credentials that are for no named host go to its origin only.
    pub user_url: &'a Url,
    /// Which bytes; an end of `u64::MAX` is open. `None`: no Range is sent.
    pub range: Option<Range<u64>>,
    /// The user's own header fields for this request, beside those of the [`ClientConfig`] and under the same rule: to origins that the
    /// user did not name go only those that say what is wanted.
    pub user_headers: Option<&'a HeaderMap>,
    /// Further header fields: conditions.
    pub conditions: HeaderMap,
    /// Whether it may share a connection with others, by HTTP/2. For small files; what is large enough to come in segments is
    /// faster over connections of its own.
    pub may_multiplex: bool,
}

/// Where a connection leads: requests with equal routes can share it. Which proxy is in between need not be said: within one
/// client that follows from scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RouteKey {
    /// Whether there is TLS with the origin.
    pub(crate) is_tls: bool,
    /// The origin's host, as URLs write it. Empty where a proxy sees requests in absolute-form: there it is the peer for all.
    pub(crate) host: Box<str>,
    /// The origin's port.
    pub(crate) port: u16,
    /// Whether our certificate was shown: who merely was redirected here must not ask with it.
    pub(crate) has_client_certificate: bool,
}

/// How one URL is reached, found out once for a request.
#[derive(Debug)]
pub(crate) struct Route<'a> {
    /// What is asked for.
    pub(crate) url: &'a Url,
    /// How its origin stands to the user.
    pub(crate) scope: CredentialScope,
    /// The proxy in between.
    pub(crate) proxy: Option<&'a Proxy>,
    /// Whether that proxy sees the request in absolute-form.
    pub(crate) is_absolute_form: bool,
}

impl<'a> Route<'a> {
    /// The way to a URL, where the user gave `given`.
    ///
    /// # Errors
    /// The variable that should name the proxy on it names none.
    pub(crate) fn new(url: &'a Url, given: &Url, config: &'a ClientConfig) -> Result<Self, Error> {
        let proxy = config.proxy.for_url(url).map_err(|unusable| {
            let kind = Kind::UnusableProxyVariable(unusable.variable);
            Error::new(kind, url).with_source(unusable.error.clone())
        })?;
        let forward = url.scheme() == "http"
            && proxy.is_some_and(|proxy| {
                matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https)
            });
        Ok(Self {
            url,
            scope: CredentialScope::for_url(url, given),
            proxy,
            is_absolute_form: forward,
        })
    }

    /// Whether there is TLS with the origin.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The proxy that sees the request in absolute-form.
    pub(crate) fn absolute_form_proxy(&self) -> Option<&'a Proxy> {
        self.proxy.filter(|_| self.is_absolute_form)
    }

    /// Whose connections can carry the request.
    pub(crate) fn key(&self, config: &ClientConfig) -> RouteKey {
        if self.is_absolute_form {
            return RouteKey {
                is_tls: false,
                host: Box::default(),
                port: 0,
                has_client_certificate: false,
            };
        }
        let certified = config.tls.client_certificate.is_some()
            && self.is_tls()
            && self.scope == CredentialScope::UserOrigin;
        RouteKey {
            is_tls: self.is_tls(),
            host: self.url.host_str().unwrap_or_default().into(),
            port: self.url.port_or_known_default().unwrap_or_default(),
            has_client_certificate: certified,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::ProxyRules;
    use crate::tls::{ClientCertificate, TlsOptions};

    fn route(config: &ClientConfig, url: &str, given: &str) -> RouteKey {
        let (url, given) = (url.parse().unwrap(), given.parse().unwrap());
        Route::new(&url, &given, config).unwrap().key(config)
    }

    #[test]
    fn only_requests_for_one_origin_share_a_route() {
        let config = ClientConfig::default();
        let of = |url| route(&config, url, "https://h.test/");
        assert_eq!(of("https://h.test/a"), of("https://me@H.test:443/b?c#d"));
        for other in [
            "http://h.test:443/",
            "https://h.test:444/",
            "https://i.test/",
        ] {
            assert_ne!(of("https://h.test/"), of(other));
        }
    }

    #[test]
    fn a_certificate_makes_another_route_and_only_to_the_origin_that_was_named() {
        let identity = Some(ClientCertificate {
            certificates: Vec::new(),
            key: Vec::new(),
        });
        let config = ClientConfig {
            tls: TlsOptions {
                client_certificate: identity,
                ..TlsOptions::default()
            },
            ..ClientConfig::default()
        };
        let url = "https://h.test/";
        assert!(route(&config, url, url).has_client_certificate);
        assert!(!route(&config, url, "https://i.test/").has_client_certificate);
        assert!(!route(&config, "http://h.test/", "http://h.test/").has_client_certificate);
    }

    #[test]
    fn a_proxy_that_forwards_is_the_peer_for_every_origin() {
        let rules = |proxy: &str| ClientConfig {
            proxy: ProxyRules::all(proxy.parse().unwrap()),
            ..ClientConfig::default()
        };
        let config = rules("http://p:3128");
        let of = |url| route(&config, url, url);
        assert_eq!(of("http://h.test/"), of("http://i.test:81/"));
        assert_ne!(of("https://h.test/"), of("https://i.test/"));
        let config = rules("socks5h://p");
        let of = |url| route(&config, url, url);
        assert_ne!(of("http://h.test/"), of("http://i.test/"));
    }
}

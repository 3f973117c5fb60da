//! Proxies. How one is written is in [`parse`], which requests go through one in [`rules`] and [`no_proxy`].

mod authenticator;
mod no_proxy;
mod parse;
mod rules;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::auth::Login;
use crate::error::ProxyName;
use crate::request_secrets::RequestSecrets;
use crate::target::Target;
use crate::tls::ProxyTls;
pub(crate) use authenticator::{ProxyAuthenticator, is_login_refusal};
pub use no_proxy::{NoProxy, NoProxyError};
pub use parse::ProxyError;
pub use rules::{ProxyRules, UnusableProxyVariable};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyScheme {
    /// HTTP: CONNECT for https URLs, absolute-form for http URLs.
    Http,
    /// The same over TLS.
    Https,
    /// SOCKS5; names are resolved here.
    Socks5,
    /// SOCKS5; names are resolved by the proxy.
    Socks5h,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub scheme: ProxyScheme,
    /// Its name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub login: Option<Login>,
    /// Whether it gets the login by Basic with the first request, and not after it has asked for it.
    pub is_basic_sent_first: bool,
    /// Further header fields of a CONNECT to it.
    pub headers: HeaderMap,
    /// The TLS settings for an `https` proxy. `None` uses those for origins, without the client certificate.
    pub tls: Option<ProxyTls>,
    /// The variable of the environment that named it; `None` if the caller's settings did.
    pub variable: Option<&'static str>,
}

impl Proxy {
    /// Whether it takes CONNECT, and requests in absolute-form.
    #[must_use]
    pub fn is_http(&self) -> bool {
        matches!(self.scheme, ProxyScheme::Http | ProxyScheme::Https)
    }

    /// `host:port`, with brackets around IPv6 addresses.
    #[must_use]
    pub fn address(&self) -> String {
        self.target().to_string()
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> Target {
        Target {
            host: self.host.clone(),
            port: self.port,
        }
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> ProxyName {
        ProxyName {
            address: self.address(),
            variable: self.variable,
            // A user without a password is no login that the proxy could have refused.
            has_login: self
                .login
                .as_ref()
                .is_some_and(|login| !login.password.expose().is_empty()),
            next_hop: None,
        }
    }

    /// What it got with a request for a URL and may repeat.
    pub(crate) fn request_secrets(&self, url: &Url) -> RequestSecrets {
        let login = self
            .login
            .as_ref()
            .map(Login::basic_header)
            .and_then(|basic| HeaderValue::from_str(&basic).ok());
        let fields = self.headers.iter().filter(|(name, _)| **name != USER_AGENT);
        RequestSecrets::new([url], fields.map(|(_, value)| value).chain(&login))
    }

    /// The key of its challenges in the cache. It contains the user name and no secret.
    pub(crate) fn auth_key(&self) -> String {
        let user = self.login.as_ref().map_or("", |login| login.user.as_str());
        format!("{:?}:{user}@{}:{}", self.scheme, self.host, self.port)
    }
}

//! A proxy, and what belongs to it. How one is written is in [`written`], which one a request goes through in [`rules`].

mod no_proxy;
mod parse;
mod rules;

use http::HeaderMap;

use crate::auth::Login;
use crate::error::{ProxyName, ProxySource};
use crate::tls::ProxyTls;
pub use no_proxy::{NoProxy, NoProxyError};
pub use parse::ProxyError;
pub use rules::{ProxyRules, UnusableProxyVariable};

/// How a proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyScheme {
    /// HTTP: CONNECT for https, absolute-form for http.
    Http,
    /// The same over TLS.
    Https,
    /// SOCKS5, names resolved here.
    Socks5,
    /// SOCKS5, names resolved by the proxy.
    Socks5h,
}

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// How it is spoken to.
    pub scheme: ProxyScheme,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it may ask for.
    pub login: Option<Login>,
    /// Header fields that a CONNECT to it carries besides.
    pub headers: HeaderMap,
    /// How TLS with it is made, for one that is spoken to by that; none is as with origins, without the certificate that is for them.
    pub tls: Option<ProxyTls>,
    /// Who named it, for messages.
    pub source: ProxySource,
}

impl Proxy {
    /// Whether it takes requests in absolute-form, and CONNECT.
    #[must_use]
    pub fn is_http(&self) -> bool {
        matches!(self.scheme, ProxyScheme::Http | ProxyScheme::Https)
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> ProxyName {
        ProxyName {
            address: self.address(),
            source: self.source,
            has_login: self.login.is_some(),
            next_hop: None,
        }
    }

    /// `host:port`, as a message names it.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Proxy {
    /// What tells it from others, its login's user among that; no secret.
    pub(crate) fn auth_key(&self) -> String {
        let user = self.login.as_ref().map_or("", |login| login.user.as_str());
        format!("{:?}:{user}@{}:{}", self.scheme, self.host, self.port)
    }
}

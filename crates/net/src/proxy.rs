//! Which proxy a request goes through: from a flag, or from the environment by curl's rules.

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::auth::Login;
use crate::no_proxy::NoProxy;
use crate::secret::Secret;
use crate::tls::ProxyTls;

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

/// Who named a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxySource {
    /// The user, by a flag.
    #[default]
    Given,
    /// The user, by this other flag.
    Flag(&'static str),
    /// This variable of the environment.
    Variable(&'static str),
}

impl std::fmt::Display for ProxySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Given => "--proxy",
            Self::Flag(name) | Self::Variable(name) => name,
        })
    }
}

impl Proxy {
    /// Whether it takes requests in absolute-form, and CONNECT.
    #[must_use]
    pub fn is_http(&self) -> bool {
        matches!(self.scheme, ProxyScheme::Http | ProxyScheme::Https)
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

/// What was given is no proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It cannot be read. The text is not repeated: it may hold a password.
    #[error("this is no proxy; one is written as http://host:port or socks5://host:port")]
    Unreadable,
    /// Not a proxy protocol that is known.
    #[error("{0}: is no proxy protocol known here (http, https, socks5, socks5h)")]
    Scheme(String),
}

impl std::str::FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let text = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let url = Url::parse(&text).map_err(|_| ProxyError::Unreadable)?;
        let (scheme, port) = match url.scheme() {
            "http" => (ProxyScheme::Http, 80),
            "https" => (ProxyScheme::Https, 443),
            "socks5" => (ProxyScheme::Socks5, 1080),
            "socks5h" | "socks" => (ProxyScheme::Socks5h, 1080),
            other => return Err(ProxyError::Scheme(other.to_owned())),
        };
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(ProxyError::Unreadable)?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = (!url.username().is_empty()).then(|| Login {
            user: decode(url.username()),
            password: Secret::new(decode(url.password().unwrap_or_default())),
        });
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Ok(Self {
            scheme,
            host,
            port: url.port().unwrap_or(port),
            login,
            headers: HeaderMap::new(),
            tls: None,
            source: ProxySource::Given,
        })
    }
}

impl Proxy {
    /// What tells it from others, its login's user among that; no secret.
    pub(crate) fn key(&self) -> String {
        let user = self.login.as_ref().map_or("", |login| login.user.as_str());
        format!("{:?}:{user}@{}:{}", self.scheme, self.host, self.port)
    }
}

/// Which proxy for which URL.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    /// For http URLs.
    pub http: Option<Proxy>,
    /// For https URLs.
    pub https: Option<Proxy>,
    /// Hosts that are reached directly.
    pub no_proxy: NoProxy,
}

impl ProxyRules {
    /// One proxy for everything, as a flag gives it.
    #[must_use]
    pub fn all(proxy: Proxy) -> Self {
        Self {
            http: Some(proxy.clone()),
            https: Some(proxy),
            no_proxy: NoProxy::default(),
        }
    }

    /// From variables, looked up through `read`. Lower case wins; `HTTP_PROXY` in upper case is not read, since a CGI
    /// program's caller can set it by a header. An empty variable means no proxy.
    ///
    /// # Errors
    /// The variable that cannot be read, and why.
    pub fn from_environment(
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (&'static str, ProxyError)> {
        let first = |names: &[&'static str]| {
            let found = names.iter().find_map(|name| Some((*name, read(name)?)));
            found.filter(|(_, text)| !text.trim().is_empty())
        };
        let proxy = |names: &[&'static str]| match first(names) {
            Some((name, text)) => {
                let proxy: Proxy = text.trim().parse().map_err(|error| (name, error))?;
                Ok(Some(Proxy {
                    source: ProxySource::Variable(name),
                    ..proxy
                }))
            }
            None => Ok(None),
        };
        let no_proxy = first(&["no_proxy", "NO_PROXY"]).map(|(_, text)| NoProxy::parse(&text));
        Ok(Self {
            http: proxy(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            no_proxy: no_proxy.unwrap_or_default(),
        })
    }

    /// The proxy for a URL; `None` for a direct connection.
    #[must_use]
    pub fn for_url(&self, url: &Url) -> Option<&Proxy> {
        let host = url.host_str().unwrap_or_default();
        if self
            .no_proxy
            .matches(host.trim_start_matches('[').trim_end_matches(']'))
        {
            return None;
        }
        if url.scheme() == "https" {
            self.https.as_ref()
        } else {
            self.http.as_ref()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(variables: &[(&str, &str)]) -> ProxyRules {
        let read = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        };
        ProxyRules::from_environment(read).unwrap()
    }

    fn host_for(rules: &ProxyRules, url: &str) -> Option<String> {
        rules
            .for_url(&Url::parse(url).unwrap())
            .map(|proxy| format!("{}:{}", proxy.host, proxy.port))
    }

    #[test]
    fn the_environment_is_read_by_curls_rules() {
        let found = rules(&[
            ("http_proxy", "p:3128"),
            ("HTTPS_PROXY", "https://q"),
            ("no_proxy", "a.test, .b.test,10.0.0.0/8 [::1]"),
        ]);
        assert_eq!(
            host_for(&found, "http://x.test/").as_deref(),
            Some("p:3128")
        );
        assert_eq!(
            host_for(&found, "https://x.test/").as_deref(),
            Some("q:443")
        );
        for direct in [
            "http://a.test/",
            "http://x.a.test/",
            "http://b.test/",
            "https://10.1.2.3/",
            "http://[::1]:8080/",
        ] {
            assert_eq!(host_for(&found, direct), None, "{direct}");
        }
        for proxied in ["http://ba.test/", "http://a.test.evil/", "http://11.0.0.1/"] {
            assert!(host_for(&found, proxied).is_some(), "{proxied}");
        }
        assert_eq!(
            host_for(&rules(&[("HTTP_PROXY", "p:1")]), "http://x.test/"),
            None
        );
        assert_eq!(
            host_for(&rules(&[("all_proxy", "socks5h://s")]), "http://x.test/").as_deref(),
            Some("s:1080")
        );
        assert_eq!(
            host_for(
                &rules(&[("all_proxy", "p:1"), ("no_proxy", "*")]),
                "http://x.test/"
            ),
            None
        );
        assert_eq!(
            host_for(
                &rules(&[("http_proxy", ""), ("all_proxy", "p:1")]),
                "http://x.test/"
            ),
            None
        );
    }

    #[test]
    fn proxies_are_read_and_passwords_never_shown() {
        let proxy: Proxy = "http://us%40er:p%3Aw@[::1]:8080".parse().unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("::1", 8080));
        assert_eq!(
            proxy
                .login
                .as_ref()
                .map(|l| (l.user.as_str(), l.password.expose())),
            Some(("us@er", "p:w"))
        );
        assert!(!format!("{proxy:?}").contains("p:w"));
        assert_eq!(
            "ftp://p".parse::<Proxy>(),
            Err(ProxyError::Scheme("ftp".into()))
        );
        assert_eq!("http://".parse::<Proxy>(), Err(ProxyError::Unreadable));
    }
}

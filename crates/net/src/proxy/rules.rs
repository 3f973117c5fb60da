//! Which proxy a request goes through: from a flag, or from the environment by curl's rules.
//!
//! A variable was written for other programs too: one that cannot be used is an error for the requests that would go through its
//! proxy, which must not go another way, and none for all others.

use url::Url;

use super::no_proxy::NoProxy;
use super::{Proxy, ProxyError, ProxySource};

/// Which proxy for which URL.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    /// For http URLs.
    pub http: Option<Result<Proxy, UnusableProxyVariable>>,
    /// For https URLs.
    pub https: Option<Result<Proxy, UnusableProxyVariable>>,
    /// Hosts that are reached directly.
    pub no_proxy: NoProxy,
    /// The variable that names these, for messages.
    pub no_proxy_variable: Option<&'static str>,
}

/// A variable of the environment that should name a proxy, and does not. Its text is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {variable} cannot be used")]
pub struct UnusableProxyVariable {
    /// Its name.
    pub variable: &'static str,
    /// What is wrong with it.
    #[source]
    pub error: ProxyError,
}

impl ProxyRules {
    /// One proxy for everything, as a flag gives it.
    #[must_use]
    pub fn all(proxy: Proxy) -> Self {
        Self {
            http: Some(Ok(proxy.clone())),
            https: Some(Ok(proxy)),
            ..Self::default()
        }
    }

    /// From variables, looked up through `read`. Lower case wins; `HTTP_PROXY` in upper case is not read, since a CGI
    /// program's caller can set it by a header. An empty variable means no proxy.
    #[must_use]
    pub fn from_environment(read: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            let found = names.iter().find_map(|name| Some((*name, read(name)?)));
            found.filter(|(_, text)| !text.trim().is_empty())
        };
        let proxy = |names: &[&'static str]| {
            let (variable, text) = first(names)?;
            let parsed: Result<Proxy, _> = text.trim().parse();
            let named = parsed.map(|proxy| Proxy {
                source: ProxySource::Variable(variable),
                ..proxy
            });
            Some(named.map_err(|error| UnusableProxyVariable { variable, error }))
        };
        let no_proxy = first(&["no_proxy", "NO_PROXY"]);
        Self {
            http: proxy(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            no_proxy_variable: no_proxy.as_ref().map(|(name, _)| *name),
            no_proxy: no_proxy.map_or_else(NoProxy::default, |(_, text)| NoProxy::parse(&text)),
        }
    }

    /// The proxy for a URL; `None` for a direct connection.
    ///
    /// # Errors
    /// The variable that should name it, where that cannot be used.
    pub fn for_url(&self, url: &Url) -> Result<Option<&Proxy>, &UnusableProxyVariable> {
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or_default();
        if self.no_proxy.matches(host, port) {
            return Ok(None);
        }
        let proxy = match url.scheme() {
            "https" => &self.https,
            _ => &self.http,
        };
        proxy.as_ref().map(Result::as_ref).transpose()
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
        ProxyRules::from_environment(read)
    }

    fn host_for(rules: &ProxyRules, url: &str) -> Option<String> {
        rules
            .for_url(&Url::parse(url).unwrap())
            .unwrap()
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
    fn a_variable_that_cannot_be_used_is_an_error_for_what_would_go_by_it_alone() {
        let found = rules(&[
            ("http_proxy", "p:3128"),
            ("https_proxy", "corp"),
            ("no_proxy", "b.test"),
        ]);
        assert_eq!(host_for(&found, "http://a.test/").unwrap(), "p:3128");
        assert_eq!(host_for(&found, "https://b.test/"), None);
        let url = Url::parse("https://a.test/").unwrap();
        let unusable = UnusableProxyVariable {
            variable: "https_proxy",
            error: ProxyError::NoPort,
        };
        assert_eq!(found.for_url(&url), Err(&unusable));
        // What stands behind it is not taken in its place.
        let found = rules(&[("http_proxy", "http://p:1/x"), ("all_proxy", "q:1")]);
        assert_eq!(host_for(&found, "https://a.test/").unwrap(), "q:1");
        assert!(
            found
                .for_url(&Url::parse("http://a.test/").unwrap())
                .is_err()
        );
    }
}

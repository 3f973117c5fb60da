//! Which proxy a request goes through: by the caller's settings, or by the environment under curl's rules.
//!
//! A variable of the environment serves other programs too. If it names no usable proxy, that is an error for the requests that
//! would go through this proxy, which must not go another way, and for no others.

use url::Url;

use super::{NoProxy, Proxy, ProxyError};

/// Which URL is requested through which proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    /// For http URLs.
    pub http: Option<Result<Proxy, UnusableProxyVariable>>,
    /// For https URLs.
    pub https: Option<Result<Proxy, UnusableProxyVariable>>,
    /// Hosts that are reached directly.
    pub no_proxy: NoProxy,
    /// The variable that `no_proxy` is from, for messages.
    pub no_proxy_variable: Option<&'static str>,
}

/// A variable of the environment that should name a proxy, and does not. The message does not repeat its text, which may hold a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {variable} cannot be used")]
pub struct UnusableProxyVariable {
    pub variable: &'static str,
    /// What is wrong with its text.
    #[source]
    pub error: ProxyError,
}

impl ProxyRules {
    /// One proxy for all URLs, as the caller's settings give it.
    #[must_use]
    pub fn all(proxy: Proxy) -> Self {
        Self {
            http: Some(Ok(proxy.clone())),
            https: Some(Ok(proxy)),
            ..Self::default()
        }
    }

    /// The rules of the environment, which `read` looks up. Lower case wins. `HTTP_PROXY` in upper case is ignored, since the
    /// caller of a CGI program can set it by a header field. An empty variable means no proxy.
    #[must_use]
    pub fn from_environment(read: impl Fn(&str) -> Option<String>) -> Self {
        let first_set = |names: &[&'static str]| {
            let found = names.iter().find_map(|name| Some((*name, read(name)?)));
            found.filter(|(_, text)| !text.trim().is_empty())
        };
        let proxy = |names: &[&'static str]| {
            let (variable, text) = first_set(names)?;
            let proxy = text.trim().parse::<Proxy>();
            let proxy = proxy.map(|proxy| Proxy {
                variable: Some(variable),
                ..proxy
            });
            Some(proxy.map_err(|error| UnusableProxyVariable { variable, error }))
        };
        let no_proxy = first_set(&["no_proxy", "NO_PROXY"]);
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
    /// The variable that should name the proxy is unusable.
    pub fn for_url(&self, url: &Url) -> Result<Option<&Proxy>, &UnusableProxyVariable> {
        let host = url
            .host_str()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
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
        ProxyRules::from_environment(|name| {
            let mut variables = variables.iter();
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    /// The address of the proxy for a URL.
    fn proxy_for(rules: &ProxyRules, url: &str) -> Option<String> {
        let proxy = rules.for_url(&Url::parse(url).unwrap()).unwrap();
        proxy.map(Proxy::address)
    }

    #[test]
    fn the_environment_is_read_by_curls_rules() {
        let found = rules(&[
            ("http_proxy", "p:3128"),
            ("HTTPS_PROXY", "https://q"),
            ("no_proxy", "a.test, .b.test,10.0.0.0/8 [::1]"),
        ]);
        let http = proxy_for(&found, "http://x.test/");
        assert_eq!(http.as_deref(), Some("p:3128"));
        let https = proxy_for(&found, "https://x.test/");
        assert_eq!(https.as_deref(), Some("q:443"));
        for direct in [
            "http://a.test/",
            "http://x.a.test/",
            "http://b.test/",
            "https://10.1.2.3/",
            "http://[::1]:8080/",
        ] {
            assert_eq!(proxy_for(&found, direct), None, "{direct}");
        }
        for proxied in ["http://ba.test/", "http://a.test.evil/", "http://11.0.0.1/"] {
            assert!(proxy_for(&found, proxied).is_some(), "{proxied}");
        }
        for (variables, expected) in [
            (&[("HTTP_PROXY", "p:1")][..], None),
            (&[("all_proxy", "socks5h://s")], Some("s:1080")),
            (&[("all_proxy", "p:1"), ("no_proxy", "*")], None),
            (&[("http_proxy", ""), ("all_proxy", "p:1")], None),
        ] {
            let proxy = proxy_for(&rules(variables), "http://x.test/");
            assert_eq!(proxy.as_deref(), expected, "{variables:?}");
        }
    }

    #[test]
    fn an_unusable_variable_is_an_error_for_requests_that_would_use_it_alone() {
        let found = rules(&[
            ("http_proxy", "p:3128"),
            ("https_proxy", "corp"),
            ("no_proxy", "b.test"),
        ]);
        let http = proxy_for(&found, "http://a.test/");
        assert_eq!(http.as_deref(), Some("p:3128"));
        assert_eq!(proxy_for(&found, "https://b.test/"), None);
        let url = Url::parse("https://a.test/").unwrap();
        let unusable = UnusableProxyVariable {
            variable: "https_proxy",
            error: ProxyError::NoPort,
        };
        assert_eq!(found.for_url(&url), Err(&unusable));
        // A later variable does not take its place.
        let found = rules(&[("http_proxy", "http://p:1/x"), ("all_proxy", "q:1")]);
        let https = proxy_for(&found, "https://a.test/");
        assert_eq!(https.as_deref(), Some("q:1"));
        let url = Url::parse("http://a.test/").unwrap();
        assert!(found.for_url(&url).is_err());
    }
}

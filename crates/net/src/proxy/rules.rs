//! Which proxy a request goes through: from a flag, or from the environment by curl's rules.

use url::Url;

use super::{Proxy, ProxyError, ProxySource};
use crate::no_proxy::NoProxy;

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
}

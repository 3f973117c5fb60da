//! By which names a server may be asked for, where nothing else keeps strangers out.
//!
//! A server that listens on loopback alone and has no logins trusts whoever runs a program on this machine. A browser is such a program, and it runs the
//! pages of strangers. What keeps those away is that they are of another origin; unless the stranger lets the name of the page lead to 127.0.0.1 once it is
//! loaded (DNS rebinding): then the page and this server are one origin to the browser, and the page reads and writes what it likes.
//! What gives it away is the name, which stands in Host.
//!
//! So all requests are looked at, also those that only read: Sec-Fetch-Site is not sent to a name that is neither encrypted nor localhost, Origin
//! not with a plain GET, and Referer only if the page likes. What is let through is what no stranger's name can be: an address, `localhost` and
//! what ends in it, this machine's own names, names without a dot (which are nobody's on the Internet, and which proxies call a
//! server behind them), and those that the owner has allowed. Where only programs of this machine have any business ([`ServerNames::loopback`]),
//! an address and `localhost` are enough. A request without a host is of no browser.
//!
//! The price is a proxy in front that passes a name of its own on: it gets a refusal that says what to do. With TLS there is
//! nothing to look for, since a browser has compared the name with the certificate, and no browser reaches a unix socket.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{HeaderMap, Uri};

/// The names of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNames {
    /// In lower case, without a dot at their end.
    names: Box<[String]>,
    /// Whether a name without a dot will do: a proxy's for a server behind it.
    allows_dotless: bool,
}

impl ServerNames {
    /// These names, besides those that no stranger can have.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let plain = |name: String| name.trim_end_matches('.').to_ascii_lowercase();
        Self {
            names: names.into_iter().map(plain).collect(),
            allows_dotless: true,
        }
    }

    /// Addresses, `localhost` and what ends in it, and no other name.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            names: Box::new(["localhost".to_owned()]),
            allows_dotless: false,
        }
    }

    /// Whether a request is for this server, as far as its names tell.
    #[must_use]
    pub fn allows(&self, headers: &HeaderMap, target: &Uri) -> bool {
        // A second Host, or one in the target, is for nobody to choose from: each must do.
        let mut stated = headers.get_all(HOST).iter();
        stated.all(|host| self.is_own_host(host.as_bytes()))
            && target
                .authority()
                .is_none_or(|authority| self.is_own_host(authority.as_str().as_bytes()))
    }

    /// Whether a host, with a port or without, is one of this server's.
    fn is_own_host(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split(']').next().unwrap_or_default();
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = host.split_once(':').map_or(host, |(name, _)| name);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_short = !name.contains('.') && (self.allows_dotless || name.is_empty());
        name.parse::<Ipv4Addr>().is_ok() || is_short || self.is_own_name(name)
    }

    fn is_own_name(&self, name: &str) -> bool {
        let ending = name.len().checked_sub(".localhost".len());
        let ending = ending.and_then(|at| name.get(at..));
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case(".localhost"))
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn hosts() -> ServerNames {
        ServerNames::new(["Machine.example.".to_owned(), "files.test".to_owned()])
    }

    fn admits(host: &[u8]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_bytes(host).expect("a value"));
        hosts().allows(&headers, &Uri::from_static("/f"))
    }

    #[test]
    fn names_that_no_stranger_can_have_are_known() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "192.0.2.7:80",
            "[::1]",
            "[::1]:8080",
            "localhost",
            "LOCALHOST:8080",
            "localhost.:8080",
            "a.localhost",
            "a.b.LocalHost:1",
            "machine.example",
            "machine.EXAMPLE.:8080",
            "files.test",
            "backend",
            "",
        ] {
            assert!(admits(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn all_others_are_not() {
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io:8080",
            "localhost.evil.example",
            "evillocalhost.example",
            "a.files.test",
            "machine.example.evil",
            "127.0.0.1@evil.example",
            "[evil.example]",
            "1.2.3",
            "b\u{fc}.example",
        ] {
            assert!(!admits(host.as_bytes()), "{host}");
        }
        assert!(!admits(b"\xff.localhost"));
    }

    #[test]
    fn on_loopback_there_is_no_name_but_localhost() {
        let admits = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            ServerNames::loopback().allows(&headers, &Uri::from_static("/metrics"))
        };
        for host in [
            "127.0.0.1:9090",
            "192.0.2.7",
            "[::1]:9090",
            "localhost",
            "LocalHost.:9090",
            "a.localhost:9090",
            "",
        ] {
            assert!(admits(host), "{host}");
        }
        for host in ["backend", "a:9090", "machine.local", "evil.example:9090"] {
            assert!(!admits(host), "{host}");
        }
    }

    #[test]
    fn every_name_that_is_stated_counts() {
        let (none, one) = (HeaderMap::new(), |host| {
            let mut headers = HeaderMap::new();
            headers.append(HOST, HeaderValue::from_static(host));
            headers
        });
        let (path, own) = ("/f".parse().expect("a"), "http://localhost/f".parse());
        let (own, evil) = (
            own.expect("a target"),
            "http://evil.test/".parse().expect("a"),
        );
        assert!(hosts().allows(&none, &path) && hosts().allows(&none, &own));
        assert!(hosts().allows(&one("localhost"), &own));
        assert!(!hosts().allows(&none, &evil));
        assert!(!hosts().allows(&one("localhost"), &evil));
        assert!(!hosts().allows(&one("evil.test"), &own));
        let mut two = one("localhost");
        two.append(HOST, HeaderValue::from_static("evil.test"));
        assert!(!hosts().allows(&two, &path));
    }

    proptest! {
        #[test]
        fn a_strangers_name_is_known_in_no_spelling(
            name in "[a-zA-Z0-9-]{0,8}(\\.[a-zA-Z0-9-]{1,8}){0,2}",
            end in "(evil\\.test|example|COM)\\.?(:[0-9]{0,5})?",
        ) {
            let host = format!("{name}.{end}");
            prop_assert!(!admits(host.as_bytes()));
        }

        #[test]
        fn no_host_is_a_panic(host in prop::collection::vec(any::<u8>(), 0..40)) {
            if HeaderValue::from_bytes(&host).is_ok() {
                let _ = admits(&host);
            }
        }
    }
}

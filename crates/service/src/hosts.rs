//! The host names that a server accepts, against DNS rebinding.
//!
//! A server that listens on loopback alone and has no logins trusts the programs of this machine. A browser is such a program, and it runs
//! pages of other sites. The same-origin policy keeps those pages away from this server, unless their site rebinds its own name to 127.0.0.1
//! once the page is loaded: then the page and this server are one origin to the browser, and the page reads and writes as it likes. Only the
//! name in Host reveals it.
//!
//! Every request is checked, also those that only read: browsers do not send Sec-Fetch-Site to a name that is neither encrypted nor localhost,
//! no Origin with a plain GET, and Referer only if the page allows it. Accepted are hosts that no other site can have: an address,
//! `localhost` and names below it, this machine's names, names without a dot (they do not exist on the Internet, and proxies use them for a
//! server behind them), and names that the user allowed. Where only programs of this machine should connect ([`ServerNames::loopback`]), an address
//! and `localhost` are enough. A request without Host is not from a browser.
//!
//! A proxy in front that passes on a name of its own gets a refusal that says what to do. With TLS nothing needs to be checked, since a
//! browser has compared the name with the certificate, and no browser connects to a Unix socket.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{HeaderMap, Uri};

/// The host of a request: the authority of an absolute target or of HTTP/2, before which Host does not count (RFC 9112 3.2.2), else Host.
/// What authorizes a request and what serves it must ask this one function.
#[must_use]
pub fn request_host<'a>(headers: &'a HeaderMap, target: &'a Uri) -> Option<&'a str> {
    match target.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST)?.to_str().ok(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNames {
    /// In lower case, without a trailing dot.
    names: Box<[String]>,
    /// Whether every name without a dot is accepted, as proxies use them for a server behind them.
    allows_dotless: bool,
}

impl ServerNames {
    /// Accepts these names, and those that no other site can have.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let normalized = |name: String| name.trim_end_matches('.').to_ascii_lowercase();
        Self {
            names: names.into_iter().map(normalized).collect(),
            allows_dotless: true,
        }
    }

    /// Accepts addresses, `localhost` and names below it, and no other name.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            names: Box::new(["localhost".to_owned()]),
            allows_dotless: false,
        }
    }

    /// Whether every host of a request is one of these names.
    #[must_use]
    pub fn allows(&self, headers: &HeaderMap, target: &Uri) -> bool {
        // All of them: a program behind may believe any.
        let mut hosts = headers.get_all(HOST).iter();
        hosts.all(|host| self.is_own_host(host.as_bytes()))
            && target
                .authority()
                .is_none_or(|authority| self.is_own_host(authority.as_str().as_bytes()))
    }

    /// Checks a host with or without a port.
    fn is_own_host(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        if let Some(rest) = host.strip_prefix('[') {
            return rest.split_once(']').is_some_and(|(address, port)| {
                address.parse::<Ipv6Addr>().is_ok() && is_port_suffix(port)
            });
        }
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        if !is_port_suffix(port) {
            return false;
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_dotless = !name.contains('.') && (self.allows_dotless || name.is_empty());
        name.parse::<Ipv4Addr>().is_ok() || is_dotless || self.is_own_name(name)
    }

    fn is_own_name(&self, name: &str) -> bool {
        let ending = name
            .len()
            .checked_sub(".localhost".len())
            .and_then(|at| name.get(at..));
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case(".localhost"))
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Whether a text is empty, or a colon and a port.
fn is_port_suffix(text: &str) -> bool {
    let digits = text.strip_prefix(':').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit()) && (text.is_empty() || text.starts_with(':'))
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
    fn names_that_no_other_site_can_have_are_accepted() {
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
    fn all_others_are_refused() {
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
            "localhost:80@evil.example",
            "[::1].evil.example",
            "[::1]evil.example",
            "[evil.example]",
            "1.2.3",
            "b\u{fc}.example",
        ] {
            assert!(!admits(host.as_bytes()), "{host}");
        }
        assert!(!admits(b"\xff.localhost"));
    }

    #[test]
    fn on_loopback_localhost_is_the_only_name() {
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
    fn every_host_of_a_request_is_checked() {
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
        fn a_foreign_name_is_refused_in_every_spelling(
            name in "[a-zA-Z0-9-]{0,8}(\\.[a-zA-Z0-9-]{1,8}){0,2}",
            end in "(evil\\.test|example|COM)\\.?(:[0-9]{0,5})?",
        ) {
            let host = format!("{name}.{end}");
            prop_assert!(!admits(host.as_bytes()));
        }

        #[test]
        fn no_host_causes_a_panic(host in prop::collection::vec(any::<u8>(), 0..40)) {
            if HeaderValue::from_bytes(&host).is_ok() {
                let _ = admits(&host);
            }
        }
    }
}

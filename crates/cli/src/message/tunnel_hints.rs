//! What a user of `haul tunnel` may do about a target that was not reached. The kinds of errors are those of downloads; the flags that
//! help are others, and what fails at a proxy is mended there.

use haul_net::{AddressFamily, Error, Kind, ProxyRefusal, ProxySource, TlsProblem};

/// What to do, where that is known.
pub(crate) fn tunnel_hint(error: &Error) -> Option<&'static str> {
    if error.is_descriptor_limit() {
        return Some("too many files are open: ulimit -n N allows more");
    }
    // TLS with a target has no proxy in its error, wherever it leads through.
    let is_of_proxy = match error.kind() {
        Kind::Tls(_) => error.proxy().is_some(),
        _ => error.is_proxy_unreachable(),
    };
    Some(match error.kind() {
        Kind::ProxyAuth(_) if error.proxy().is_some_and(|proxy| proxy.has_login) => {
            "check the user name and password of the proxy"
        }
        Kind::ProxyAuth(_) => "-U USER logs in to the proxy; haul tunnel --help has other ways",
        Kind::ProxyRefused(_) if error.proxy().is_some_and(|proxy| proxy.next_hop.is_some()) => {
            "is that next proxy up, and its host and port right?"
        }
        Kind::ProxyRefused(_) => refusal_hint(error.proxy_refusal()),
        Kind::NotSocks => "an HTTP proxy is written with http:// or https://",
        Kind::NoSuchHost(_) | Kind::Resolve(_) | Kind::Connect(_) | Kind::ConnectTimeout(_)
            if is_of_proxy =>
        {
            match error.proxy().map(|proxy| proxy.source) {
                Some(ProxySource::Variable(_)) => {
                    "is that proxy up? -p PROXY names another, -p '' goes without"
                }
                _ => {
                    "is that proxy up, and its port right? --direct-fallback does without when it is not"
                }
            }
        }
        // It was reached, and what it was asked for had no answer.
        Kind::ConnectTimeout(_) if error.proxy().is_some() => {
            "the proxy takes connections and does not answer: is its port right, and the target up? --connect-timeout TIME waits longer"
        }
        Kind::Closed | Kind::Protocol if error.proxy().is_some() => {
            "is that an HTTP proxy, and its port right? a SOCKS proxy is written with socks5://, one over TLS with https://"
        }
        Kind::NoSuchHost(_) => {
            "check the name; --resolve HOST:PORT:ADDRESS gives it an address by hand"
        }
        Kind::Resolve(_) => "check the network connection and the name servers",
        Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            "is the host up, the port right, and is a proxy needed (-p)?"
        }
        Kind::NoAddress(_, AddressFamily::V4) => "leave out -4/--ipv4",
        Kind::NoAddress(..) => "leave out -6/--ipv6",
        Kind::Tls(problem) => return tls_hint(*problem, is_of_proxy),
        _ => return None,
    })
}

/// What to do where there is no TLS with the proxy, or with the target.
fn tls_hint(problem: TlsProblem, is_of_proxy: bool) -> Option<&'static str> {
    Some(match (problem, is_of_proxy) {
        (TlsProblem::NotTls, true) => "that proxy may want to be written with http://",
        (TlsProblem::NotTls, false) => {
            "the target speaks no TLS at that port: leave out --target-tls"
        }
        (TlsProblem::UnknownIssuer, true) => {
            "--proxy-cacert FILE trusts an authority of your own, --proxy-insecure anyone"
        }
        (TlsProblem::UnknownIssuer, false) => {
            "--cacert FILE trusts an authority of your own or one self-made certificate, --insecure anyone"
        }
        (TlsProblem::WrongHost, true) => {
            "name the proxy in -p as its certificate does; --proxy-insecure goes on all the same, at your risk"
        }
        (TlsProblem::WrongHost, false) => {
            "name the target as its certificate does; --insecure goes on all the same, at your risk"
        }
        (TlsProblem::Expired, true) => "--proxy-insecure goes on all the same, at your risk",
        (TlsProblem::Expired, false) => "--insecure goes on all the same, at your risk",
        (TlsProblem::ClientCertificate, true) => {
            "--proxy-cert and --proxy-key show that proxy a certificate"
        }
        (TlsProblem::ClientCertificate, false) => "--cert and --key show the target a certificate",
        (TlsProblem::RootsUnavailable, true) => {
            "SSL_CERT_FILE or --proxy-cacert says where trusted certificates are"
        }
        (TlsProblem::RootsUnavailable, false) => {
            "SSL_CERT_FILE or --cacert says where trusted certificates are"
        }
        _ => return None,
    })
}

/// What to do where the proxy was reached and will not.
fn refusal_hint(why: Option<ProxyRefusal>) -> &'static str {
    match why {
        Some(ProxyRefusal::TargetUnreachable) => "is the target up, and its host and port right?",
        Some(ProxyRefusal::NotAllowed) => {
            "the proxy does not allow this target: many allow port 443 alone"
        }
        _ => "the proxy does not say why: is the target up, and allowed?",
    }
}

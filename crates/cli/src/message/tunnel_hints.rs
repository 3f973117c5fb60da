//! Hints of `haul tunnel` about a target that cannot be reached. The errors are those of downloads; the flags that help are others, and an
//! error at a proxy is fixed at the proxy.

use haul_net::{AddressFamily, Error, Kind, ProxyRefusal, TlsProblem};

/// What the user can do, if known.
pub(crate) fn tunnel_hint(error: &Error) -> Option<&'static str> {
    if error.is_descriptor_limit() {
        return Some("too many open files: raise the limit with ulimit -n N");
    }
    if error.lacks_zone() {
        return Some(super::NO_ZONE);
    }
    if error.is_login_unasked() {
        return Some(super::UNASKED_LOGIN);
    }
    // An error of TLS with a target names no proxy, even if the connection goes through one.
    let is_of_proxy = match error.kind() {
        Kind::Tls(_) => error.proxy().is_some(),
        _ => error.is_proxy_unreachable(),
    };
    Some(match error.kind() {
        Kind::ProxyAuth(_) if error.proxy().is_some_and(|proxy| proxy.has_login) => {
            "check the user name and password of the proxy"
        }
        Kind::ProxyAuth(_) => "log in with -U USER; see haul tunnel --help for other ways",
        Kind::ProxyRefused(_) if error.proxy().is_some_and(|proxy| proxy.next_hop.is_some()) => {
            "is the next proxy up, and are its host and port correct?"
        }
        Kind::ProxyRefused(_) => refusal_hint(error.proxy_refusal()),
        Kind::NotSocks => "write an HTTP proxy with http:// or https://",
        Kind::NoSuchHost(_) | Kind::Resolve(_) | Kind::Connect(_) | Kind::ConnectTimeout(_)
            if is_of_proxy =>
        {
            match error.proxy().and_then(|proxy| proxy.variable) {
                Some(_) => "is the proxy up? use another with -p PROXY, or none with -p ''",
                None => {
                    "is the proxy up, and its port correct? --direct-fallback connects directly when it is down"
                }
            }
        }
        // The proxy was reached but did not respond.
        Kind::ConnectTimeout(_) if error.proxy().is_some() => {
            "the proxy accepts connections and does not respond: is its port correct, and the target up? --connect-timeout TIME waits longer"
        }
        Kind::Closed | Kind::Protocol if error.proxy().is_some() => {
            "is this an HTTP proxy, and its port correct? write a SOCKS proxy with socks5://, a proxy over TLS with https://"
        }
        Kind::NoSuchHost(_) => {
            "check the name, or set its address with --resolve HOST:PORT:ADDRESS"
        }
        Kind::Resolve(_) => "check the network connection and the name servers",
        Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            "is the host up, the port correct, and is a proxy needed (-p)?"
        }
        Kind::NoAddress(_, AddressFamily::V4) => "leave out -4/--ipv4",
        Kind::NoAddress(..) => "leave out -6/--ipv6",
        Kind::Tls(problem) => return tls_hint(*problem, is_of_proxy),
        _ => return None,
    })
}

/// Hints for failed TLS with the proxy or the target.
fn tls_hint(problem: TlsProblem, is_of_proxy: bool) -> Option<&'static str> {
    Some(match (problem, is_of_proxy) {
        (TlsProblem::NotTls | TlsProblem::PlainHttp, true) => "try http:// for this proxy",
        (TlsProblem::NotTls | TlsProblem::PlainHttp, false) => {
            "the target does not speak TLS on this port: leave out --target-tls"
        }
        (TlsProblem::UnknownIssuer | TlsProblem::SelfSigned, true) => {
            "trust your own authority with --proxy-cacert FILE, or any certificate with --proxy-insecure"
        }
        (TlsProblem::UnknownIssuer | TlsProblem::SelfSigned, false) => {
            "trust your own authority or a self-signed certificate with --cacert FILE, or any with --insecure"
        }
        (TlsProblem::WrongHost, true) => {
            "use the name in the proxy's certificate with -p, or continue at your own risk with --proxy-insecure"
        }
        (TlsProblem::WrongHost, false) => {
            "use the name in the target's certificate, or continue at your own risk with --insecure"
        }
        (TlsProblem::Expired, true) => "continue at your own risk with --proxy-insecure",
        (TlsProblem::Expired, false) => "continue at your own risk with --insecure",
        (TlsProblem::ClientCertificate, true) => {
            "give the proxy a client certificate with --proxy-cert and --proxy-key"
        }
        (TlsProblem::ClientCertificate, false) => {
            "give the target a client certificate with --cert and --key"
        }
        (TlsProblem::RootsUnavailable, true) => {
            "name the trusted certificates with SSL_CERT_FILE or --proxy-cacert"
        }
        (TlsProblem::RootsUnavailable, false) => {
            "name the trusted certificates with SSL_CERT_FILE or --cacert"
        }
        _ => return None,
    })
}

/// Hints for a proxy that refuses.
fn refusal_hint(why: Option<ProxyRefusal>) -> &'static str {
    match why {
        Some(ProxyRefusal::TargetUnreachable) => {
            "is the target up, and are its host and port correct?"
        }
        Some(ProxyRefusal::NotAllowed) => {
            "the proxy does not allow this target: many allow port 443 only"
        }
        _ => "the proxy gives no reason: is the target up, and allowed?",
    }
}

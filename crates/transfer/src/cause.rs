//! The causes of failed requests in a few words, without a URL.

use haul_net::{Kind, TlsProblem};

pub(crate) fn transport_cause(kind: &Kind) -> String {
    let text = match kind {
        Kind::NoSuchHost(_) => "no such host",
        Kind::NoAddress(..) => "no address of the requested family",
        Kind::Resolve(_) => "the name cannot be resolved",
        Kind::Connect(_) => "cannot connect",
        Kind::ConnectTimeout(_) => "no connection in time",
        Kind::UnusableProxyVariable(variable) => return format!("{variable} cannot be used"),
        Kind::ProxyRefused(Some(status)) => return format!("the proxy answered {status}"),
        Kind::ProxyRefused(None) => "the proxy refused",
        Kind::ProxyAuth(_) => "the proxy requires credentials",
        Kind::NotSocks => "the proxy speaks no SOCKS5",
        Kind::Tls(TlsProblem::Expired) => "certificate expired",
        Kind::Tls(TlsProblem::WrongHost) => "certificate for another host",
        Kind::Tls(TlsProblem::UnknownIssuer) => "certificate of an unknown issuer",
        Kind::Tls(TlsProblem::SelfSigned) => "self-signed certificate",
        Kind::Tls(TlsProblem::Revoked) => "certificate revoked",
        Kind::Tls(TlsProblem::NotTls | TlsProblem::PlainHttp) => "no TLS spoken",
        Kind::Tls(_) => "TLS failed",
        Kind::ConnectionsBusy(_) => "no room on the host's connection",
        Kind::Stall => "silent for too long",
        Kind::ResponseTimeout => "no response in time",
        Kind::Closed => "the connection was closed",
        Kind::Protocol => "not HTTP",
        Kind::Framing(_) => "unusable Transfer-Encoding or Content-Length",
        Kind::Redirect(_) => "a redirect that is not followed",
        Kind::InvalidRequest => "the request cannot be sent",
        _ => "the request failed",
    };
    text.to_owned()
}

//! What a proxy's refusal means, as far as the proxy says.
//!
//! The user must act on it, and in another place each time: a target that is down is not mended at the proxy, and a rule of the
//! proxy is not changed at the target.

use std::io;

use http::StatusCode;
use http::header::HeaderMap;

use super::{Error, Kind};

/// Why a proxy did not connect to a target, or did not forward a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyRefusal {
    /// Its rules forbid it.
    NotAllowed,
    /// It could not reach the target.
    TargetUnreachable,
    /// It gives no reason.
    Unspecified,
}

impl Error {
    /// What a proxy's refusal means; `None` for any other error.
    #[must_use]
    pub fn proxy_refusal(&self) -> Option<ProxyRefusal> {
        let Kind::ProxyRefused(status) = self.kind() else {
            return None;
        };
        let source = std::error::Error::source(self).and_then(|source| source.downcast_ref());
        Some(match (status.map(|status| status.as_u16()), source) {
            (Some(403 | 405 | 451), _) => ProxyRefusal::NotAllowed,
            (Some(502..=504), _) => ProxyRefusal::TargetUnreachable,
            (None, Some(reply)) => socks_refusal(reply),
            _ => ProxyRefusal::Unspecified,
        })
    }
}

/// The error of a SOCKS5 proxy's reply code (RFC 1928 section 6).
pub(crate) fn socks_reply_error(code: u8) -> io::Error {
    use io::ErrorKind as E;
    let (kind, text) = match code {
        1 => (E::Other, "general failure"),
        2 => (E::PermissionDenied, "not allowed by its rules"),
        3 => (E::NetworkUnreachable, "network unreachable"),
        4 => (E::HostUnreachable, "host unreachable"),
        5 => (E::ConnectionRefused, "connection refused"),
        6 => (E::TimedOut, "time to live expired"),
        7 => (E::Unsupported, "command not supported"),
        8 => (E::Unsupported, "address type not supported"),
        _ => (E::Other, "unknown reply"),
    };
    io::Error::new(kind, text)
}

fn socks_refusal(reply: &io::Error) -> ProxyRefusal {
    use io::ErrorKind as E;
    match reply.kind() {
        E::PermissionDenied => ProxyRefusal::NotAllowed,
        E::NetworkUnreachable | E::HostUnreachable | E::ConnectionRefused | E::TimedOut => {
            ProxyRefusal::TargetUnreachable
        }
        _ => ProxyRefusal::Unspecified,
    }
}

/// Whether a proxy generated an error response itself and did not relay it, as squid says in a header field. Only the statuses of
/// a proxy's own refusals count. Any other status may come from a proxy in front of the origin, and is judged as the origin's.
pub(crate) fn is_proxy_generated(status: StatusCode, headers: &HeaderMap) -> bool {
    matches!(status.as_u16(), 403 | 502..=504) && headers.contains_key("x-squid-error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_squid_are_distinguished_from_those_it_relays() {
        let is_generated = |status: u16, fields: &[(&'static str, &'static str)]| {
            let headers = fields.iter().map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    http::HeaderValue::from_static(value),
                )
            });
            is_proxy_generated(StatusCode::from_u16(status).unwrap(), &headers.collect())
        };
        let squid = ("x-squid-error", "ERR_ACCESS_DENIED 0");
        let (via, server) = (("via", "1.1 caddy"), ("server", "caddy"));
        assert!(is_generated(403, &[squid, via]) && is_generated(503, &[squid]));
        // A reverse proxy names itself in these fields, and its 429 must be obeyed.
        assert!(!is_generated(429, &[server, via]) && !is_generated(403, &[server, via]));
        for status in [429, 401, 206] {
            assert!(!is_generated(status, &[squid]), "{status}");
        }
    }

    #[test]
    fn socks_replies_have_meanings() {
        for (codes, expected) in [
            (&[2][..], ProxyRefusal::NotAllowed),
            (&[3, 4, 5, 6], ProxyRefusal::TargetUnreachable),
            (&[1, 7, 8, 9], ProxyRefusal::Unspecified),
        ] {
            for code in codes {
                assert_eq!(socks_refusal(&socks_reply_error(*code)), expected, "{code}");
            }
        }
    }
}

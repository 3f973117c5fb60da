//! What a proxy's refusal means, as far as the proxy says.
//!
//! Whoever must act on it is the user, and on something else each time: a target that is down is not mended at the proxy, and a
//! rule of the proxy's not at the target.

use std::io;

use http::StatusCode;
use http::header::HeaderMap;

use crate::error::{Error, Kind};

/// Why a proxy did not connect us to a target, or did not forward a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyRefusal {
    /// Its rules forbid it.
    NotAllowed,
    /// It could not reach the target.
    TargetUnreachable,
    /// It does not say.
    Unspecified,
}

impl Error {
    /// What a proxy's refusal means; `None` for any other error.
    #[must_use]
    pub fn proxy_refusal(&self) -> Option<ProxyRefusal> {
        let Kind::ProxyRefused(status) = self.kind() else {
            return None;
        };
        let cause = std::error::Error::source(self).and_then(|cause| cause.downcast_ref());
        Some(match (status.map(|status| status.as_u16()), cause) {
            (Some(403 | 405 | 451), _) => ProxyRefusal::NotAllowed,
            (Some(502..=504), _) => ProxyRefusal::TargetUnreachable,
            (None, Some(error)) => socks_refusal(error),
            _ => ProxyRefusal::Unspecified,
        })
    }
}

/// A SOCKS5 proxy's reply (RFC 1928 section 6).
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

/// Whether an error's answer that came through a proxy is the proxy's own and not the origin's: squid says so. Only of what a
/// proxy says for itself: that it may not, or that the target does not answer. Anything else, from a proxy before the origin
/// perhaps, is to be judged as the origin's word.
pub(crate) fn is_proxy_generated(status: StatusCode, headers: &HeaderMap) -> bool {
    matches!(status.as_u16(), 403 | 502..=504) && headers.contains_key("x-squid-error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_own_errors_are_told_from_those_it_relays() {
        let own = |status: u16, fields: &[(&'static str, &'static str)]| {
            let headers = fields.iter().map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    http::HeaderValue::from_static(value),
                )
            });
            is_proxy_generated(StatusCode::from_u16(status).unwrap(), &headers.collect())
        };
        let (says, via) = (
            ("x-squid-error", "ERR_ACCESS_DENIED 0"),
            ("via", "1.1 caddy"),
        );
        assert!(own(403, &[says, via]) && own(503, &[says]));
        // A reverse proxy names itself so, and its 429 is to be obeyed.
        assert!(!own(429, &[("server", "caddy"), via]) && !own(403, &[("server", "caddy"), via]));
        assert!(!own(429, &[says]) && !own(401, &[says]) && !own(206, &[says]));
    }

    #[test]
    fn replies_have_meanings() {
        let means = [
            ProxyRefusal::NotAllowed,
            ProxyRefusal::TargetUnreachable,
            ProxyRefusal::Unspecified,
        ];
        for (codes, expected) in [&[2][..], &[3, 4, 5, 6], &[1, 7, 8, 9]]
            .into_iter()
            .zip(means)
        {
            for code in codes {
                assert_eq!(socks_refusal(&socks_reply_error(*code)), expected, "{code}");
            }
        }
    }
}

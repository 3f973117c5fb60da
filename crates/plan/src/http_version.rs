//! Which version of HTTP is offered to an origin.
//!
//! One HTTP/2 connection carries many requests at once: on a long way that saves each of them its turn, and a batch its
//! handshakes. It also costs more: frames, windows and the way between tasks are some 20 to 60 percent of the processor time
//! of a small request, which on a short way is all there is. So what decides is the way, and the one thing that is known of it
//! when the first offer must be made, before the TLS handshake, is how long it took to connect. Where answers then take longer
//! without exception, that counts for the connections after it.

use std::time::Duration;

/// A way is long from this round trip on. Within a data centre it is below one millisecond, and within a city below five;
/// there sixteen connections, each with its next request ready, keep the processor busy and the link full.
const LONG: Duration = Duration::from_millis(5);

/// Which version a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersionChoice {
    /// What is faster.
    #[default]
    Auto,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone, over TLS and for requests that may share a connection. Anything else is asked over HTTP/1.1 all the same.
    Http2,
}

/// What is offered to an origin (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlpnOffer {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2, and HTTP/1.1 if the origin has no other.
    Http2OrHttp1,
    /// HTTP/2 alone.
    Http2,
    /// Nothing at all: for what is not HTTP.
    None,
}

impl HttpVersionChoice {
    /// Whether a request may come to share a connection; `sharing` says whether it is one that may.
    #[must_use]
    pub fn allows_http2(self, sharing: bool) -> bool {
        sharing && self != Self::Http1
    }

    /// What is offered where the way to the origin, proxies included, took `way` to come about, or to bring an answer.
    #[must_use]
    pub fn alpn_offer(self, sharing: bool, way: Duration) -> AlpnOffer {
        match self {
            _ if !self.allows_http2(sharing) => AlpnOffer::Http1,
            Self::Http2 => AlpnOffer::Http2,
            _ if way >= LONG => AlpnOffer::Http2OrHttp1,
            _ => AlpnOffer::Http1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_micros(4_999);

    #[test]
    fn a_long_way_is_shared_and_a_short_one_is_not() {
        assert_eq!(
            HttpVersionChoice::Auto.alpn_offer(true, Duration::ZERO),
            AlpnOffer::Http1
        );
        assert_eq!(
            HttpVersionChoice::Auto.alpn_offer(true, NEAR),
            AlpnOffer::Http1
        );
        assert_eq!(
            HttpVersionChoice::Auto.alpn_offer(true, LONG),
            AlpnOffer::Http2OrHttp1
        );
        assert_eq!(
            HttpVersionChoice::Auto.alpn_offer(true, Duration::MAX),
            AlpnOffer::Http2OrHttp1
        );
    }

    #[test]
    fn what_may_not_share_never_does() {
        for http in [
            HttpVersionChoice::Auto,
            HttpVersionChoice::Http1,
            HttpVersionChoice::Http2,
        ] {
            assert_eq!(http.alpn_offer(false, Duration::MAX), AlpnOffer::Http1);
            assert!(!http.allows_http2(false));
        }
    }

    #[test]
    fn a_users_word_is_obeyed_on_any_way() {
        for way in [NEAR, LONG] {
            assert_eq!(
                HttpVersionChoice::Http1.alpn_offer(true, way),
                AlpnOffer::Http1
            );
            assert_eq!(
                HttpVersionChoice::Http2.alpn_offer(true, way),
                AlpnOffer::Http2
            );
        }
        assert!(!HttpVersionChoice::Http1.allows_http2(true));
        assert!(
            HttpVersionChoice::Auto.allows_http2(true)
                && HttpVersionChoice::Http2.allows_http2(true)
        );
    }
}

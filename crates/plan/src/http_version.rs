//! Which version of HTTP is offered to an origin, and how long requests go on sharing an HTTP/2 connection.
//!
//! One HTTP/2 connection carries many requests at once. Over a long round trip that saves each of them a wait, and a batch its
//! handshakes. It also costs more: frames, windows and the switches between tasks are 20 to 60 percent of the processor time of
//! a small request, and on a short round trip that time is all there is. So a host keeps HTTP/2 only while nothing arrives from
//! it in less than 5 ms, neither the end of the TLS handshake nor the head of a response. The time of the TCP handshake says
//! less: a relay close by may accept connections for a far origin.

use std::time::Duration;

/// A round trip is long from here on. Within a data centre it takes less than one millisecond, within a city less than five;
/// there sixteen connections, each with its next request ready, keep the processor busy and the link full.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);

/// The version of HTTP that a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersionChoice {
    /// The faster one.
    #[default]
    Auto,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone, over TLS and for requests that may share a connection. All other requests use HTTP/1.1.
    Http2,
}

/// The protocols that a TLS handshake offers (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlpnOffer {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 first, then HTTP/1.1.
    Http2OrHttp1,
    /// HTTP/2 alone.
    Http2,
    /// No ALPN at all, for peers that do not speak HTTP.
    None,
}

impl HttpVersionChoice {
    /// What the handshake of a new connection offers; `may_multiplex` is whether its requests may share one.
    #[must_use]
    pub fn alpn_offer(self, may_multiplex: bool) -> AlpnOffer {
        match self {
            Self::Auto if may_multiplex => AlpnOffer::Http2OrHttp1,
            Self::Http2 if may_multiplex => AlpnOffer::Http2,
            _ => AlpnOffer::Http1,
        }
    }

    /// Whether a host's requests go on sharing an HTTP/2 connection after a handshake or a response took this long.
    #[must_use]
    pub fn keeps_http2(self, elapsed: Duration) -> bool {
        match self {
            Self::Auto => elapsed >= LONG_ROUND_TRIP,
            Self::Http1 => false,
            Self::Http2 => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HttpVersionChoice::{Auto, Http1, Http2};
    use super::*;

    const SHORT: Duration = Duration::from_micros(4_999);

    #[test]
    fn http2_is_offered_to_requests_that_may_share_a_connection() {
        assert_eq!(Auto.alpn_offer(true), AlpnOffer::Http2OrHttp1);
        assert_eq!(Http2.alpn_offer(true), AlpnOffer::Http2);
        assert_eq!(Http1.alpn_offer(true), AlpnOffer::Http1);
        for choice in [Auto, Http1, Http2] {
            assert_eq!(choice.alpn_offer(false), AlpnOffer::Http1);
        }
    }

    #[test]
    fn http2_is_kept_on_long_round_trips_and_where_the_user_wants_it() {
        assert!(!Auto.keeps_http2(SHORT));
        assert!(Auto.keeps_http2(LONG_ROUND_TRIP));
        assert!(Http2.keeps_http2(SHORT));
        assert!(!Http1.keeps_http2(LONG_ROUND_TRIP));
    }
}

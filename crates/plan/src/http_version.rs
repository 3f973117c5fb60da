//! Which version of HTTP is offered to an origin, and how long requests go on sharing an HTTP/2 connection.
//!
//! One HTTP/2 connection carries many requests at once. Over a long round trip that saves each of them a wait, and a batch its
//! handshakes. It also costs more: frames, windows and the switches between tasks are 20 to 60 percent of the processor time of
//! a small request, and on a short round trip that time is all there is. So a host keeps HTTP/2 only while nothing arrives from
//! it in less than 5 ms, neither the end of the TLS handshake nor the head of a response. The time of the TCP handshake says
//! less: a relay close by may accept connections for a far origin.
//!
//! Over a long path one connection is one TCP window for all files: it begins with ten packets, and each lost packet halves it and holds
//! all files up. So there the requests share [several connections](http2_connections).

use std::time::Duration;

/// A round trip is long from here on. Within a data centre it takes less than one millisecond, within a city less than five;
/// there sixteen connections, each with its next request ready, keep the processor busy and the link full.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);

/// HTTP/2 connections over a long path. Begun together they send as much in the first round trip as one does in its sixth; with 600 files of
/// 24 KB, twice as many were no faster, and half as many a sixth slower.
const FAR_CONNECTIONS: usize = 32;

/// HTTP/2 connections over a short path. The second is for peers that take few streams at once.
const NEAR_CONNECTIONS: usize = 2;

/// Requests that share an HTTP/2 connection before another one is made, as long as there may be more.
pub const STREAMS_BEFORE_NEXT_CONNECTION: usize = 8;

/// Requests that wait for each HTTP/2 connection that is being made. As many files come sooner over several slow starts than over one.
pub const REQUESTS_PER_NEW_CONNECTION: usize = 2;

/// Whether a path with this round trip is a long one: a connection comes up to its rate in some eight round trips, and each request costs
/// one.
#[must_use]
pub fn is_long_round_trip(round_trip: Duration) -> bool {
    round_trip >= LONG_ROUND_TRIP
}

/// How many HTTP/2 connections to a host there may be, where TCP took this long to connect.
#[must_use]
pub fn http2_connections(round_trip: Duration) -> usize {
    if is_long_round_trip(round_trip) {
        FAR_CONNECTIONS
    } else {
        NEAR_CONNECTIONS
    }
}

/// The version of HTTP that a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersionChoice {
    /// The faster one.
    #[default]
    Auto,
    Http1,
    /// HTTP/2 alone, over TLS and for requests that may share a connection. All other requests use HTTP/1.1.
    Http2,
}

/// The protocols that a TLS handshake offers (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlpnOffer {
    Http1,
    /// HTTP/2 first, then HTTP/1.1.
    Http2OrHttp1,
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
            Self::Auto => is_long_round_trip(elapsed),
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
    fn requests_share_two_connections_over_a_short_path_and_many_over_a_long_one() {
        assert_eq!(http2_connections(SHORT), 2);
        assert_eq!(http2_connections(LONG_ROUND_TRIP), 32);
    }

    #[test]
    fn http2_is_kept_on_long_round_trips_and_where_the_user_wants_it() {
        assert!(!Auto.keeps_http2(SHORT));
        assert!(Auto.keeps_http2(LONG_ROUND_TRIP));
        assert!(Http2.keeps_http2(SHORT));
        assert!(!Http1.keeps_http2(LONG_ROUND_TRIP));
    }
}

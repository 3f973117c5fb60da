//! The limits of a [`Timeouts`](super::Timeouts), each with its reason, and which of them a peer exceeded.

use std::time::Duration;

/// Limits of a [`Timeouts`](super::Timeouts). A time of zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutOptions {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head to its last.
    pub request_head: Duration,
    /// Without a request: before the first one, and between two.
    pub idle: Duration,
    /// How long the peer may send a body, or read a response, more slowly than the least rate, or not at all,
    /// before that counts; and the time over which the rate is averaged after that.
    pub grace: Duration,
    /// The least rate of request bodies, in bytes a second. With 0 any byte within the grace suffices.
    pub min_body_rate: u64,
    /// The least rate at which the peer reads responses, the same way.
    pub min_reader_rate: u64,
}

impl Default for TimeoutOptions {
    fn default() -> Self {
        Self {
            // Two round trips, on a link of seconds with a packet or two lost and sent again after one
            // second, two, four.
            handshake: Duration::from_secs(10),
            // A head is a packet or a few. One loss more than above, since a large cookie is several windows
            // on a new connection.
            request_head: Duration::from_secs(15),
            // People read as long as this before the next click. And it is longer than the 60 s after which
            // load balancers close idle connections: the side that sends requests must close first, or a
            // request meets a closed connection.
            idle: Duration::from_secs(75),
            // A train's tunnel, a phone that changes cells, TCP's sixth retransmission.
            grace: Duration::from_secs(30),
            // A mobile plan throttled to 64 kbit/s, shared by a browser's six connections, leaves 1.3 KB/s to
            // each; this is less than half of that, and 500 times the trickle of one byte a second. Other
            // servers ask for 240 to 500.
            min_body_rate: 512,
            // The same link in the other direction.
            min_reader_rate: 512,
        }
    }
}

/// Which limit a peer exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TimeoutKind {
    /// The TLS handshake.
    #[error("the handshake took too long")]
    Handshake,
    /// The head of a request.
    #[error("the request's head took too long")]
    RequestHead,
    /// The wait for a request: the ordinary end of a connection.
    #[error("no request came")]
    Idle,
    /// The body of a request.
    #[error("the request's body came too slowly")]
    SlowBody,
    /// Reading a response.
    #[error("the response was read too slowly")]
    SlowReader,
}

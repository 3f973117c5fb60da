//! The limits of a [`Timeouts`](super::Timeouts), each with its reason, and what a peer can be too slow in.

use std::time::Duration;

/// Limits of a [`Timeouts`](super::Timeouts). A time of zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutOptions {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head to its last.
    pub request_head: Duration,
    /// Without a request, the first one or another.
    pub idle: Duration,
    /// How long a body or a reader may be below its rate, or stand still, before that counts; and over how long the rate is
    /// averaged after that.
    pub grace: Duration,
    /// The least rate of request bodies, in bytes a second. With 0 any byte within the grace will do.
    pub min_body_rate: u64,
    /// The least rate at which answers are taken, the same way.
    pub min_reader_rate: u64,
}

impl Default for TimeoutOptions {
    fn default() -> Self {
        Self {
            // Two round trips, on a link of seconds with a packet or two lost and sent again after one second, two, four.
            handshake: Duration::from_secs(10),
            // A head is a packet or a few. A loss more than above, since a large cookie is several windows on a new connection.
            request_head: Duration::from_secs(15),
            // What people read before the next click, and longer than the 60 s after which balancers in front let go: who closes
            // first must be the one that sends requests, or a request meets a closed connection.
            idle: Duration::from_secs(75),
            // A train's tunnel, a phone that changes cells, TCP's sixth retransmission.
            grace: Duration::from_secs(30),
            // A mobile plan throttled to 64 kbit/s, shared by a browser's six connections, leaves 1.3 KB/s to each; this is less
            // than half of that, and 500 times the drip of one byte a second. Other servers ask for 240 to 500.
            min_body_rate: 512,
            // The same link the other way.
            min_reader_rate: 512,
        }
    }
}

/// What a peer took too long for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TimeoutKind {
    /// Its TLS handshake.
    #[error("the handshake took too long")]
    Handshake,
    /// A request's head.
    #[error("the request's head took too long")]
    RequestHead,
    /// Another request: the ordinary end of a connection.
    #[error("no request came")]
    Idle,
    /// A request's body.
    #[error("the request's body came too slowly")]
    SlowBody,
    /// Taking the answer.
    #[error("the answer was taken too slowly")]
    SlowReader,
}

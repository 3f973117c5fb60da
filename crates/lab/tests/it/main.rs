//! The doubles are trusted by other tests, so each behaviour is looked at here by a client of raw sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod bodies;
mod heads;
mod http_proxy;
mod link;
mod ranges;
mod rates;
mod raw;
mod scripts;
mod shelf;
mod socks;
mod statuses;
mod tls;

//! Tunnels as a whole, by scripted proxies and over real sockets: the rows E1 to E13, and what listeners speak.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod answers;
mod engine;
mod harness;
mod http_listener;
mod lifetimes;
mod logins;
mod passed_on;
mod passed_on_logins;
mod refusals;
mod socks_listener;
mod tls;
mod warm;
mod ways;

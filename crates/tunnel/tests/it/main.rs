//! Tunnels over real sockets and through scripted proxies: rows E1 to E13 of `docs/corner-cases.md`, and the protocols of listeners.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod connect_responses;
mod engine;
mod harness;
mod http_bodies;
mod http_forwarding;
mod http_keep_alive;
mod http_listener;
mod http_proxy_logins;
mod lifetimes;
mod proxy_logins;
mod refusals;
mod routes;
mod socks_listener;
mod tls;
mod warm_pool;

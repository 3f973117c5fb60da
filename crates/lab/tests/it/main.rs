//! Other tests rely on these servers, so each behaviour is tested here by a client with raw sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod bodies;
mod generated_files;
mod heads;
mod http_proxy;
#[cfg(target_os = "linux")]
mod kernel_link;
mod link;
mod ranges;
mod rates;
mod raw;
mod scripts;
mod socks;
mod statuses;
mod tls;

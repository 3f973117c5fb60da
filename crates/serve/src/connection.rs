//! One connection: everything between an accepted socket and the HTTP service.
//!
//! [`drive()`] serves a connection to its end; `http2` has what only HTTP/2 needs. hyper speaks
//! HTTP over a `counted_io`, which wraps a `socket` (or TLS over one) and sees every byte: it
//! counts them, shows them to the [`SmugglingGuard`], applies the `rate_limit`, and lets the kernel
//! send files. Each request is an [`HttpExchange`] until the last byte of its response is flushed;
//! then its `exchange_record` is counted and logged.
//!
//! These parts share a [`ConnectionState`]. It owns the facts of the connection, its `timeouts`,
//! and the progress of its requests and responses.

mod counted_io;
mod drive;
mod exchange;
mod exchange_record;
mod http2;
mod peer_timeouts;
mod rate_limit;
mod request_head;
mod smuggling_guard;
mod socket;
mod state;
mod timeouts;

pub(crate) use drive::{ConnectionProtocol, drive};
pub(crate) use exchange::{HttpExchange, TrackedBody};
pub use peer_timeouts::TimeoutOptions;
pub(crate) use rate_limit::TotalRate;
pub use request_head::{AmbiguousHead, RequestBodyFraming, is_host};
pub use smuggling_guard::SmugglingGuard;
pub(crate) use socket::{ServerSocket, ServerTransport};
pub(crate) use state::ConnectionState;
pub use timeouts::TimeoutPause;

//! One connection: everything between an accepted socket and the HTTP service.
//!
//! [`drive()`] serves a connection to its end; `http2` has what only HTTP/2 needs. hyper speaks
//! HTTP over a `counted_io`, which wraps a `socket` (or TLS over one) and sees every byte: it
//! counts them, shows them to the [`SmugglingGuard`](haul_plan::serving::SmugglingGuard), applies
//! the `rate_limit`, and lets the kernel send files. Each request is an [`HttpExchange`] until the
//! last byte of its response is flushed; then its `exchange_record` is counted and logged.
//!
//! These parts share a [`ConnectionState`]. It owns the facts of the connection, its `timeouts`,
//! and the progress of its requests and responses.

mod counted_io;
mod drive;
mod exchange;
mod exchange_record;
mod http2;
mod rate_limit;
mod socket;
mod state;
mod timeouts;

pub(crate) use drive::{ConnectionProtocol, drive};
pub(crate) use exchange::{HttpExchange, TrackedBody};
pub(crate) use rate_limit::TotalRate;
pub(crate) use socket::{ServerSocket, ServerTransport};
pub(crate) use state::ConnectionState;
pub use timeouts::TimeoutPause;

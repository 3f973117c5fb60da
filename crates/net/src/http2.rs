//! HTTP/2 over TLS: connections that many requests share, for small files on long round trips.
//!
//! An [`Http2Connection`] carries many requests at once, each an [`Http2Body`] that its own task reads. An [`Http2Host`] holds the
//! one or two connections of a route, leases streams while there is room, and lets one request connect while the others wait
//! for it. [`Http2Pool`] finds the host of a route and bounds the idle connections.
//!
//! This uses the h2 library without hyper's client on top of it, which spawns a task for each request and passes each response
//! from task to task. Here each connection owns one task, and bodies are read where they are wanted.

mod body;
mod connection;
mod host;
mod pool;
mod reading_turns;

pub(crate) use body::Http2Body;
pub(crate) use connection::Http2Connection;
pub(crate) use host::{ConnectionReservation, Http2Host, StreamDecision, StreamLease};
pub(crate) use pool::Http2Pool;

//! Connections that requests share: HTTP/2 over TLS, for small files on long ways.
//!
//! One [`Http2Connection`] carries many requests at once, each a [`Http2Body`] read by whoever asked. A `Http2Host` keeps the one or two
//! connections of a route, lets requests on while there is room, and sees to it that one handshake is made where many
//! requests wait for it. [`Http2Pool`] finds the host of a route and bounds what rests. What the origin said of a request, and
//! whether that may be sent again, is in `unanswered`.
//!
//! This is the h2 library without hyper's client on top of it, which spawns a task a request and passes each answer from
//! task to task. Here there is one task a connection, owned by it; bodies are read where they are wanted.

mod body;
mod connection;
mod eligibility;
mod host;
mod pool;
mod request;
mod unanswered;

pub(crate) use body::Http2Body;
pub(crate) use connection::Http2Connection;
pub(crate) use eligibility::Http2Ineligible;
pub(crate) use host::{ConnectionReservation, Http2Host, StreamDecision, StreamLease};
pub(crate) use pool::Http2Pool;
pub(crate) use request::to_http2;
pub(crate) use unanswered::{UnansweredRequest, UnansweredRetry};

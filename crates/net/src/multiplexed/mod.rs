//! Connections that requests share: HTTP/2 over TLS, for small files on long ways.
//!
//! One [`Http2Connection`] carries many requests at once, each a [`Http2Body`] read by whoever asked. A `Http2Host` keeps the one or two
//! connections of a route, lets requests on while there is room, and sees to it that one handshake is made where many
//! requests wait for it. [`Http2Pool`] finds the host of a route and bounds what rests. What the origin said of a request, and
//! whether that may be sent again, is in `unanswered`.
//!
//! This is the h2 library without hyper's client on top of it, which spawns a task a request and passes each answer from
//! task to task. Here there is one task a connection, owned by it; bodies are read where they are wanted.

mod apart;
mod body;
mod connection;
mod host;
mod hosts;
mod request;
mod slot;
mod unanswered;

pub(crate) use apart::Http2Ineligible;
pub(crate) use body::Http2Body;
pub(crate) use connection::Http2Connection;
pub(crate) use host::{Http2Host, StreamDecision};
pub(crate) use hosts::Http2Pool;
pub(crate) use request::http2;
pub(crate) use slot::{ConnectionReservation, StreamLease};
pub(crate) use unanswered::{UnansweredRequest, UnansweredRetry, h2_kind};

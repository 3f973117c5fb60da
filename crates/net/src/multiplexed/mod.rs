//! Connections that requests share: HTTP/2 over TLS, for small files on long ways.
//!
//! One [`Connection`] carries many requests at once, each a [`Body`] read by whoever asked. A `Host` keeps the one or two
//! connections of a route, lets requests on while there is room, and sees to it that one handshake is made where many
//! requests wait for it. [`Hosts`] finds the host of a route and bounds what rests. What the origin said of a request, and
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

pub(crate) use apart::Apart;
pub(crate) use body::Body;
pub(crate) use connection::Connection;
pub(crate) use host::{Host, Turn};
pub(crate) use hosts::Hosts;
pub(crate) use request::http2;
pub(crate) use slot::{Opening, Slot};
pub(crate) use unanswered::{Remedy, Unanswered, h2_kind};

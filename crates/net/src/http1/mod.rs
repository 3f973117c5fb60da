//! HTTP/1.1: connections that carry one request at a time, and the pool of those that are idle.

mod body;
mod connection;
mod pool;
mod stream;

pub(crate) use body::Http1Body;
pub(crate) use connection::Http1Connection;
pub(crate) use pool::{ConnectionPool, MAX_IDLE_TIME};

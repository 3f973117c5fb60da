//! HTTP/1.1: connections that carry one request at a time, and the pool of those that are idle.
//!
//! This is haul's own, since a download of small files spends most of its time here, and a large one depends on how its bytes are
//! read. What a response means is decided in `plan`; httparse reads its head.

mod body;
mod coming;
mod connection;
mod error;
mod pool;
mod receive_buffer;
mod request_writer;
mod response_head;

pub(crate) use body::Http1Body;
pub(crate) use coming::{ComingConnection, ComingConnections};
pub(crate) use connection::Http1Connection;
pub(crate) use error::Http1Error;
pub(crate) use pool::{ConnectionPool, MAX_IDLE_TIME};
pub(crate) use response_head::end_of_head;
#[cfg(feature = "fuzzing")]
pub(crate) use response_head::take_response_head;

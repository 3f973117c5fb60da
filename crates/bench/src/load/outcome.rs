//! How a request ended.

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use haul_net::redacted_target;
use haul_plan::parse_retry_after;
use http::HeaderValue;
use rustix::io::Errno;
use tokio::time::Instant;

/// The most characters of a URL in the text of a failure.
const MAX_URL: usize = 200;

/// The kind of failure of requests that have no response when a load ends: the key in `Measurement::errors`.
pub const NO_ANSWER: &str = "no answer before the end";

/// A kind of failure. Its text is the key in `Measurement::errors`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadFailure {
    /// The status was not 2xx; a redirect names its Location.
    Status(u16, Option<String>),
    /// A connection or a request took too long.
    Timeout,
    /// The load was stopped before the response was complete.
    NoAnswer,
    /// The name has no address.
    NameResolution,
    /// The TLS handshake failed.
    Tls,
    /// The server chose another protocol than HTTP/2.
    NoHttp2,
    /// The connection was closed before the response's head was there.
    Closed,
    /// An HTTP/2 stream was reset.
    StreamReset,
    /// The connection ended within a body.
    TruncatedBody,
    /// The response is not valid HTTP, or beyond a limit.
    InvalidResponse,
    /// The rate was too high: the request was due before the end, and could not start before it.
    NotSent,
    /// The process has no more file descriptors.
    TooManyFiles,
    /// Another error of the socket.
    Socket(io::ErrorKind),
}

impl fmt::Display for LoadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Status(status, None) => return write!(f, "status {status}"),
            Self::Status(status, Some(location)) => {
                return write!(f, "status {status} (Location: {location})");
            }
            Self::Timeout | Self::Socket(io::ErrorKind::TimedOut) => "timeout",
            Self::NoAnswer => NO_ANSWER,
            Self::NameResolution => "name resolution",
            Self::Tls => "TLS",
            Self::NoHttp2 => "no HTTP/2",
            Self::Closed => "connection closed",
            Self::StreamReset => "stream reset",
            Self::TruncatedBody => "truncated body",
            Self::InvalidResponse => "invalid response",
            Self::NotSent => "not sent before the end",
            Self::TooManyFiles => "too many open files",
            Self::Socket(kind) => return kind.fmt(f),
        };
        f.write_str(text)
    }
}

impl From<io::Error> for LoadFailure {
    fn from(error: io::Error) -> Self {
        let is_tls = error
            .get_ref()
            .is_some_and(|inner| inner.is::<rustls::Error>());
        match error.kind() {
            _ if is_tls => Self::Tls,
            _ if Errno::from_io_error(&error) == Some(Errno::MFILE) => Self::TooManyFiles,
            // TLS and HTTP/2 report an early end as an error.
            io::ErrorKind::UnexpectedEof => Self::Closed,
            // It depends on a race which of the two comes: the peer has closed the connection for good.
            io::ErrorKind::BrokenPipe => Self::Socket(io::ErrorKind::ConnectionReset),
            kind => Self::Socket(kind),
        }
    }
}

/// Why an exchange on a connection failed.
#[derive(Debug)]
pub(super) struct ExchangeFailure {
    pub(super) kind: LoadFailure,
    /// The connection broke before anything of the response came. Servers may close kept connections at any time, so it is tried once more.
    pub(super) is_before_response: bool,
}

impl From<LoadFailure> for ExchangeFailure {
    fn from(kind: LoadFailure) -> Self {
        Self {
            kind,
            is_before_response: false,
        }
    }
}

/// What a load needs of the head of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    /// For how long the server wants no more requests.
    pub(super) retry_after: Option<Duration>,
    /// Where a redirect leads.
    pub(super) location: Option<String>,
}

impl ResponseHead {
    /// Takes what a header field says. The status must be there.
    pub(super) fn add_field(&mut self, name: &str, value: &[u8]) {
        match self.status {
            429 | 503 if name.eq_ignore_ascii_case("retry-after") => {
                let value = HeaderValue::from_bytes(value).ok();
                self.retry_after =
                    value.and_then(|value| parse_retry_after(&value, SystemTime::now()));
            }
            300..400 if name.eq_ignore_ascii_case("location") => {
                self.location = Some(shown_url(&String::from_utf8_lossy(value)));
            }
            _ => {}
        }
    }
}

/// A URL for the text of a failure: cut, without its query, a login and control characters.
pub(super) fn shown_url(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    redacted_target(path)
        .chars()
        .filter(|character| !character.is_control())
        .take(MAX_URL)
        .collect()
}

/// A complete response.
#[derive(Debug)]
pub(super) struct LoadResponse {
    pub(super) head: ResponseHead,
    pub(super) body_bytes: u64,
    /// When its first byte was read.
    pub(super) first_byte: Instant,
    /// When its last byte was read.
    pub(super) end: Instant,
    /// Whether the connection can carry another request.
    pub(super) keeps_connection: bool,
}

/// The times of the phases of making a connection; zero for a connection that was there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectTimes {
    pub(super) dns: Duration,
    pub(super) connect: Duration,
    pub(super) tls: Duration,
    /// Whether TLS resumed a session.
    pub(super) is_resumed: bool,
}

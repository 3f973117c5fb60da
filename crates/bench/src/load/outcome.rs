//! How a request ended.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// A kind of failure. Its text is the key in `Measurement::errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadFailure {
    /// The status was not 2xx.
    Status(u16),
    /// A connection or a request took too long.
    Timeout,
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
            Self::Status(status) => return write!(f, "status {status}"),
            Self::Timeout | Self::Socket(io::ErrorKind::TimedOut) => "timeout",
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

impl From<&io::Error> for LoadFailure {
    fn from(error: &io::Error) -> Self {
        let is_tls = error
            .get_ref()
            .is_some_and(|inner| inner.is::<rustls::Error>());
        match error.kind() {
            _ if is_tls => Self::Tls,
            _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                Self::TooManyFiles
            }
            // It depends on a race which of the two comes: the peer has closed the connection for good.
            io::ErrorKind::BrokenPipe => Self::Socket(io::ErrorKind::ConnectionReset),
            kind => Self::Socket(kind),
        }
    }
}

/// Why an exchange on a connection failed.
#[derive(Debug, Clone, Copy)]
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

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadResponse {
    pub(super) status: u16,
    /// The length of its body.
    pub(super) body_bytes: u64,
    /// When its first byte was read.
    pub(super) first_byte: Instant,
    /// When its last byte was read.
    pub(super) end: Instant,
    /// For how long the server wants no more requests.
    pub(super) retry_after: Option<Duration>,
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

/// What a successful request took.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTimes {
    pub(super) connecting: ConnectTimes,
    pub(super) first_byte: Duration,
    pub(super) body: Duration,
    /// From the moment at which the request started, or was due, to the end.
    pub(super) latency: Duration,
}

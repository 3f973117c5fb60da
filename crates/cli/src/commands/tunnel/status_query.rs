//! Asks a running tunnel for its status: one request to its admin endpoint, with limits on time and size.

use std::io;
use std::path::Path;
use std::time::Duration;

use haul_service::listen::{ListenAddress, ListenHost};
use haul_tunnel::TunnelStatus;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

/// The time limit for all of a query.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest response: some hundred thousand connections.
const MAX_RESPONSE: u64 = 64 << 20;

/// How long to wait for room in an accept queue before the next try.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// Why a tunnel's status is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusQueryError {
    /// Nothing listens there, or not any more.
    #[error("cannot be queried")]
    Io(#[source] io::Error),
    /// A process is there but does not respond: a stopped process keeps its sockets, and the system accepts connections for it.
    #[error("does not respond within {} s", QUERY_TIMEOUT.as_secs())]
    Timeout,
    /// Something else than a tunnel is there.
    #[error("this is not a haul tunnel")]
    NotATunnel,
}

impl From<io::Error> for StatusQueryError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Timeout,
            _ => Self::Io(error),
        }
    }
}

/// The result of a query at a socket file.
#[derive(Debug)]
pub(super) struct StatusQueryOutcome {
    /// The process that listens there: known once there is a connection.
    pub(super) process: Option<u32>,
    pub(super) status: Result<TunnelStatus, StatusQueryError>,
}

/// Queries a socket file, within the limit.
pub(super) async fn query_socket(path: &Path, limit: Duration) -> StatusQueryOutcome {
    let mut process = None;
    let query = async {
        let stream = connect_socket(path).await?;
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        process = pid.and_then(|pid| u32::try_from(pid).ok());
        read_status(stream).await
    };
    let status = timeout(limit, query).await;
    StatusQueryOutcome {
        status: status.unwrap_or(Err(StatusQueryError::Timeout)),
        process,
    }
}

/// Queries an address, as `--admin` has it.
pub(super) async fn query_address(
    address: &ListenAddress,
    limit: Duration,
) -> Result<TunnelStatus, StatusQueryError> {
    let (host, port) = match address {
        ListenAddress::Unix { path, .. } => return query_socket(path, limit).await.status,
        ListenAddress::Systemd { .. } => return Err(StatusQueryError::NotATunnel),
        ListenAddress::Tcp { host, port } => (host, *port),
    };
    let host = match host {
        ListenHost::Any => "127.0.0.1".to_owned(),
        ListenHost::Ip(ip) => ip.to_string(),
        ListenHost::Name(name) => name.clone(),
    };
    let query = async { read_status(TcpStream::connect((host, port)).await?).await };
    let status = timeout(limit, query).await;
    status.unwrap_or(Err(StatusQueryError::Timeout))
}

/// Connects to a socket file. Where the accept queue is full, connecting fails at once (unix(7)).
async fn connect_socket(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(FULL_QUEUE_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

async fn read_status(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> Result<TunnelStatus, StatusQueryError> {
    // The endpoint accepts this host name.
    let request = b"GET /tunnels HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE).read_to_end(&mut response).await?;
    parse_status(&response).ok_or(StatusQueryError::NotATunnel)
}

/// Parses a complete response. The endpoint sends no chunks.
fn parse_status(response: &[u8]) -> Option<TunnelStatus> {
    let end = b"\r\n\r\n";
    let head = response.windows(end.len()).position(|four| four == end)?;
    let first = response.split(|byte| *byte == b'\r').next()?;
    let is_ok = first.starts_with(b"HTTP/1.") && first.get(8..12) == Some(b" 200");
    is_ok
        .then(|| serde_json::from_slice(&response[head + end.len()..]).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    use socket2::{Domain, SockAddr, Socket, Type};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_response_that_never_ends_has_a_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let drips = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"a").is_ok() {
                std::thread::yield_now();
            }
        });
        let outcome = query_socket(&path, SHORT).await;
        assert!(
            matches!(outcome.status, Err(StatusQueryError::Timeout)),
            "{outcome:?}"
        );
        assert_eq!(outcome.process, Some(std::process::id()));
        drips.join().unwrap();
    }

    #[tokio::test]
    async fn a_full_accept_queue_has_a_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let new = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let address = SockAddr::unix(&path).unwrap();
        let listener = new();
        listener.bind(&address).unwrap();
        listener.listen(0).unwrap();
        let mut queue = Vec::new();
        loop {
            let client = new();
            client.set_nonblocking(true).unwrap();
            match client.connect(&address) {
                Ok(()) => queue.push(client),
                Err(_) => break,
            }
        }
        let outcome = query_socket(&path, SHORT).await;
        assert!(
            matches!(outcome.status, Err(StatusQueryError::Timeout)),
            "{outcome:?}"
        );
        assert_eq!(outcome.process, None);
    }

    #[test]
    fn a_timeout_is_told_apart_from_a_refused_connection() {
        let message =
            |kind: io::ErrorKind| StatusQueryError::from(io::Error::from(kind)).to_string();
        assert_eq!(
            message(io::ErrorKind::TimedOut),
            "does not respond within 5 s"
        );
        assert_eq!(
            message(io::ErrorKind::ConnectionRefused),
            "cannot be queried"
        );
    }

    #[test]
    fn only_the_status_of_a_tunnel_is_accepted() {
        let body = r#"{"pid":7,"tunnels":[],"connections":[]}"#;
        let of = |text: String| parse_status(text.as_bytes()).map(|status| status.pid);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        assert_eq!(of(format!("{head}{body}\n")), Some(7));
        for other in [
            String::new(),
            body.to_owned(),
            format!("HTTP/1.1 404 Not Found\r\n\r\n{body}"),
            format!("{head}<html>"),
            format!("{head}{}", &body[..9]),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
    }
}

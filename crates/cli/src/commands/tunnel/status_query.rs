//! Asks a running tunnel what is live: one request at its admin endpoint, with a limit on the time and on the answer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use haul_service::listen::{ListenAddress, ListenHost};
use haul_tunnel::TunnelStatus;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::time::Instant;

/// For connecting and for all of the answer; only a resolver has limits of its own.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer: some hundred thousand connections.
const MAX_RESPONSE: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusQueryError {
    /// Nobody is there, or no longer.
    #[error("cannot be asked")]
    Io(#[source] io::Error),
    /// Somebody is there and says nothing: a process that is stopped still has its sockets, and the system takes connections for it.
    #[error("does not answer within {} s", QUERY_TIMEOUT.as_secs())]
    Timeout,
    /// Somebody else is there.
    #[error("what answers there is no haul tunnel")]
    NotATunnel,
}

impl From<io::Error> for StatusQueryError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The one is what connecting says, the other what reading does.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Timeout,
            _ => Self::Io(error),
        }
    }
}

/// What came of asking at a socket file.
#[derive(Debug)]
pub(super) struct StatusQueryOutcome {
    /// Who listens there, if it is known: that is so once there is a connection, whatever comes of the question.
    pub(super) process: Option<u32>,
    /// What it says.
    pub(super) status: Result<TunnelStatus, StatusQueryError>,
}

/// Asks at a socket file, and waits no longer than this.
pub(super) fn query_socket(path: &Path, limit: Duration) -> StatusQueryOutcome {
    let until = Instant::now() + limit;
    match connect_socket(path, until) {
        Ok(socket) => StatusQueryOutcome {
            process: peer_process(&socket),
            status: query(DeadlineStream {
                socket,
                deadline: until,
            }),
        },
        Err(error) => StatusQueryOutcome {
            process: None,
            status: Err(error.into()),
        },
    }
}

/// Asks at an address, as `--admin` has it.
pub(super) fn query_address(
    address: &ListenAddress,
    limit: Duration,
) -> Result<TunnelStatus, StatusQueryError> {
    let (host, port) = match address {
        ListenAddress::Unix { path, .. } => return query_socket(path, limit).status,
        ListenAddress::Systemd { .. } => return Err(StatusQueryError::NotATunnel),
        ListenAddress::Tcp { host, port } => (host, *port),
    };
    let host = match host {
        ListenHost::Every => "127.0.0.1".to_owned(),
        ListenHost::Ip(ip) => ip.to_string(),
        ListenHost::Name(name) => name.clone(),
    };
    let addresses = (host.as_str(), port).to_socket_addrs()?;
    let until = Instant::now() + limit;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, time_left(until)?) {
            Ok(stream) => {
                let socket = stream.into();
                return query(DeadlineStream {
                    socket,
                    deadline: until,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// A connection on which nobody waits beyond one time, however often something comes.
struct DeadlineStream {
    socket: Socket,
    deadline: Instant,
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket
            .set_read_timeout(Some(time_left(self.deadline)?))?;
        self.socket.read(buffer)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket
            .set_write_timeout(Some(time_left(self.deadline)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// How long there is to wait. What is less than the system's unit would be no limit to it.
fn time_left(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left.max(Duration::from_millis(1))),
    }
}

/// Connects to a socket file. Where the queue is full that waits as a write does (unix(7)), and so may it be limited.
fn connect_socket(path: &Path, until: Instant) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(time_left(until)?))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// The process that listens at the other end.
#[cfg(target_os = "linux")]
fn peer_process(socket: &Socket) -> Option<u32> {
    let other = rustix::net::sockopt::socket_peercred(socket).ok()?;
    u32::try_from(other.pid.as_raw_nonzero().get()).ok()
}

/// Elsewhere there is no telling.
#[cfg(not(target_os = "linux"))]
fn listening(_: &Socket) -> Option<u32> {
    None
}

fn query(mut stream: impl Read + Write) -> Result<TunnelStatus, StatusQueryError> {
    // A name that the endpoint takes for its own machine's.
    stream.write_all(b"GET /tunnels HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_RESPONSE).read_to_end(&mut answer)?;
    parse_status(&answer).ok_or(StatusQueryError::NotATunnel)
}

/// What is in an answer whose connection has ended. The endpoint sends no chunks.
fn parse_status(answer: &[u8]) -> Option<TunnelStatus> {
    let end = b"\r\n\r\n";
    let head = answer.windows(end.len()).position(|four| four == end)?;
    let first = answer.split(|byte| *byte == b'\r').next()?;
    let is_ok = first.starts_with(b"HTTP/1.") && first.get(8..12) == Some(b" 200");
    is_ok
        .then(|| serde_json::from_slice(&answer[head + end.len()..]).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_response_that_never_ends_has_a_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let drips = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"a").is_ok() {
                std::thread::yield_now();
            }
        });
        let asked = query_socket(&path, SHORT);
        assert!(
            matches!(asked.status, Err(StatusQueryError::Timeout)),
            "{asked:?}"
        );
        if cfg!(target_os = "linux") {
            assert_eq!(asked.process, Some(std::process::id()));
        }
        drips.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_accept_queue_has_a_deadline() {
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
        let asked = query_socket(&path, SHORT);
        assert!(
            matches!(asked.status, Err(StatusQueryError::Timeout)),
            "{asked:?}"
        );
        assert_eq!(asked.process, None);
    }

    #[test]
    fn a_timeout_is_told_apart_from_a_refused_connection() {
        let told = |kind: io::ErrorKind| StatusQueryError::from(io::Error::from(kind)).to_string();
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            assert_eq!(told(kind), "does not answer within 5 s");
        }
        assert_eq!(told(io::ErrorKind::ConnectionRefused), "cannot be asked");
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

//! Asks a running tunnel what is live: one request at its admin endpoint, with a limit on the time and on the answer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use haul_service::listen::{Address, Host};
use haul_tunnel::Status;

/// For an answer to begin, and for each piece of it.
const WAIT: Duration = Duration::from_secs(5);

/// Bytes of an answer: some hundred thousand connections.
const MOST: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// Nobody is there, or no longer.
    #[error("cannot be asked")]
    Io(#[source] io::Error),
    /// Somebody is there and says nothing: a process that is stopped still has its sockets, and the system takes connections for it.
    #[error("does not answer within {} s", WAIT.as_secs())]
    Silent,
    /// Somebody else is there.
    #[error("what answers there is no haul tunnel")]
    Stranger,
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The one is what connecting says, the other what reading does.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

/// Asks at a socket file.
pub(super) fn at_socket(path: &Path) -> Result<Status, AskError> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    asked(stream)
}

/// Asks at an address, as `--admin` has it.
pub(super) fn at(address: &Address) -> Result<Status, AskError> {
    let (host, port) = match address {
        Address::Unix { path, .. } => return at_socket(path),
        Address::Systemd { .. } => return Err(AskError::Stranger),
        Address::Tcp { host, port } => (host, *port),
    };
    let host = match host {
        Host::Every => "127.0.0.1".to_owned(),
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host.as_str(), port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, WAIT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(WAIT))?;
                stream.set_write_timeout(Some(WAIT))?;
                return asked(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

fn asked(mut stream: impl Read + Write) -> Result<Status, AskError> {
    // A name that the endpoint takes for its own machine's.
    stream.write_all(b"GET /tunnels HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    status(&answer).ok_or(AskError::Stranger)
}

/// What is in an answer whose connection has ended. The endpoint sends no chunks.
fn status(answer: &[u8]) -> Option<Status> {
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
    use super::*;

    #[test]
    fn one_that_says_nothing_is_told_from_one_that_is_gone() {
        let told = |kind: io::ErrorKind| AskError::from(io::Error::from(kind)).to_string();
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            assert_eq!(told(kind), "does not answer within 5 s");
        }
        assert_eq!(told(io::ErrorKind::ConnectionRefused), "cannot be asked");
    }

    #[test]
    fn only_what_a_tunnel_says_is_taken() {
        let body = r#"{"pid":7,"tunnels":[],"connections":[]}"#;
        let of = |text: String| status(text.as_bytes()).map(|status| status.pid);
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

//! An address that does not respond, not even with a refusal, like that of a dead host (rows A28, C3).
//!
//! No firewall is needed. The kernel completes as many connections as a listener's queue holds; when that is full and nobody accepts,
//! further handshakes get no response. This is a listener with the shortest possible queue, filled by connections of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A handshake on loopback that takes longer than this gets no response.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(200);

/// A listener that does not respond, until it is dropped.
#[derive(Debug)]
pub struct SilentListener {
    /// The listener, whose connections are never accepted.
    _listener: Socket,
    /// The connections that fill its queue.
    _queued: Vec<TcpStream>,
    address: SocketAddr,
}

impl SilentListener {
    /// Listens on a free port of 127.0.0.1, and on the same port of every other address of loopback.
    ///
    /// # Errors
    /// When there is no free port, or when the queue of a listener does not fill on this system.
    pub fn start() -> io::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
        listener.listen(0)?;
        let port = listener.local_addr()?.as_socket().map_or(0, |a| a.port());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut held = Vec::new();
        while held.len() < 64 {
            match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
                Ok(stream) => held.push(stream),
                Err(_) => {
                    return Ok(Self {
                        _listener: listener,
                        _queued: held,
                        address,
                    });
                }
            }
        }
        Err(io::Error::other("a listener's queue does not fill"))
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same port of another address of loopback: another host that does not respond.
    #[must_use]
    pub fn address_on(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, self.address.port())
    }
}

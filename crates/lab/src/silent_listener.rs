//! An address where nothing answers, not even with a refusal: what a dead host looks like (rows A28, C3).
//!
//! No firewall is needed. The kernel completes as many connections as a listener's queue holds; when that is full and nobody accepts,
//! further handshakes go unanswered. So this is a listener with the shortest queue there is, filled by connections of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A handshake on loopback that takes longer than this is one that goes unanswered.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(200);

/// Where nothing answers, for as long as this lives.
#[derive(Debug)]
pub struct SilentListener {
    /// Accepts nothing.
    _listener: Socket,
    /// Fill its queue.
    _queued: Vec<TcpStream>,
    /// Where it is.
    address: SocketAddr,
}

impl SilentListener {
    /// A free port of 127.0.0.1, and the same port of every other address of loopback.
    ///
    /// # Errors
    /// When there is no free port, or when the queue of a listener has no end here.
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

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same port of another address of loopback: as silent, and another host.
    #[must_use]
    pub fn address_on(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, self.address.port())
    }
}

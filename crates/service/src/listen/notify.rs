//! Notifies the service manager (`sd_notify(3)`): a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`.
//!
//! A service with `Type=notify` counts as started when it says so, and with `Type=notify-reload` as reloaded. Without the variable nothing
//! is sent. A failure is logged and no reason to stop.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time limit for a manager that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Notifies the service manager of the state of this process.
#[derive(Debug, Default)]
pub struct ServiceManagerNotifier {
    /// Connected to the manager; none without one.
    socket: Option<UnixDatagram>,
}

impl ServiceManagerNotifier {
    /// Notifies nobody.
    #[must_use]
    pub const fn none() -> Self {
        Self { socket: None }
    }

    /// Notifies the socket of `NOTIFY_SOCKET`: a path, or an abstract name that begins with `@`. Nobody, if it is not set.
    ///
    /// # Errors
    /// When there is no such socket, or it is of a kind that is not known here.
    pub fn connect(address: Option<&OsStr>) -> io::Result<Self> {
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            return Ok(Self::none());
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&parse_address(address)?)?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self {
            socket: Some(socket),
        })
    }

    /// Connections are accepted from now on.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn ready(&self) -> io::Result<()> {
        self.send("READY=1")
    }

    /// Settings are being read again. [`ready`](Self::ready) must follow, also when that fails.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn reloading(&self) -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        // The manager compares it with the time of its request, which an earlier reload does not satisfy.
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"))
    }

    /// No more connections are accepted; running requests are finished.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1")
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        socket.send(message.as_bytes()).map(drop)
    }
}

fn parse_address(address: &OsStr) -> io::Result<SocketAddr> {
    match address.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(address),
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketAddr::from_abstract_name(name)
        }
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "NOTIFY_SOCKET is neither a path nor an abstract name",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn notifications_arrive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = ServiceManagerNotifier::connect(Some(path.as_os_str())).unwrap();
        notify.ready().unwrap();
        assert_eq!(receive(&manager), "READY=1");
        notify.reloading().unwrap();
        notify.reloading().unwrap();
        let when = || {
            let message = receive(&manager);
            let micros = message
                .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
                .unwrap();
            micros.parse::<u64>().unwrap()
        };
        let (first, second) = (when(), when());
        assert!(0 < first && first <= second && second - first < 60_000_000);
        notify.stopping().unwrap();
        assert_eq!(receive(&manager), "STOPPING=1");
    }

    #[test]
    fn abstract_sockets_work() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("haul-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notify =
            ServiceManagerNotifier::connect(Some(OsStr::new(&format!("@{name}")))).unwrap();
        notify.ready().unwrap();
        assert_eq!(receive(&manager), "READY=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        for address in [None, Some(OsStr::new(""))] {
            ServiceManagerNotifier::connect(address)
                .unwrap()
                .ready()
                .unwrap();
        }
    }

    #[test]
    fn a_missing_manager_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        assert!(ServiceManagerNotifier::connect(Some(path.as_os_str())).is_err());
        let error = ServiceManagerNotifier::connect(Some(OsStr::new("vsock:2:1"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}

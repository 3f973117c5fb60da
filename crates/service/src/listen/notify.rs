//! What the service manager is told (`sd_notify(3)`): a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`.
//!
//! With `Type=notify` a service counts as started when it says so, and with `Type=notify-reload` as reloaded. Nobody need be
//! there: without the variable all of this does nothing. A failure is for the log and is no reason to stop.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long a manager that does not read may hold us up.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells the service manager how we are.
#[derive(Debug, Default)]
pub struct ServiceManagerNotifier {
    /// Connected to the manager; none when nobody wants to know.
    socket: Option<UnixDatagram>,
}

impl ServiceManagerNotifier {
    /// Tells nobody.
    #[must_use]
    pub const fn none() -> Self {
        Self { socket: None }
    }

    /// To the socket in `NOTIFY_SOCKET`: a path, or an abstract name that begins with `@`. Nobody, if it is not set.
    ///
    /// # Errors
    /// When there is no such socket, or it is of a kind that is not known here.
    pub fn connect(place: Option<&OsStr>) -> io::Result<Self> {
        let Some(place) = place.filter(|place| !place.is_empty()) else {
            return Ok(Self::none());
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address(place)?)?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self {
            socket: Some(socket),
        })
    }

    /// Connections are accepted from now on.
    ///
    /// # Errors
    /// When it could not be sent, as from all of these.
    pub fn ready(&self) -> io::Result<()> {
        self.send("READY=1")
    }

    /// Certificates and the like are being read again. [`ready`](Self::ready) is to follow, also when that failed.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn reloading(&self) -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        // The manager compares it with when it asked, so as not to take an earlier reload for an answer.
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"))
    }

    /// No more connections are accepted; what runs is finished.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1")
    }

    /// A line for people, which `systemctl status` shows.
    ///
    /// # Errors
    /// When it could not be sent.
    pub fn status(&self, text: &str) -> io::Result<()> {
        // A line break would begin another assignment.
        let line: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        self.send(&format!("STATUS={line}"))
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        socket.send(message.as_bytes()).map(drop)
    }
}

fn address(place: &OsStr) -> io::Result<SocketAddr> {
    match place.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(place),
        #[cfg(target_os = "linux")]
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

    fn heard(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn all_that_is_told_arrives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = ServiceManagerNotifier::connect(Some(path.as_os_str())).unwrap();
        notify.ready().unwrap();
        assert_eq!(heard(&manager), "READY=1");
        notify.status("3 connections\nREADY=0").unwrap();
        assert_eq!(heard(&manager), "STATUS=3 connections READY=0");
        notify.reloading().unwrap();
        notify.reloading().unwrap();
        let when = || {
            let heard = heard(&manager);
            let micros = heard.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
            micros.parse::<u64>().unwrap()
        };
        let (first, second) = (when(), when());
        assert!(0 < first && first <= second && second - first < 60_000_000);
        notify.stopping().unwrap();
        assert_eq!(heard(&manager), "STOPPING=1");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_abstract_socket_is_one_too() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("haul-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notify =
            ServiceManagerNotifier::connect(Some(OsStr::new(&format!("@{name}")))).unwrap();
        notify.ready().unwrap();
        assert_eq!(heard(&manager), "READY=1");
    }

    #[test]
    fn nobody_need_be_there() {
        for place in [None, Some(OsStr::new(""))] {
            ServiceManagerNotifier::connect(place)
                .unwrap()
                .ready()
                .unwrap();
        }
    }

    #[test]
    fn a_manager_that_is_not_there_is_told_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        assert!(ServiceManagerNotifier::connect(Some(path.as_os_str())).is_err());
        let error = ServiceManagerNotifier::connect(Some(OsStr::new("vsock:2:1"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}

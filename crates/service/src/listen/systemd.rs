//! Sockets that the service manager opened and handed over, as systemd does for socket units (`sd_listen_fds(3)`).
//!
//! They are the descriptors from 3 on. `LISTEN_FDS` is their number, `LISTEN_FDNAMES` has their names, and `LISTEN_PID` is the process that
//! they are for: child processes inherit the variables, too, and must not take the numbers for sockets. So the variables need not be
//! unset, which a program with threads cannot do safely.

mod sys;

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, Socket, Type};

use super::listener::{Listener, set_inherited_options};

/// The name of a socket without one (`sd_listen_fds_with_names(3)`).
const DEFAULT_NAME: &str = "unknown";

/// The sockets that were handed over and are not bound to an address yet. Dropping this closes them.
#[derive(Debug)]
pub struct InheritedSockets {
    sockets: Vec<(String, Listener)>,
}

/// Why sockets that were handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritedSocketsError {
    /// A variable of the environment is wrong.
    #[error("the environment has {variable}={value:?}, which is not what a service manager sets")]
    Environment {
        variable: &'static str,
        value: String,
    },
    /// They were taken before.
    #[error("the sockets that were handed over were taken before")]
    AlreadyTaken,
    /// An announced descriptor is not open.
    #[error("descriptor {number} was announced and is not open")]
    NotOpen { number: RawFd },
    /// A file, a datagram socket, or a connection (`Accept=yes`).
    #[error(
        "the descriptor {name:?} that was handed over is not a listening stream socket (ListenStream= with Accept=no)"
    )]
    NotListening { name: String },
    /// The system refuses to set its options.
    #[error("the socket {name:?} that was handed over cannot be used")]
    Io { name: String, source: io::Error },
}

impl InheritedSockets {
    #[must_use]
    pub const fn none() -> Self {
        Self {
            sockets: Vec::new(),
        }
    }

    /// Takes the sockets that were handed over to this process. Called once, by the program and not by a library.
    pub fn take() -> Result<Self, InheritedSocketsError> {
        let mut sockets = Vec::new();
        for (name, descriptor) in sys::take()? {
            let listener = to_listener(&name, descriptor)?;
            sockets.push((name, listener));
        }
        Ok(Self { sockets })
    }

    /// The names of the remaining sockets.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.sockets.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Takes the sockets of a name, or all.
    pub(super) fn take_named(&mut self, name: Option<&str>) -> Vec<Listener> {
        let taken = self
            .sockets
            .extract_if(.., |(own, _)| name.is_none_or(|name| name == own));
        taken.map(|(_, listener)| listener).collect()
    }
}

/// The name of each descriptor that the environment announces for this process; none without an announcement.
fn inherited_names(
    variable: impl Fn(&str) -> Option<OsString>,
    own_pid: u32,
) -> Result<Option<Vec<String>>, InheritedSocketsError> {
    let number = |name: &'static str| -> Result<Option<u32>, InheritedSocketsError> {
        let Some(value) = variable(name) else {
            return Ok(None);
        };
        let number = value.to_str().and_then(|text| text.parse().ok());
        number
            .map(Some)
            .ok_or_else(|| environment_error(name, value))
    };
    if number("LISTEN_PID")? != Some(own_pid) {
        return Ok(None);
    }
    let Some(count) = number("LISTEN_FDS")?.filter(|count| *count > 0) else {
        return Ok(None);
    };
    // More than a process may open is wrong, and would only cost memory.
    let plausible = usize::try_from(count).ok().filter(|count| *count <= 65_536);
    let count =
        plausible.ok_or_else(|| environment_error("LISTEN_FDS", count.to_string().into()))?;
    let Some(value) = variable("LISTEN_FDNAMES") else {
        return Ok(Some(vec![DEFAULT_NAME.to_owned(); count]));
    };
    let names: Vec<_> = value
        .to_string_lossy()
        .split(':')
        .map(ToOwned::to_owned)
        .collect();
    if names.len() != count {
        return Err(environment_error("LISTEN_FDNAMES", value));
    }
    Ok(Some(names))
}

fn environment_error(variable: &'static str, value: OsString) -> InheritedSocketsError {
    InheritedSocketsError::Environment {
        variable,
        value: value.to_string_lossy().into_owned(),
    }
}

/// Makes a listener of a descriptor, with the options of one that was bound here.
fn to_listener(name: &str, descriptor: OwnedFd) -> Result<Listener, InheritedSocketsError> {
    let failed = |source| InheritedSocketsError::Io {
        name: name.to_owned(),
        source,
    };
    let socket = Socket::from(descriptor);
    // The first call fails for a descriptor that is not a socket.
    let is_listener = socket.r#type().is_ok_and(|kind| kind == Type::STREAM)
        && socket.is_listener().is_ok_and(|listens| listens);
    if !is_listener {
        return Err(InheritedSocketsError::NotListening {
            name: name.to_owned(),
        });
    }
    socket.set_nonblocking(true).map_err(failed)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    if socket.domain().map_err(failed)? == Domain::UNIX {
        return Ok(Listener::Unix(socket.into()));
    }
    set_inherited_options(&socket).map_err(failed)?;
    Ok(Listener::Tcp(socket.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::listen::{BindOptions, ListenError, bind};

    fn parse(variables: &[(&str, &str)]) -> Result<Option<Vec<String>>, InheritedSocketsError> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        inherited_names(|name| variables.get(name).map(Into::into), 42)
    }

    fn inherited(name: &str, descriptor: impl Into<OwnedFd>) -> InheritedSockets {
        let listener = to_listener(name, descriptor.into()).unwrap();
        InheritedSockets {
            sockets: vec![(name.into(), listener)],
        }
    }

    #[test]
    fn an_announcement_counts_only_for_its_process() {
        assert_eq!(parse(&[]).unwrap(), None);
        assert_eq!(parse(&[("LISTEN_FDS", "1")]).unwrap(), None);
        assert_eq!(
            parse(&[("LISTEN_PID", "41"), ("LISTEN_FDS", "1")]).unwrap(),
            None
        );
        assert_eq!(
            parse(&[("LISTEN_PID", "42"), ("LISTEN_FDS", "0")]).unwrap(),
            None
        );
        let ours = [("LISTEN_PID", "42"), ("LISTEN_FDS", "2")];
        assert_eq!(parse(&ours).unwrap().unwrap(), ["unknown", "unknown"]);
        let named = [ours[0], ours[1], ("LISTEN_FDNAMES", "web:")];
        assert_eq!(parse(&named).unwrap().unwrap(), ["web", ""]);
    }

    #[test]
    fn a_wrong_announcement_is_an_error() {
        let pid = ("LISTEN_PID", "42");
        for (wrong, variables) in [
            ("LISTEN_PID", vec![("LISTEN_PID", "me")]),
            ("LISTEN_FDS", vec![pid, ("LISTEN_FDS", "-1")]),
            ("LISTEN_FDS", vec![pid, ("LISTEN_FDS", "4000000000")]),
            (
                "LISTEN_FDNAMES",
                vec![pid, ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web")],
            ),
        ] {
            let error = parse(&variables).unwrap_err();
            let InheritedSocketsError::Environment { variable, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(variable, wrong, "{variables:?}");
        }
    }

    #[test]
    fn descriptors_that_do_not_listen_are_refused() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let file = File::open("/dev/null").unwrap();
        for descriptor in [OwnedFd::from(udp), connected.into(), file.into()] {
            let error = to_listener("web", descriptor).unwrap_err();
            assert!(
                matches!(error, InheritedSocketsError::NotListening { .. }),
                "{error:?}"
            );
        }
    }

    #[test]
    fn inherited_sockets_are_taken_by_name_and_once() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut inherited = inherited("web", socket);
        let options = BindOptions {
            sockets: 3.try_into().unwrap(),
            ..BindOptions::default()
        };
        let error = bind(&"systemd:api".parse().unwrap(), &options, &mut inherited).unwrap_err();
        assert!(
            matches!(&error, ListenError::NotInherited { others, .. } if others == &["web"]),
            "{error:?}"
        );
        let bound = bind(&"systemd:web".parse().unwrap(), &options, &mut inherited).unwrap();
        assert_eq!((bound.len(), bound[0].listeners.len()), (1, 3));
        assert_eq!(bound[0].local.to_string(), address.to_string());
        let _client = TcpStream::connect(address).unwrap();
        let Listener::Tcp(last) = &bound[0].listeners[2] else {
            panic!("{bound:?}");
        };
        // It does not block, and accepted sockets send at once.
        assert!(last.accept().unwrap().0.nodelay().unwrap());
        assert_eq!(last.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let error = bind(&"systemd".parse().unwrap(), &options, &mut inherited).unwrap_err();
        assert!(matches!(&error, ListenError::NotInherited { others, .. } if others.is_empty()));
    }

    /// Not a test: the next test runs it as a child process with two sockets at 3 and 4.
    #[test]
    #[ignore = "run by a_child_process_finds_its_sockets"]
    fn child() {
        if std::env::var_os("LISTEN_FDS").is_none() {
            return;
        }
        let mut inherited = InheritedSockets::take().unwrap();
        assert_eq!(inherited.names(), ["web", "admin"]);
        assert!(matches!(
            InheritedSockets::take(),
            Err(InheritedSocketsError::AlreadyTaken)
        ));
        for (name, listener) in inherited.sockets.drain(..) {
            match listener {
                Listener::Tcp(listener) => {
                    let flags = rustix::io::fcntl_getfd(&listener).unwrap();
                    assert_eq!(flags, FdFlags::CLOEXEC);
                    listener.set_nonblocking(false).unwrap();
                    listener
                        .accept()
                        .unwrap()
                        .0
                        .write_all(name.as_bytes())
                        .unwrap();
                }
                Listener::Unix(listener) => {
                    listener.set_nonblocking(false).unwrap();
                    listener
                        .accept()
                        .unwrap()
                        .0
                        .write_all(name.as_bytes())
                        .unwrap();
                }
            }
        }
    }

    #[test]
    fn a_child_process_finds_its_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let web = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = web.local_addr().unwrap();
        let admin = UnixListener::bind(&path).unwrap();
        // The shell moves them to 3 and 4, and keeps its process number when it becomes the child.
        let script = r#"exec 3<&0 4<&2 </dev/null 2>/dev/null; export LISTEN_PID=$$; exec "$@""#;
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "listen::systemd::tests::child"])
            .env("LISTEN_FDS", "2")
            .env("LISTEN_FDNAMES", "web:admin")
            .stdin(OwnedFd::from(web))
            .stderr(OwnedFd::from(admin))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut received = [String::new(), String::new()];
        // Connections wait in the queues until the child accepts. If it fails, its sockets close and these end.
        let mut web = TcpStream::connect(address).unwrap();
        let mut admin = UnixStream::connect(&path).unwrap();
        let _ = web.read_to_string(&mut received[0]);
        let _ = admin.read_to_string(&mut received[1]);
        let mut output = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        assert_eq!(received, ["web", "admin"], "{output}");
    }
}

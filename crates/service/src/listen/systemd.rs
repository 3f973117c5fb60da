//! Sockets that were opened before us and handed over, as systemd's socket units do it (`sd_listen_fds(3)`).
//!
//! They are the descriptors from 3 on. `LISTEN_FDS` says how many, `LISTEN_FDNAMES` what each is called, and `LISTEN_PID` whom
//! they are meant for: our own children inherit the variables, too, and must not take the numbers for sockets of theirs. For the
//! same reason nothing needs to be unset, which no program with threads can do safely.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, Socket, Type};

use super::bind::Listener;
use super::sys;
use super::tcp::set_inherited_options;

/// What a socket without a name is called, by custom.
const DEFAULT_NAME: &str = "unknown";

/// The sockets that were handed over and that nobody has taken yet. Those that are left are closed when this is dropped.
#[derive(Debug)]
pub struct InheritedSockets {
    sockets: Vec<(String, Listener)>,
}

/// Why what was handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritedSocketsError {
    /// A variable of the environment is not what it should be.
    #[error("the environment has {variable}={value:?}, which is not what a service manager sets")]
    Environment {
        /// Which one.
        variable: &'static str,
        /// What it is.
        value: String,
    },
    /// They belong to whoever took them first.
    #[error("the sockets that were handed over were taken before")]
    AlreadyTaken,
    /// What was promised is not there.
    #[error("descriptor {number} was to be handed over and is not open")]
    NotOpen {
        /// Its number.
        number: RawFd,
    },
    /// A file, a datagram socket, or one that is a connection already (`Accept=yes`).
    #[error(
        "the descriptor {name:?} that was handed over is no listening stream socket (ListenStream= with Accept=no)"
    )]
    NotListening {
        /// What it is called.
        name: String,
    },
    /// The system does not let us set it up.
    #[error("the socket {name:?} that was handed over cannot be used")]
    Io {
        /// What it is called.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl InheritedSockets {
    /// Nothing was handed over, or nobody is to look.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            sockets: Vec::new(),
        }
    }

    /// Takes what was handed over to this process, if anything was. To be called once, by the program and not by a library.
    ///
    /// # Errors
    /// See [`InheritedSocketsError`].
    pub fn take() -> Result<Self, InheritedSocketsError> {
        let mut sockets = Vec::new();
        for (name, descriptor) in sys::take()? {
            let listener = to_listener(&name, descriptor)?;
            sockets.push((name, listener));
        }
        Ok(Self { sockets })
    }

    /// What those are called that are still here.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.sockets.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Those of a name, or all.
    pub(super) fn take_named(&mut self, wanted: Option<&str>) -> Vec<Listener> {
        let meant = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let picked = self.sockets.extract_if(.., |(name, _)| meant(name));
        picked.map(|(_, listener)| listener).collect()
    }
}

/// The names of what was promised to this process: as many as there are descriptors. None when nothing was.
pub(super) fn inherited_names(
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
    // More than a process may open is no count of descriptors, and would only cost memory.
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

/// A listener of what was handed over, set up as our own are.
fn to_listener(name: &str, descriptor: OwnedFd) -> Result<Listener, InheritedSocketsError> {
    let failed = |source| InheritedSocketsError::Io {
        name: name.to_owned(),
        source,
    };
    let socket = Socket::from(descriptor);
    // Of what is no socket at all, the first question fails.
    let listens = socket.r#type().is_ok_and(|kind| kind == Type::STREAM)
        && socket.is_listener().is_ok_and(|listens| listens);
    if !listens {
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

    use super::super::{BindOptions, ListenError, bind};
    use super::*;

    fn said(variables: &[(&str, &str)]) -> Result<Option<Vec<String>>, InheritedSocketsError> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        inherited_names(|name| variables.get(name).map(Into::into), 42)
    }

    fn handed(name: &str, descriptor: impl Into<OwnedFd>) -> InheritedSockets {
        let listener = to_listener(name, descriptor.into()).unwrap();
        InheritedSockets {
            sockets: vec![(name.into(), listener)],
        }
    }

    #[test]
    fn a_promise_is_for_this_process_or_none() {
        assert_eq!(said(&[]).unwrap(), None);
        assert_eq!(said(&[("LISTEN_FDS", "1")]).unwrap(), None);
        assert_eq!(
            said(&[("LISTEN_PID", "41"), ("LISTEN_FDS", "1")]).unwrap(),
            None
        );
        assert_eq!(
            said(&[("LISTEN_PID", "42"), ("LISTEN_FDS", "0")]).unwrap(),
            None
        );
        let ours = [("LISTEN_PID", "42"), ("LISTEN_FDS", "2")];
        assert_eq!(said(&ours).unwrap().unwrap(), ["unknown", "unknown"]);
        let named = [ours[0], ours[1], ("LISTEN_FDNAMES", "web:")];
        assert_eq!(said(&named).unwrap().unwrap(), ["web", ""]);
    }

    #[test]
    fn a_promise_that_makes_no_sense_is_told() {
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
            let error = said(&variables).unwrap_err();
            let InheritedSocketsError::Environment { variable, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(variable, wrong, "{variables:?}");
        }
    }

    #[test]
    fn what_does_not_listen_is_refused() {
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
    fn what_was_handed_over_is_taken_by_name_and_once() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = socket.local_addr().unwrap();
        let mut handed = handed("web", socket);
        let options = BindOptions {
            sockets: 3.try_into().unwrap(),
            ..BindOptions::default()
        };
        let error = bind(&"systemd:api".parse().unwrap(), &options, &mut handed).unwrap_err();
        assert_eq!(error.hint().unwrap(), "there are: web");
        let bound = bind(&"systemd:web".parse().unwrap(), &options, &mut handed).unwrap();
        assert_eq!((bound.len(), bound[0].listeners.len()), (1, 3));
        assert_eq!(bound[0].local.to_string(), place.to_string());
        let _client = TcpStream::connect(place).unwrap();
        let Listener::Tcp(last) = &bound[0].listeners[2] else {
            panic!("{bound:?}");
        };
        // Ours by now: it does not block, and what it accepts sends at once.
        assert!(last.accept().unwrap().0.nodelay().unwrap() || !cfg!(target_os = "linux"));
        assert_eq!(last.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let error = bind(&"systemd".parse().unwrap(), &options, &mut handed).unwrap_err();
        assert!(matches!(&error, ListenError::NotInherited { others, .. } if others.is_empty()));
        assert!(error.hint().unwrap().contains(".socket"));
    }

    /// Not a test of its own: what the next one runs as a child, which finds two sockets at 3 and 4.
    #[test]
    #[ignore = "run by a_child_finds_what_was_handed_over"]
    fn child() {
        if std::env::var_os("LISTEN_FDS").is_none() {
            return;
        }
        let mut handed = InheritedSockets::take().unwrap();
        assert_eq!(handed.names(), ["web", "admin"]);
        assert!(matches!(
            InheritedSockets::take(),
            Err(InheritedSocketsError::AlreadyTaken)
        ));
        for (name, listener) in handed.sockets.drain(..) {
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
    fn a_child_finds_what_was_handed_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let web = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = web.local_addr().unwrap();
        let admin = UnixListener::bind(&path).unwrap();
        // The shell puts them where a service manager would, and keeps its process number when it becomes the child.
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
        let mut heard = [String::new(), String::new()];
        // Connections wait in the queues that are here already. When the child fails, its sockets close and so do these.
        let mut web = TcpStream::connect(place).unwrap();
        let mut admin = UnixStream::connect(&path).unwrap();
        let _ = web.read_to_string(&mut heard[0]);
        let _ = admin.read_to_string(&mut heard[1]);
        let mut output = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        assert_eq!(heard, ["web", "admin"], "{output}");
    }
}

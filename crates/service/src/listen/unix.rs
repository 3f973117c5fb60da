//! Binds Unix sockets.
//!
//! Their files outlive the process, so an existing file may be stale or belong to a running server. A connection to a stale file is
//! refused, and the file is replaced. A running server's socket and anything that is not a socket stay.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use super::listener::{BindOptions, Listener};
use super::socket_file::{SocketFile, SocketFileIdentity, remove_if};

/// Why a path cannot be bound.
#[derive(Debug)]
pub(super) enum UnixBindError {
    /// A server listens there.
    InUse,
    /// It is not a stream socket.
    NotASocket,
    /// Any other error.
    Io(io::Error),
}

impl From<io::Error> for UnixBindError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) fn bind(
    path: &Path,
    mode: Option<u32>,
    options: &BindOptions,
) -> Result<(Listener, SocketFile), UnixBindError> {
    let path = std::path::absolute(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let address = SockAddr::unix(&path)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error.into());
        }
        remove_if(&path, stale_identity(&path, &address)?)?;
        // In use again: another server was faster.
        socket.bind(&address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => UnixBindError::InUse,
            _ => error.into(),
        })?;
    }
    let file = SocketFile::new(path)?;
    if let Some(mode) = mode {
        // Nobody can connect before it listens: there is no moment with wider permissions.
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode))?;
    }
    socket.listen(options.backlog())?;
    Ok((Listener::Unix(socket.into()), file))
}

/// The identity of a stale socket file: one that nobody listens on.
fn stale_identity(path: &Path, address: &SockAddr) -> Result<SocketFileIdentity, UnixBindError> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.file_type().is_socket() {
        return Err(UnixBindError::NotASocket);
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server with a full queue must not block this one.
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Ok(SocketFileIdentity::of(&metadata)),
            Some(libc::EAGAIN) => Err(UnixBindError::InUse),
            // A datagram socket.
            Some(libc::EPROTOTYPE) => Err(UnixBindError::NotASocket),
            _ => Err(error.into()),
        },
        Ok(()) => Err(UnixBindError::InUse),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::super::{
        BoundAddress, BoundListener, InheritedSockets, ListenAddress, ListenError, bind,
    };
    use super::*;

    fn listening(path: &Path, mode: Option<u32>) -> Result<BoundListener, ListenError> {
        let path = path.to_owned();
        let address = ListenAddress::Unix { path, mode };
        let options = BindOptions {
            sockets: 2.try_into().unwrap(),
            ..BindOptions::default()
        };
        let mut bound = bind(&address, &options, &mut InheritedSockets::none())?;
        assert_eq!(bound.len(), 1);
        Ok(bound.remove(0))
    }

    fn socket(listener: &Listener) -> &UnixListener {
        match listener {
            Listener::Unix(listener) => listener,
            Listener::Tcp(_) => panic!("{listener:?}"),
        }
    }

    #[test]
    fn a_socket_file_accepts_connections_and_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let bound = listening(&path, None).unwrap();
        assert_eq!(bound.local, BoundAddress::Unix(Some(path.clone())));
        assert_eq!(bound.local.to_string(), format!("unix:{}", path.display()));
        assert_eq!(bound.listeners.len(), 2);
        // Either accepts what is queued.
        let _clients = [
            UnixStream::connect(&path).unwrap(),
            UnixStream::connect(&path).unwrap(),
        ];
        socket(&bound.listeners[0]).accept().unwrap();
        socket(&bound.listeners[1]).accept().unwrap();
        let error = socket(&bound.listeners[1]).accept().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_mode_overrides_the_umask() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o666] {
            let path = directory.path().join("a.sock");
            let _bound = listening(&path, Some(mode)).unwrap();
            assert_eq!(path.symlink_metadata().unwrap().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_stale_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = listening(&path, None).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        socket(&bound.listeners[0]).accept().unwrap();
    }

    #[test]
    fn a_running_server_keeps_its_socket_even_when_busy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let running = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        running.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        running.listen(0).unwrap();
        // The first of these fills the queue.
        for _ in 0..3 {
            let error = listening(&path, None).unwrap_err();
            assert!(
                matches!(error, ListenError::SocketInUse { .. }),
                "{error:?}"
            );
        }
        let running: UnixListener = running.into();
        running.accept().unwrap();
    }

    #[test]
    fn files_that_are_not_stream_sockets_are_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "precious").unwrap();
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let link = directory.path().join("link");
        let stale = directory.path().join("stale");
        drop(UnixListener::bind(&stale).unwrap());
        std::os::unix::fs::symlink(&stale, &link).unwrap();
        let datagrams = directory.path().join("datagrams");
        let _running = UnixDatagram::bind(&datagrams).unwrap();
        for path in [&file, &folder, &link, &datagrams] {
            let error = listening(path, None).unwrap_err();
            assert!(
                matches!(error, ListenError::NotASocket { .. }),
                "{path:?}: {error:?}"
            );
            assert!(path.symlink_metadata().is_ok());
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }

    #[test]
    fn the_file_of_another_server_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let old = listening(&path, None).unwrap();
        fs::remove_file(&path).unwrap();
        let new = listening(&path, None).unwrap();
        drop(old);
        drop(UnixStream::connect(&path).unwrap());
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = listening(&directory.path().join("no/a.sock"), None).unwrap_err();
        assert!(
            matches!(&error, ListenError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{error:?}"
        );
    }
}

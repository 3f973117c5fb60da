//! Sockets in the file system.
//!
//! Their files outlive whoever made them, so one in the way may be a leftover or a running server's. Asking tells: at a leftover
//! nobody answers. A leftover is replaced; a server, and all that is no socket, is left alone.
//!
//! A file is removed only while it is the one that was looked at: same device, same inode, same time of making. Between that
//! look and the removal a moment is left, as the system has no call that does both.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use super::bind::{BindOptions, Listener};

/// The file of a socket that we have made. It is removed when this is dropped, if it is still that file.
#[derive(Debug)]
pub struct SocketFile {
    /// Absolute, as the working directory may change.
    path: PathBuf,
    /// What we made.
    identity: SocketFileIdentity,
}

impl SocketFile {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still there, and no other has taken its name.
    #[must_use]
    pub fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| SocketFileIdentity::of(&metadata) == self.identity)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = remove_if(&self.path, self.identity) {
            tracing::warn!(path = %self.path.display(), %error, "a socket's file could not be removed");
        }
    }
}

/// Why a path cannot be listened on.
#[derive(Debug)]
pub(super) enum UnixBindError {
    /// A server answers there.
    InUse,
    /// It is no socket of our kind.
    NotASocket,
    /// All else.
    Io(io::Error),
}

impl From<io::Error> for UnixBindError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Listens at a path.
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
        // In the way again: somebody was faster, and runs.
        socket.bind(&address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => UnixBindError::InUse,
            _ => error.into(),
        })?;
    }
    let identity = SocketFileIdentity::of(&fs::symlink_metadata(&path)?);
    let file = SocketFile { path, identity };
    if let Some(mode) = mode {
        // Before it listens, nobody can connect: there is no moment at which it is open to more than it should be.
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode))?;
    }
    socket.listen(options.backlog())?;
    Ok((Listener::Unix(socket.into()), file))
}

/// Which file is in the way, if it is a socket that nobody listens on.
fn stale_identity(path: &Path, address: &SockAddr) -> Result<SocketFileIdentity, UnixBindError> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.file_type().is_socket() {
        return Err(UnixBindError::NotASocket);
    }
    let asking = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server whose queue is full must not keep us waiting.
    asking.set_nonblocking(true)?;
    match asking.connect(address) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Ok(SocketFileIdentity::of(&metadata)),
            Some(libc::EAGAIN) => Err(UnixBindError::InUse),
            // A socket for datagrams.
            Some(libc::EPROTOTYPE) => Err(UnixBindError::NotASocket),
            _ => Err(error.into()),
        },
        Ok(()) => Err(UnixBindError::InUse),
    }
}

/// Removes a file if it is the one that was meant. None there is well too.
fn remove_if(path: &Path, meant: SocketFileIdentity) -> io::Result<()> {
    let gone = match fs::symlink_metadata(path) {
        Ok(metadata) if SocketFileIdentity::of(&metadata) == meant => fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// One file, also after another has got its inode's number. A socket's mtime is when it was made: nobody writes to it, and
/// permissions count as ctime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketFileIdentity {
    device: u64,
    inode: u64,
    created: (i64, i64),
}

impl SocketFileIdentity {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn it_is_there_answers_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let bound = listening(&path, None).unwrap();
        assert_eq!(bound.local, BoundAddress::Unix(Some(path.clone())));
        assert_eq!(bound.local.to_string(), format!("unix:{}", path.display()));
        assert_eq!(bound.listeners.len(), 2);
        // Either takes what has come.
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
    fn a_mode_is_obeyed_whatever_the_umask() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o666] {
            let path = directory.path().join("a.sock");
            let _bound = listening(&path, Some(mode)).unwrap();
            assert_eq!(path.symlink_metadata().unwrap().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_leftover_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = listening(&path, None).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        socket(&bound.listeners[0]).accept().unwrap();
    }

    #[test]
    fn a_server_that_runs_is_left_alone_also_when_it_is_busy() {
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
            assert!(error.hint().unwrap().contains("running?"));
        }
        let running: UnixListener = running.into();
        running.accept().unwrap();
    }

    #[test]
    fn what_is_no_socket_of_our_kind_is_never_removed() {
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
    fn at_the_end_the_file_of_another_stays() {
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
    fn a_file_whose_number_another_had_is_not_taken_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let bound = listening(&path, None).unwrap();
        let mut other = bound.file.as_ref().unwrap().identity;
        other.created.1 ^= 1;
        remove_if(&path, other).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let error = listening(&directory.path().join("no/a.sock"), None).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(hint.starts_with("make the folder"), "{hint}");
    }
}

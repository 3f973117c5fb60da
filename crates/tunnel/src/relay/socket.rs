//! Calls on sockets, made when the runtime says that they will not have to wait.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A socket of either kind. Both directions of a relay use it at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RelaySocket<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
}

impl<'a> RelaySocket<'a> {
    /// The socket, for calls of other modules.
    pub(super) fn fd(self) -> BorrowedFd<'a> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    /// Reads what is there.
    pub(crate) fn poll_read(
        self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let most = room.len();
        self.poll_call(cx, (Interest::READABLE, most), |fd| {
            let (bytes, _) = rustix::net::recv(fd, &mut *room, RecvFlags::empty())?;
            Ok(bytes)
        })
    }

    /// Writes what it takes.
    pub(super) fn poll_write(self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_call(cx, (Interest::WRITABLE, bytes.len()), |fd| {
            rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)
        })
    }

    /// Makes a call as soon as the socket is ready for it. One that moved less than `most` has emptied the socket, or filled it: the next
    /// would have to wait, and is not tried before the system says so.
    pub(super) fn poll_call(
        self,
        cx: &mut Context<'_>,
        (interest, most): (Interest, usize),
        mut call: impl FnMut(BorrowedFd<'a>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            let mut moved = None;
            let tried = self.try_io(interest, || {
                let bytes = retry_on_intr(|| call(self.fd()))?;
                moved = Some(bytes);
                match 0 < bytes && bytes < most {
                    true => Err(io::ErrorKind::WouldBlock.into()),
                    false => Ok(()),
                }
            });
            match (moved, tried) {
                (Some(bytes), _) => return Poll::Ready(Ok(bytes)),
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                // The runtime has taken its word back, and will give it again.
                (None, _) => {}
            }
        }
    }

    fn poll_ready(self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match (self, interest.is_readable()) {
            (Self::Tcp(stream), true) => stream.poll_read_ready(cx),
            (Self::Tcp(stream), false) => stream.poll_write_ready(cx),
            (Self::Unix(stream), true) => stream.poll_read_ready(cx),
            (Self::Unix(stream), false) => stream.poll_write_ready(cx),
        }
    }

    fn try_io(self, interest: Interest, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, call),
            Self::Unix(stream) => stream.try_io(interest, call),
        }
    }

    /// Ends what we send. A socket that is gone has nobody to tell.
    pub(super) fn shut_down(self) {
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Write);
    }

    /// Becomes ready when it has an error, whoever else looks for one.
    pub(crate) fn errors(self) -> SocketErrors<'a> {
        SocketErrors::of(Some(self))
    }

    /// Waits until it has an error, and takes that.
    async fn error(self) -> io::Error {
        let waited = match self {
            Self::Tcp(stream) => stream.ready(Interest::ERROR).await,
            Self::Unix(stream) => stream.ready(Interest::ERROR).await,
        };
        let taken = match waited {
            Ok(_) => socket2::SockRef::from(&self.fd()).take_error(),
            Err(error) => return error,
        };
        match taken {
            Ok(Some(error)) | Err(error) => error,
            // Somebody else has seen it.
            Ok(None) => io::ErrorKind::ConnectionReset.into(),
        }
    }
}

/// Becomes ready when an end has an error that nobody would read. Of ends that are no sockets it never does.
pub(crate) struct SocketErrors<'a>(
    Option<Pin<Box<dyn Future<Output = io::Error> + Send + 'a>>>,
    Option<RelaySocket<'a>>,
);

impl<'a> SocketErrors<'a> {
    pub(super) fn of(socket: Option<RelaySocket<'a>>) -> Self {
        // Made when it is first wanted, which is seldom.
        Self(None, socket)
    }
}

impl Future for SocketErrors<'_> {
    type Output = io::Error;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Self(waiting, socket) = self.get_mut();
        match socket {
            Some(socket) => {
                let socket = *socket;
                waiting
                    .get_or_insert_with(|| Box::pin(socket.error()))
                    .as_mut()
                    .poll(cx)
            }
            None => Poll::Pending,
        }
    }
}

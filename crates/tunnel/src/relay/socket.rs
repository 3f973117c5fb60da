//! Calls on sockets, made when the runtime says that they need not wait.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A socket of either kind, which both directions of a relay use at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RelaySocket<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
}

impl<'a> RelaySocket<'a> {
    pub(super) fn fd(self) -> BorrowedFd<'a> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    /// Reads what has come; 0 is the end of the stream.
    pub(super) fn poll_read(
        self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let most = buffer.len();
        self.poll_call(cx, Interest::READABLE, most, |fd| {
            let (count, _) = rustix::net::recv(fd, &mut *buffer, RecvFlags::empty())?;
            Ok(count)
        })
    }

    /// Waits until something has come, which stays to be read; 0 is the end of the stream.
    pub(crate) async fn peek(self) -> io::Result<usize> {
        poll_fn(|cx| {
            self.poll_call(cx, Interest::READABLE, 1, |fd| {
                let (count, _) = rustix::net::recv(fd, &mut [0; 1], RecvFlags::PEEK)?;
                Ok(count)
            })
        })
        .await
    }

    /// Writes as much as there is room for.
    pub(super) fn poll_write(self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_call(cx, Interest::WRITABLE, bytes.len(), |fd| {
            rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)
        })
    }

    /// Makes a call as soon as the socket is ready for it. A call that moves less than `most` bytes has emptied the socket, or filled it:
    /// the next would have to wait, and is not tried before the runtime says so.
    pub(super) fn poll_call(
        self,
        cx: &mut Context<'_>,
        interest: Interest,
        most: usize,
        mut call: impl FnMut(BorrowedFd<'a>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            let mut moved = None;
            let tried = self.try_io(interest, || {
                let count = retry_on_intr(|| call(self.fd()))?;
                moved = Some(count);
                if 0 < count && count < most {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
            match (moved, tried) {
                (Some(count), _) => return Poll::Ready(Ok(count)),
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                // The runtime was wrong, and knows it now.
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

    /// Ends the stream that we send. An error means that the peer is gone.
    pub(super) fn shut_down(self) {
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Write);
    }

    /// Waits until the socket has an error, and takes it.
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
            // Another call has taken it.
            Ok(None) => io::ErrorKind::ConnectionReset.into(),
        }
    }
}

/// Becomes ready when a socket has an error, also where nothing reads from it. For a stream that is no socket it never does.
pub(crate) struct SocketErrors<'a> {
    socket: Option<RelaySocket<'a>>,
    /// Made when it is first polled, which is seldom.
    waiting: Option<Pin<Box<dyn Future<Output = io::Error> + Send + 'a>>>,
}

impl<'a> SocketErrors<'a> {
    pub(crate) fn new(socket: Option<RelaySocket<'a>>) -> Self {
        Self {
            socket,
            waiting: None,
        }
    }
}

impl Future for SocketErrors<'_> {
    type Output = io::Error;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Self { socket, waiting } = self.get_mut();
        match *socket {
            Some(socket) => waiting
                .get_or_insert_with(|| Box::pin(socket.error()))
                .as_mut()
                .poll(cx),
            None => Poll::Pending,
        }
    }
}

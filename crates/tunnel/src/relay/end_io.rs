//! Ends as streams, for what is said on them before a relay begins.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::End;

/// Hands a call to whatever carries the bytes.
macro_rules! carried {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            End::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            End::Unix(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            End::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
            End::Other(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        carried!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        carried!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self, stream => stream.poll_shutdown(cx))
    }
}

//! A stream to a client, with or without TLS.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A stream to a client, whose socket can be reached beneath TLS.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    fn socket(&self) -> &TcpStream;
}

impl ClientStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

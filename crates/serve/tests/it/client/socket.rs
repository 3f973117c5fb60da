//! The client's end of a connection: TCP, a Unix socket, TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::authority_and_tls;

/// A byte stream.
pub(super) trait TestStream: Read + Write + Send {
    /// Sends the close message of the protocol, if it has one.
    fn finish(&mut self) {}
}

impl TestStream for TcpStream {}
impl TestStream for UnixStream {}
impl TestStream for StreamOwned<ClientConnection, TcpStream> {
    fn finish(&mut self) {
        self.conn.send_close_notify();
        // The server may have closed the connection.
        let _ = self.flush();
    }
}

/// The socket below TLS.
pub(super) enum TestSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl TestSocket {
    pub(super) fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket
                .set_read_timeout(Some(limit))
                .and_then(|()| socket.set_write_timeout(Some(limit))),
            Self::Unix(socket) => socket
                .set_read_timeout(Some(limit))
                .and_then(|()| socket.set_write_timeout(Some(limit))),
        }
    }

    pub(super) fn shutdown(&self) {
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }
}

/// A TLS client that trusts the test's authority.
pub(crate) fn client_config(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = authority_and_tls().0.certificate_pem();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

//! An origin that writes HTTP/2 frames by a script, right or wrong.
//!
//! It sends the frames that a client needs to go on, which are settings and acknowledgements of settings and pings. It does not parse heads:
//! requests are distinguished by their order.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::frames::{PREFACE_BYTES, frame};
use crate::running_listener::{FirstPanic, RunningListener};

#[derive(Debug, Clone, Copy)]
pub struct FrameRequest {
    /// The number of its connection, from 0.
    pub connection: usize,
    pub stream: u32,
    /// Its number among the requests of its connection, from 0.
    pub number: usize,
}

type FrameScript = dyn Fn(FrameRequest) -> Option<Vec<u8>> + Send + Sync;

/// A running origin. When dropped, it closes all its connections, and panics if its script did.
#[derive(Debug)]
pub struct Http2FrameOrigin {
    listener: RunningListener,
    connections: Arc<AtomicUsize>,
}

impl Http2FrameOrigin {
    /// Starts an origin on a free port. `script` returns the bytes to write for a request, or `None` to close the connection.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(
        tls: Arc<ServerConfig>,
        script: impl Fn(FrameRequest) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let (tls, script) = (TlsAcceptor::from(tls), Arc::new(script));
        let listening = RunningListener::start(
            Ipv4Addr::LOCALHOST.into(),
            FirstPanic::default(),
            move |stream| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (tls, script) = (tls.clone(), Arc::clone(&script));
                async move {
                    // The peer sees how it ends; nobody here needs the error.
                    let _ = serve_connection(stream, &tls, number, script.as_ref()).await;
                }
            },
        )
        .await;
        Self {
            listener: listening,
            connections,
        }
    }

    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.listener.address)
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve_connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    connection: usize,
    script: &FrameScript,
) -> io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
    write(&mut stream, &frame(4, 0, 0, &[])).await?;
    let mut number = 0;
    loop {
        let (kind, flags, id, payload) = read_frame(&mut stream).await?;
        match (kind, flags & 1) {
            (1, _) => {
                let heard = FrameRequest {
                    connection,
                    stream: id,
                    number,
                };
                number += 1;
                let Some(bytes) = script(heard) else {
                    return Ok(());
                };
                write(&mut stream, &bytes).await?;
            }
            (4, 0) => write(&mut stream, &frame(4, 1, 0, &[])).await?,
            (6, 0) => write(&mut stream, &frame(6, 1, 0, &payload)).await?,
            _ => {}
        }
    }
}

async fn write(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn read_frame(stream: &mut TlsStream<TcpStream>) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Ok((head[3], head[4], id, payload))
}

//! A server with a short queue of connections: it accepts one after the other, and answers each with a file. What arrives while the queue is
//! full is dropped by the kernel, and sent again by the client's kernel a second later.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::kernel_link::LinkEnds;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// How long a connection keeps the server busy.
const BUSY: Duration = Duration::from_millis(1);

/// How long a client may take for its request, or for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest head of a request.
const MAX_HEAD: usize = 16 << 10;

/// A server with a short queue. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct ShortQueueServer {
    address: SocketAddr,
    ends: LinkEnds,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ShortQueueServer {
    /// A server at the server's end of a link, whose file has so many bytes, and whose thread has this name.
    pub(super) fn start(bytes: u64, thread_name: &str, ends: LinkEnds) -> io::Result<Self> {
        let new_socket = || Socket::new(Domain::IPV4, Type::STREAM, None);
        let socket = ends.server.run(new_socket)?;
        socket.bind(&SocketAddr::from((ends.server_ip, 0)).into())?;
        socket.listen(BACKLOG)?;
        let listener = std::net::TcpListener::from(socket);
        let address = listener.local_addr()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&is_stopping);
        let mut response =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n")
                .into_bytes();
        response.resize(
            response.len() + usize::try_from(bytes).unwrap_or(usize::MAX),
            b'x',
        );
        let thread = std::thread::Builder::new()
            .name(thread_name.to_owned())
            .spawn(move || {
                for connection in listener.incoming() {
                    if stopping.load(Ordering::Relaxed) {
                        return;
                    }
                    // A client that leaves is no reason to stop.
                    let _ = connection.and_then(|connection| respond(connection, &response));
                }
            })?;
        Ok(Self {
            address,
            ends,
            is_stopping,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Reads a request's head, and answers it.
fn respond(mut connection: TcpStream, response: &[u8]) -> io::Result<()> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < MAX_HEAD {
        match connection.read(&mut buffer)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread is this server's own, and is to be busy"
    )]
    std::thread::sleep(BUSY);
    connection.write_all(response)
}

impl Drop for ShortQueueServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        // It waits for a connection.
        let connect = || TcpStream::connect_timeout(&self.address, TIMEOUT);
        let _ = self.ends.server.run(connect);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_gets_the_file() {
        let server = ShortQueueServer::start(7, "queue", LinkEnds::default()).unwrap();
        for _ in 0..3 {
            let mut connection = TcpStream::connect(server.address()).unwrap();
            connection
                .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                .unwrap();
            let mut text = String::new();
            connection.read_to_string(&mut text).unwrap();
            assert!(text.ends_with("\r\n\r\nxxxxxxx"), "{text}");
        }
    }
}

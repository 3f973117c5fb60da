//! An HTTP/1.1 client that sends exactly the given bytes, and parses responses strictly (RFC 9112).
//!
//! It blocks, and every read has a deadline. A malformed response is a panic: a header without a
//! colon, a Content-Length with chunks, or a body that ends early if the test does not expect that.
//!
//! `response` parses responses, `socket` wraps sockets and TLS, and `transport` sends single
//! requests over every transport.

mod response;
mod socket;
mod transport;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::time::Instant;

use response::parse;
pub(crate) use response::{TestResponse, find};
pub(crate) use socket::client_config;
use socket::{TestSocket, TestStream};
pub(crate) use transport::{TestTransport, request_head};

use crate::harness::{LIMIT, NAME, TestServer};

/// An HTTP/1.1 connection.
pub(crate) struct TestClient {
    stream: Box<dyn TestStream>,
    socket: TestSocket,
    /// Bytes received and not consumed.
    received: Vec<u8>,
    deadline: Instant,
}

impl TestClient {
    pub(crate) fn connect(server: &TestServer, transport: TestTransport) -> Self {
        match transport {
            TestTransport::Plain => Self::from_tcp(TcpStream::connect(server.plain).unwrap()),
            TestTransport::Unix => {
                let socket = UnixStream::connect(&server.unix).unwrap();
                let stream = Box::new(socket.try_clone().unwrap());
                Self::new(stream, TestSocket::Unix(socket))
            }
            TestTransport::Tls => Self::tls(server.tls),
            TestTransport::Http2 | TestTransport::Http2Tls => {
                panic!("an HTTP/2 transport for an HTTP/1.1 client")
            }
        }
    }

    /// Connects over TCP.
    pub(crate) fn connect_plain(server: &TestServer) -> Self {
        Self::connect(server, TestTransport::Plain)
    }

    /// Wraps a connected socket.
    pub(crate) fn from_tcp(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        let stream = Box::new(socket.try_clone().unwrap());
        Self::new(stream, TestSocket::Tcp(socket))
    }

    fn tls(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(client_config(&[b"http/1.1"]), name).unwrap();
        let stream = StreamOwned::new(connection, socket.try_clone().unwrap());
        Self::new(Box::new(stream), TestSocket::Tcp(socket))
    }

    fn new(stream: Box<dyn TestStream>, socket: TestSocket) -> Self {
        socket.set_timeout(LIMIT).unwrap();
        Self {
            stream,
            socket,
            received: Vec::new(),
            deadline: Instant::now() + LIMIT,
        }
    }

    pub(crate) fn set_deadline(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the server accepts the bytes");
        self
    }

    /// Sends bytes to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Closes the sending half of the connection.
    pub(crate) fn finish(&mut self) {
        self.stream.finish();
        self.socket.shutdown();
    }

    /// Reads more bytes. `Ok(0)`: the server has closed its sending half.
    pub(crate) fn read(&mut self) -> io::Result<usize> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_timeout(remaining)?;
        let mut buffer = [0; 64 << 10];
        let read = self.stream.read(&mut buffer)?;
        self.received.extend_from_slice(&buffer[..read]);
        Ok(read)
    }

    /// Sends a request without a body and reads its response.
    #[track_caller]
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> TestResponse {
        self.send(request_head(method, path, fields));
        self.read_response_to(method)
    }

    /// Reads the response to a GET, or to a method that is answered like one.
    #[track_caller]
    pub(crate) fn read_response(&mut self) -> TestResponse {
        self.read_response_to("GET")
    }

    #[track_caller]
    pub(crate) fn read_response_to(&mut self, method: &str) -> TestResponse {
        let mut response = self.read_head();
        match self.read_body(&response, method) {
            Ok(body) => response.body = body,
            Err((body, error)) => panic!("{} bytes, and then {error}: {response:?}", body.len()),
        }
        response
    }

    #[track_caller]
    pub(crate) fn read_head(&mut self) -> TestResponse {
        match self.read_head_or_end() {
            Some(head) => head,
            None => panic!(
                "no response, but {:?} and the end of the stream",
                self.received.escape_ascii().to_string()
            ),
        }
    }

    /// Reads the head of a response, if there is one before the end.
    pub(crate) fn read_head_or_end(&mut self) -> Option<TestResponse> {
        let end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at;
            }
            if !matches!(self.read(), Ok(1..)) {
                assert!(
                    Instant::now() < self.deadline,
                    "the response head does not end"
                );
                return None;
            }
        };
        let head: Vec<u8> = self.received.drain(..end + 4).collect();
        Some(parse(&head[..end]))
    }

    /// Reads the body of a response. If it ends early, the error has the bytes until then.
    pub(crate) fn read_body(
        &mut self,
        head: &TestResponse,
        method: &str,
    ) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        let is_chunked = head.header("transfer-encoding").is_some();
        let length = head
            .header("content-length")
            .map(|length| length.parse::<usize>().unwrap());
        assert!(!is_chunked || length.is_none(), "{head:?}");
        if method == "HEAD" || matches!(head.status, 100..200 | 204 | 304) {
            return Ok(Vec::new());
        }
        match length {
            Some(length) => self.take(length),
            None if is_chunked => self.read_chunks(),
            None => Ok(self.read_to_end()),
        }
    }

    /// Takes this many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        while self.received.len() < length {
            match self.read() {
                Ok(0) => {
                    return Err((
                        std::mem::take(&mut self.received),
                        io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                Ok(_) => {}
                Err(error) => return Err((std::mem::take(&mut self.received), error)),
            }
        }
        Ok(self.received.drain(..length).collect())
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(&self.received, b"\r\n") {
                    break at;
                }
                match self.read() {
                    Ok(0) => return Err((body, io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => return Err((body, error)),
                }
            };
            let line: Vec<u8> = self.received.drain(..line + 2).collect();
            let digits = std::str::from_utf8(line.trim_ascii_end()).unwrap();
            let length = usize::from_str_radix(digits, 16).expect("a chunk's length");
            match self.take(length + 2) {
                Ok(chunk) => body.extend_from_slice(&chunk[..length]),
                Err((chunk, error)) => {
                    body.extend(chunk);
                    return Err((body, error));
                }
            }
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// Reads everything until the end of the connection, even by a reset.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        loop {
            match self.read() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!(
                    "{:?} and then {error}",
                    self.received.escape_ascii().to_string()
                ),
            }
        }
        std::mem::take(&mut self.received)
    }

    /// Whether nothing has been received, not even the end of the stream.
    pub(crate) fn has_nothing(&mut self) -> bool {
        self.socket.set_timeout(Duration::from_millis(5)).unwrap();
        let read = self.stream.read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            && self.received.is_empty()
    }

    /// Whether the server has closed the connection. Reads what has been received.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.socket.set_timeout(Duration::from_millis(5)).unwrap();
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.received.extend_from_slice(&buffer[..read]);
                read == 0
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Reads until the connection is closed or reset.
    pub(crate) fn read_until_closed(&mut self) -> Vec<u8> {
        while let Ok(1..) = self.read() {}
        assert!(
            Instant::now() < self.deadline,
            "the server did not close the connection"
        );
        std::mem::take(&mut self.received)
    }

    /// Resets the connection: what the server has sent is lost.
    pub(crate) fn reset(self) {
        if let TestSocket::Tcp(socket) = &self.socket {
            let socket = socket2::SockRef::from(socket);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    /// Asserts that nothing more is received and the connection ends.
    #[track_caller]
    pub(crate) fn assert_closed(&mut self) {
        let rest = self.read_to_end();
        assert!(rest.is_empty(), "{:?}", rest.escape_ascii().to_string());
    }
}

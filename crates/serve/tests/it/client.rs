//! An HTTP/1.1 client that sends exactly the given bytes, and parses responses strictly (RFC 9112).
//!
//! It blocks, and every read has a deadline. A malformed response is a panic: a field without a
//! colon, a length beside chunks, a body that ends early unless the test asked for that.
//!
//! `response` parses responses, `socket` wraps sockets and TLS, and `transport` sends single
//! requests over every transport.

mod answer;
mod roads;
mod socket;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::time::Instant;

use answer::parse;
pub(crate) use answer::{TestResponse, find};
pub(crate) use roads::{RequestPathway, request};
pub(crate) use socket::trusting;
use socket::{TestSocket, TestStream};

use crate::harness::{LIMIT, NAME, TestServer};

/// A connection of HTTP/1.1.
pub(crate) struct TestClient {
    stream: Box<dyn TestStream>,
    socket: TestSocket,
    /// Bytes received and not consumed.
    came: Vec<u8>,
    deadline: Instant,
}

impl TestClient {
    /// Connects over a transport.
    pub(crate) fn on(served: &TestServer, road: RequestPathway) -> Self {
        match road {
            RequestPathway::Plain => Self::tcp(TcpStream::connect(served.plain).unwrap()),
            RequestPathway::Unix => {
                let socket = UnixStream::connect(&served.unix).unwrap();
                let stream = Box::new(socket.try_clone().unwrap());
                Self::new(stream, TestSocket::Unix(socket))
            }
            RequestPathway::Tls => Self::tls(served.tls),
            RequestPathway::Http2 | RequestPathway::Http2Tls => {
                panic!("that is no connection of HTTP/1.1")
            }
        }
    }

    /// Connects over TCP.
    pub(crate) fn plain(served: &TestServer) -> Self {
        Self::on(served, RequestPathway::Plain)
    }

    /// Wraps a connected socket.
    pub(crate) fn tcp(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        let stream = Box::new(socket.try_clone().unwrap());
        Self::new(stream, TestSocket::Tcp(socket))
    }

    fn tls(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(trusting(&[b"http/1.1"]), name).unwrap();
        let stream = StreamOwned::new(connection, socket.try_clone().unwrap());
        Self::new(Box::new(stream), TestSocket::Tcp(socket))
    }

    fn new(stream: Box<dyn TestStream>, socket: TestSocket) -> Self {
        socket.wait(LIMIT).unwrap();
        Self {
            stream,
            socket,
            came: Vec::new(),
            deadline: Instant::now() + LIMIT,
        }
    }

    /// Sets the deadline to `limit` from now.
    pub(crate) fn patient(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the server takes what is sent");
        self
    }

    /// Sends bytes to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Closes the sending half.
    pub(crate) fn finish(&mut self) {
        self.stream.finish();
        self.socket.shutdown();
    }

    /// Reads more bytes. `Ok(0)`: the server has closed its sending half.
    pub(crate) fn read(&mut self) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.wait(left)?;
        let mut buffer = [0; 64 << 10];
        let read = self.stream.read(&mut buffer)?;
        self.came.extend_from_slice(&buffer[..read]);
        Ok(read)
    }

    /// Sends a request without a body and reads its response.
    #[track_caller]
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> TestResponse {
        self.send(request(method, path, fields));
        self.answer_to(method)
    }

    /// Reads the response to a GET, or to a method that is answered like one.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> TestResponse {
        self.answer_to("GET")
    }

    /// Reads a whole response.
    #[track_caller]
    pub(crate) fn answer_to(&mut self, method: &str) -> TestResponse {
        let mut answer = self.head();
        match self.body(&answer, method) {
            Ok(body) => answer.body = body,
            Err((body, error)) => panic!("{} bytes, and then {error}: {answer:?}", body.len()),
        }
        answer
    }

    /// Reads the head of a response.
    #[track_caller]
    pub(crate) fn head(&mut self) -> TestResponse {
        match self.head_or_end() {
            Some(head) => head,
            None => panic!(
                "no answer, but {:?} and the end",
                self.came.escape_ascii().to_string()
            ),
        }
    }

    /// Reads the head of a response, if there is one before the end.
    pub(crate) fn head_or_end(&mut self) -> Option<TestResponse> {
        let end = loop {
            if let Some(at) = find(&self.came, b"\r\n\r\n") {
                break at;
            }
            if !matches!(self.read(), Ok(1..)) {
                assert!(Instant::now() < self.deadline, "there is no end");
                return None;
            }
        };
        let head: Vec<u8> = self.came.drain(..end + 4).collect();
        Some(parse(&head[..end]))
    }

    /// Reads the body of a response; if it ends early, the error has what there was.
    pub(crate) fn body(
        &mut self,
        head: &TestResponse,
        method: &str,
    ) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        let is_chunked = head.field("transfer-encoding").is_some();
        let length = head
            .field("content-length")
            .map(|length| length.parse::<usize>().unwrap());
        assert!(!is_chunked || length.is_none(), "{head:?}");
        if method == "HEAD" || matches!(head.status, 100..200 | 204 | 304) {
            return Ok(Vec::new());
        }
        match length {
            Some(length) => self.take(length),
            None if is_chunked => self.chunks(),
            None => Ok(self.rest()),
        }
    }

    /// Takes this many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        while self.came.len() < length {
            match self.read() {
                Ok(0) => {
                    return Err((
                        std::mem::take(&mut self.came),
                        io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                Ok(_) => {}
                Err(error) => return Err((std::mem::take(&mut self.came), error)),
            }
        }
        Ok(self.came.drain(..length).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(&self.came, b"\r\n") {
                    break at;
                }
                match self.read() {
                    Ok(0) => return Err((body, io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => return Err((body, error)),
                }
            };
            let line: Vec<u8> = self.came.drain(..line + 2).collect();
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
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        loop {
            match self.read() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!(
                    "{:?} and then {error}",
                    self.came.escape_ascii().to_string()
                ),
            }
        }
        std::mem::take(&mut self.came)
    }

    /// Whether nothing has been received, not even the end.
    pub(crate) fn has_nothing(&mut self) -> bool {
        self.socket.wait(Duration::from_millis(5)).unwrap();
        let read = self.stream.read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && self.came.is_empty()
    }

    /// Whether the server has closed the connection. Reads what has been received.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.socket.wait(Duration::from_millis(5)).unwrap();
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.came.extend_from_slice(&buffer[..read]);
                read == 0
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Reads until the connection has ended, in whatever way.
    pub(crate) fn until_gone(&mut self) -> Vec<u8> {
        while let Ok(1..) = self.read() {}
        assert!(Instant::now() < self.deadline, "the server never went");
        std::mem::take(&mut self.came)
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
    pub(crate) fn ends(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", rest.escape_ascii().to_string());
    }
}

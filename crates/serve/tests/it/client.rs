//! A client that sends what it is told to, byte by byte if need be, and reads answers by the letter of RFC 9112.
//!
//! It blocks, since its tests do nothing else meanwhile, and every read ends at a deadline. What is wrong with an answer is a panic:
//! a field without a colon, a length beside chunks, a body that ends too early unless that was what was asked about.
//!
//! `answer` is what it reads, `socket` what it reads from, and `roads` are the ways to ask once, of both versions of HTTP.

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
    /// What came and was not taken.
    came: Vec<u8>,
    deadline: Instant,
}

impl TestClient {
    /// Connects.
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

    /// Over TCP.
    pub(crate) fn plain(served: &TestServer) -> Self {
        Self::on(served, RequestPathway::Plain)
    }

    /// On a socket that is connected.
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

    /// Waits that much longer, from now.
    pub(crate) fn patient(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the server takes what is sent");
        self
    }

    /// Sends bytes to somebody who may have gone.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&mut self) {
        self.stream.finish();
        self.socket.shutdown();
    }

    /// Reads some more. `Ok(0)`: the server sends no more.
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

    /// Sends a request without a body and reads its answer.
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

    /// Reads the answer to a GET, or to what is answered like one.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> TestResponse {
        self.answer_to("GET")
    }

    /// Reads an answer, whole.
    #[track_caller]
    pub(crate) fn answer_to(&mut self, method: &str) -> TestResponse {
        let mut answer = self.head();
        match self.body(&answer, method) {
            Ok(body) => answer.body = body,
            Err((body, error)) => panic!("{} bytes, and then {error}: {answer:?}", body.len()),
        }
        answer
    }

    /// Reads an answer's head.
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

    /// Reads an answer's head, if there is one before the end.
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

    /// Reads an answer's body; of one that breaks off, what there was.
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

    /// Takes so many bytes.
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

    /// Everything until the end, however that comes.
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

    /// Nothing has come by now, not even the end.
    pub(crate) fn has_nothing(&mut self) -> bool {
        self.socket.wait(Duration::from_millis(5)).unwrap();
        let read = self.stream.read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && self.came.is_empty()
    }

    /// Whether the server has gone, or says that it does. Takes what has come by now.
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

    /// Everything until the server has gone, in whatever way.
    pub(crate) fn until_gone(&mut self) -> Vec<u8> {
        while let Ok(1..) = self.read() {}
        assert!(Instant::now() < self.deadline, "the server never went");
        std::mem::take(&mut self.came)
    }

    /// Goes with a reset: what the server has sent is not taken.
    pub(crate) fn reset(self) {
        if let TestSocket::Tcp(socket) = &self.socket {
            let socket = socket2::SockRef::from(socket);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    /// Nothing more comes, and the connection ends.
    #[track_caller]
    pub(crate) fn ends(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", rest.escape_ascii().to_string());
    }
}

//! A client that sends what it is told to, byte by byte if need be, and reads answers by the letter of RFC 9112.
//!
//! It blocks, since its tests do nothing else meanwhile, and every read ends at a deadline. What is wrong with an answer is a panic:
//! a field without a colon, a length beside chunks, a body that ends too early unless that was what was asked about.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::time::Instant;

use crate::harness::{LIMIT, NAME, Served, certified};
use crate::http2;

/// How a request gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    /// HTTP/1.1 over TCP: the kernel sends files.
    Plain,
    /// The same over a unix socket.
    Unix,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 by prior knowledge.
    Http2,
    /// HTTP/2 over TLS, by ALPN.
    Http2Tls,
}

impl Road {
    pub(crate) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Unix,
        Self::Tls,
        Self::Http2,
        Self::Http2Tls,
    ];

    /// Those of HTTP/1.1.
    pub(crate) const FIRST: [Self; 3] = [Self::Plain, Self::Unix, Self::Tls];
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The one field of a name.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(
            found.next().is_none(),
            "{name} is there twice: {:?}",
            self.fields
        );
        value
    }

    /// Its body, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Its entity tag, which it must have.
    #[track_caller]
    pub(crate) fn tag(&self) -> &str {
        self.field("etag").expect("an entity tag")
    }
}

/// A connection of HTTP/1.1.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    socket: Socket,
    /// What came and was not taken.
    came: Vec<u8>,
    deadline: Instant,
}

trait Stream: Read + Write + Send {
    /// Says within the protocol that nothing more will be sent.
    fn finish(&mut self) {}
}

impl Stream for TcpStream {}
impl Stream for UnixStream {}
impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn finish(&mut self) {
        self.conn.send_close_notify();
        // Whoever has gone need not be told.
        let _ = self.flush();
    }
}

/// Below TLS.
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn wait(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket
                .set_read_timeout(Some(limit))
                .and_then(|()| socket.set_write_timeout(Some(limit))),
            Self::Unix(socket) => socket
                .set_read_timeout(Some(limit))
                .and_then(|()| socket.set_write_timeout(Some(limit))),
        }
    }

    fn shutdown(&self) {
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }
}

impl Client {
    /// Connects.
    pub(crate) fn on(served: &Served, road: Road) -> Self {
        match road {
            Road::Plain => Self::tcp(TcpStream::connect(served.plain).unwrap()),
            Road::Unix => {
                let socket = UnixStream::connect(&served.unix).unwrap();
                let stream = Box::new(socket.try_clone().unwrap());
                Self::new(stream, Socket::Unix(socket))
            }
            Road::Tls => Self::tls(served.tls),
            Road::Http2 | Road::Http2Tls => panic!("that is no connection of HTTP/1.1"),
        }
    }

    /// Over TCP.
    pub(crate) fn plain(served: &Served) -> Self {
        Self::on(served, Road::Plain)
    }

    /// On a socket that is connected.
    pub(crate) fn tcp(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        let stream = Box::new(socket.try_clone().unwrap());
        Self::new(stream, Socket::Tcp(socket))
    }

    fn tls(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(trusting(&[b"http/1.1"]), name).unwrap();
        let stream = StreamOwned::new(connection, socket.try_clone().unwrap());
        Self::new(Box::new(stream), Socket::Tcp(socket))
    }

    fn new(stream: Box<dyn Stream>, socket: Socket) -> Self {
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
    pub(crate) fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send(request(method, path, fields));
        self.answer_to(method)
    }

    /// Reads the answer to a GET, or to what is answered like one.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// Reads an answer, whole.
    #[track_caller]
    pub(crate) fn answer_to(&mut self, method: &str) -> Answer {
        let mut answer = self.head();
        match self.body(&answer, method) {
            Ok(body) => answer.body = body,
            Err((body, error)) => panic!("{} bytes, and then {error}: {answer:?}", body.len()),
        }
        answer
    }

    /// Reads an answer's head.
    #[track_caller]
    pub(crate) fn head(&mut self) -> Answer {
        match self.head_or_end() {
            Some(head) => head,
            None => panic!(
                "no answer, but {:?} and the end",
                self.came.escape_ascii().to_string()
            ),
        }
    }

    /// Reads an answer's head, if there is one before the end.
    pub(crate) fn head_or_end(&mut self) -> Option<Answer> {
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
        head: &Answer,
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
        if let Socket::Tcp(socket) = &self.socket {
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

impl Served {
    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(
        &self,
        road: Road,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        match road {
            Road::Plain | Road::Unix | Road::Tls => {
                Client::on(self, road).ask(method, path, fields)
            }
            Road::Http2 | Road::Http2Tls => {
                let asked = http2::Asked {
                    method,
                    path,
                    fields,
                    body: None,
                };
                http2::ask(self, road, &asked).unwrap()
            }
        }
    }

    /// A GET on a connection of its own.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(Road::Plain, "GET", path, &[])
    }

    /// Puts on a connection of its own.
    #[track_caller]
    pub(crate) fn put(
        &self,
        road: Road,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        if matches!(road, Road::Http2 | Road::Http2Tls) {
            let (method, body) = ("PUT", Some(body));
            let asked = http2::Asked {
                method,
                path,
                fields,
                body,
            };
            return http2::ask(self, road, &asked).unwrap();
        }
        let length = body.len().to_string();
        let mut fields = fields.to_vec();
        fields.push(("Content-Length", &length));
        let mut client = Client::on(self, road);
        client.send(request("PUT", path, &fields)).send(body);
        client.answer_to("PUT")
    }
}

/// A request's head.
pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: String = lines.collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{lines}\r\n")
}

/// What a client with TLS trusts and offers.
pub(crate) fn trusting(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = certified().0.pem();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Where a part of some bytes begins.
pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[track_caller]
fn parse(head: &[u8]) -> Answer {
    let head = std::str::from_utf8(head).expect("an answer's head is text");
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .strip_prefix("HTTP/1.1 ")
        .expect("HTTP/1.1");
    assert_eq!(status.as_bytes().get(3), Some(&b' '), "{status}");
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").expect("a name and a value");
        assert!(!name.contains(' ') && value.trim() == value, "{line:?}");
        (name.to_ascii_lowercase(), value.to_owned())
    });
    Answer {
        status: status[..3].parse().unwrap(),
        fields: fields.collect(),
        body: Vec::new(),
    }
}

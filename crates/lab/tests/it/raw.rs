//! A client with a raw socket: it sends any bytes, and reports exactly how a response ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The time limit of an exchange.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The state of a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The response is complete, and the connection seems to be open.
    Open,
    Closed,
    Reset,
}

/// A response, read by its framing.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body was complete by its framing.
    pub(crate) complete: bool,
    pub(crate) end: ConnectionEnd,
}

impl RawResponse {
    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    /// The value of a field, by its name as it was written.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// A connection to a server of this crate.
#[derive(Debug)]
pub(crate) struct RawConnection<S> {
    pub(crate) stream: S,
    /// Bytes that were read and are not yet used.
    pub(crate) buffer: Vec<u8>,
}

impl RawConnection<TcpStream> {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawConnection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request with these header lines.
    pub(crate) async fn send_request(&mut self, line: &str, fields: &[&str]) {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
            .await;
    }

    /// Sends a request and reads the response.
    pub(crate) async fn exchange(&mut self, line: &str, fields: &[&str]) -> RawResponse {
        self.send_request(line, fields).await;
        within(LIMIT, self.read_response(line.starts_with("HEAD"))).await
    }

    pub(crate) async fn read_response(&mut self, headless: bool) -> RawResponse {
        let mut response = RawResponse {
            head: String::new(),
            body: Vec::new(),
            complete: false,
            end: ConnectionEnd::Open,
        };
        match self.head_or_end().await {
            Ok(head) => response.head = head,
            Err(end) => {
                response.end = end;
                return response;
            }
        }
        if headless || response.status() == 304 {
            response.complete = true;
        } else if response.field("Transfer-Encoding") == Some("chunked") {
            self.chunks(&mut response).await;
        } else if let Some(length) = response.field("Content-Length") {
            let length = length.parse().unwrap();
            response.end = self.fill(length).await;
            let length = length.min(self.buffer.len());
            response.complete = response.end == ConnectionEnd::Open;
            response.body = self.buffer.drain(..length).collect();
        } else {
            (response.body, response.end) = self.rest().await;
            response.complete = response.end == ConnectionEnd::Closed;
        }
        response
    }

    /// Reads up to the end of a head, if there is one.
    pub(crate) async fn head(&mut self) -> Option<String> {
        within(LIMIT, self.head_or_end()).await.ok()
    }

    async fn head_or_end(&mut self) -> Result<String, ConnectionEnd> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect();
                return Ok(String::from_utf8(head).unwrap());
            }
            if let Some(end) = self.more().await {
                return Err(end);
            }
        }
    }

    async fn chunks(&mut self, response: &mut RawResponse) {
        loop {
            let line = loop {
                if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                    let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                    break String::from_utf8(line).unwrap();
                }
                if let Some(end) = self.more().await {
                    response.end = end;
                    return;
                }
            };
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            response.end = self.fill(size + 2).await;
            if response.end != ConnectionEnd::Open {
                return;
            }
            response.body.extend(self.buffer.drain(..size));
            assert!(self.buffer.drain(..2).eq(*b"\r\n"));
            if size == 0 {
                response.complete = true;
                return;
            }
        }
    }

    /// Reads until the buffer has so many bytes, or the connection ends.
    pub(crate) async fn fill(&mut self, length: usize) -> ConnectionEnd {
        while self.buffer.len() < length {
            if let Some(end) = self.more().await {
                return end;
            }
        }
        ConnectionEnd::Open
    }

    /// Reads to the end of the connection.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, ConnectionEnd) {
        let end = within(LIMIT, async {
            loop {
                if let Some(end) = self.more().await {
                    break end;
                }
            }
        })
        .await;
        (std::mem::take(&mut self.buffer), end)
    }

    /// Whether nothing arrives for a while, and the connection stays open.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let time = Duration::from_millis(60);
        tokio::time::timeout(time, self.more()).await.is_err()
    }

    /// Reads the next bytes. Returns how the connection ended, if it did.
    async fn more(&mut self) -> Option<ConnectionEnd> {
        self.buffer.reserve(1 << 16);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Some(ConnectionEnd::Closed),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Some(ConnectionEnd::Reset)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The path of the resource of [`serve`].
pub(crate) const PATH: &str = "/f.bin";

/// An origin with one resource. A request for another path fails the test.
pub(crate) async fn serve(resource: OriginResource) -> Origin {
    let builder = Origin::builder().strict().resource(PATH, resource);
    builder.start().await
}

/// Requests the resource over a new connection.
pub(crate) async fn get(origin: &Origin, fields: &[&str]) -> RawResponse {
    RawConnection::to(origin.address())
        .await
        .exchange(&format!("GET {PATH}"), fields)
        .await
}

/// A little more than one chunk of the origin.
pub(crate) fn content() -> ResourceContent {
    ResourceContent::random(3, 300_001)
}

pub(crate) fn part(range: std::ops::Range<u64>) -> Vec<u8> {
    content().slice(range)
}

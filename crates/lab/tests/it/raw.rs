//! A client that looks at bytes: it sends what it is told, and says exactly how an answer ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// No conversation takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// How a connection was left by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The answer is complete and the connection open, as far as can be told.
    Open,
    /// The peer has closed in order.
    Closed,
    /// The peer has reset.
    Reset,
}

/// An answer, read as its framing says.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The body was as long as its framing says.
    pub(crate) complete: bool,
    pub(crate) end: ConnectionEnd,
}

impl RawResponse {
    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    /// A field's value, by its name as it was written.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// A connection to a double.
#[derive(Debug)]
pub(crate) struct RawConnection<S> {
    pub(crate) stream: S,
    /// Read and not yet used.
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
    pub(crate) async fn request(&mut self, line: &str, fields: &[&str]) {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
            .await;
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn ask(&mut self, line: &str, fields: &[&str]) -> RawResponse {
        self.request(line, fields).await;
        within(LIMIT, self.answer(line.starts_with("HEAD"))).await
    }

    /// Reads one answer.
    pub(crate) async fn answer(&mut self, headless: bool) -> RawResponse {
        let mut answer = RawResponse {
            head: String::new(),
            body: Vec::new(),
            complete: false,
            end: ConnectionEnd::Open,
        };
        match self.head_or_end().await {
            Ok(head) => answer.head = head,
            Err(end) => {
                answer.end = end;
                return answer;
            }
        }
        if headless || answer.status() == 304 {
            answer.complete = true;
        } else if answer.field("Transfer-Encoding") == Some("chunked") {
            self.chunks(&mut answer).await;
        } else if let Some(length) = answer.field("Content-Length") {
            let length = length.parse().unwrap();
            answer.end = self.fill(length).await;
            let length = length.min(self.buffer.len());
            answer.complete = answer.end == ConnectionEnd::Open;
            answer.body = self.buffer.drain(..length).collect();
        } else {
            (answer.body, answer.end) = self.rest().await;
            answer.complete = answer.end == ConnectionEnd::Closed;
        }
        answer
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

    async fn chunks(&mut self, answer: &mut RawResponse) {
        loop {
            let line = loop {
                if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                    let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                    break String::from_utf8(line).unwrap();
                }
                if let Some(end) = self.more().await {
                    answer.end = end;
                    return;
                }
            };
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            answer.end = self.fill(size + 2).await;
            if answer.end != ConnectionEnd::Open {
                return;
            }
            answer.body.extend(self.buffer.drain(..size));
            assert!(self.buffer.drain(..2).eq(*b"\r\n"));
            if size == 0 {
                answer.complete = true;
                return;
            }
        }
    }

    /// Reads until so many bytes are in the buffer, or it ends.
    pub(crate) async fn fill(&mut self, length: usize) -> ConnectionEnd {
        while self.buffer.len() < length {
            if let Some(end) = self.more().await {
                return end;
            }
        }
        ConnectionEnd::Open
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, ConnectionEnd) {
        let end = within(LIMIT, async {
            loop {
                if let Some(end) = self.more().await {
                    break end;
                }
            }
        });
        let end = end.await;
        (std::mem::take(&mut self.buffer), end)
    }

    /// Nothing comes for a while, and the connection is still there.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let time = Duration::from_millis(60);
        tokio::time::timeout(time, self.more()).await.is_err()
    }

    /// Reads what there is; how it ended, if it did.
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

/// Where [`serve`] has its resource.
pub(crate) const PATH: &str = "/f.bin";

/// An origin with one resource; another path breaks the test.
pub(crate) async fn serve(resource: OriginResource) -> Origin {
    let builder = Origin::builder().strict().resource(PATH, resource);
    builder.start().await
}

/// Asks for the resource over a connection of its own.
pub(crate) async fn get(origin: &Origin, fields: &[&str]) -> RawResponse {
    RawConnection::to(origin.address())
        .await
        .ask(&format!("GET {PATH}"), fields)
        .await
}

/// A little more than one piece of the origin's.
pub(crate) fn content() -> ResourceContent {
    ResourceContent::random(3, 300_001)
}

/// Part of it.
pub(crate) fn part(range: std::ops::Range<u64>) -> Vec<u8> {
    content().slice(range)
}

//! A minimal HTTP/1.1 client, which knows how much of a request was sent when the server is killed.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A running server responds within this, also on a busy machine.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of a chunk.
const CHUNK: usize = 30_000;

pub(super) struct SoakConnection(BufReader<TcpStream>);

/// How a body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEncoding {
    /// With a Content-Length.
    Length,
    Chunked,
    /// With a Content-Length and fewer bytes.
    LengthCut(usize),
    /// In chunks, without the last chunk.
    ChunkedCut(usize),
}

pub(super) struct SoakRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) fields: String,
    pub(super) body: Option<(&'a [u8], BodyEncoding)>,
}

/// A complete response.
#[derive(Debug)]
pub(super) struct SoakResponse {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SoakRequestError {
    /// The request was not sent completely.
    Unsent(io::Error),
    /// The request was sent, or the part of it that should be sent, but no response was read.
    Unanswered(io::Error),
}

impl SoakConnection {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SOCKET_TIMEOUT))?;
        stream.set_write_timeout(Some(SOCKET_TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request and reads its response. Returns the connection if it can be used again.
    pub(super) fn exchange(
        mut self,
        request: &SoakRequest<'_>,
    ) -> Result<(SoakResponse, Option<Self>), SoakRequestError> {
        if let Err(error) = self.send(request) {
            // The server may have responded before it had read the whole request.
            return match self.read_response(request.method) {
                Ok(answer) => Ok((answer, None)),
                Err(_) => Err(SoakRequestError::Unsent(error)),
            };
        }
        let answer = self
            .read_response(request.method)
            .map_err(SoakRequestError::Unanswered)?;
        let keep_alive = answer.field("connection") != Some("close");
        Ok((answer, keep_alive.then_some(self)))
    }

    /// Sends a request with an incomplete body, and closes the connection.
    pub(super) fn abandon(mut self, request: &SoakRequest<'_>) {
        // The server may have closed the connection before.
        let _ = self.send(request);
        let _ = self.0.get_ref().shutdown(Shutdown::Both);
    }

    /// Sends a request, reads the beginning of its response, and closes the connection.
    pub(super) fn read_head_and_drop(mut self, request: &SoakRequest<'_>, most: usize) {
        if self.send(request).is_ok() {
            let mut some = vec![0; most];
            let _ = self.0.read(&mut some);
        }
    }

    fn send(&mut self, request: &SoakRequest<'_>) -> io::Result<()> {
        let SoakRequest {
            method,
            path,
            fields,
            body,
        } = request;
        let framing = match body {
            None => String::new(),
            Some((_, BodyEncoding::Chunked | BodyEncoding::ChunkedCut(_))) => {
                "Transfer-Encoding: chunked\r\n".to_owned()
            }
            Some((body, _)) => format!("Content-Length: {}\r\n", body.len()),
        };
        let stream = self.0.get_mut();
        let head = format!("{method} /{path} HTTP/1.1\r\nHost: soak\r\n{fields}{framing}\r\n");
        stream.write_all(head.as_bytes())?;
        match *body {
            None => Ok(()),
            Some((body, BodyEncoding::Length)) => stream.write_all(body),
            Some((body, BodyEncoding::LengthCut(end))) => stream.write_all(&body[..end]),
            Some((body, BodyEncoding::ChunkedCut(end))) => chunks(stream, &body[..end]),
            Some((body, BodyEncoding::Chunked)) => {
                chunks(stream, body)?;
                stream.write_all(b"0\r\n\r\n")
            }
        }
    }

    fn read_response(&mut self, method: &str) -> io::Result<SoakResponse> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut answer = SoakResponse {
            status: status.unwrap_or_else(|| panic!("no answer: {head}")),
            head,
            body: Vec::new(),
        };
        if method != "HEAD" && !matches!(answer.status, 204 | 304) {
            let length = answer
                .field("content-length")
                .and_then(|length| length.parse().ok());
            answer.body = vec![0; length.unwrap_or_else(|| panic!("no length: {answer:?}"))];
            self.0.read_exact(&mut answer.body)?;
        }
        Ok(answer)
    }
}

impl SoakResponse {
    /// The value of a header field, by its name in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

fn chunks(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    for chunk in body.chunks(CHUNK) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
        stream.write_all(chunk)?;
        stream.write_all(b"\r\n")?;
    }
    Ok(())
}

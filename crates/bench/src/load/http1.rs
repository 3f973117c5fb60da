//! A client of HTTP/1.1 that does no more than a load needs: a head that is bytes already, a response whose body is counted and dropped.
//!
//! Bodies end by Content-Length, by chunks or by the end of the connection (RFC 9112 6). Heads are limited by the buffer, which the slot
//! lends to each exchange; a response of one read costs two reads of the clock and no allocation.

use std::io;
use std::mem::MaybeUninit;

use haul_plan::{ChunkedDecoder, ChunkedPart};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::connect::LoadStream;
use super::outcome::{ExchangeFailure, LoadFailure, LoadResponse, ResponseHead};

/// The most bytes of a head, and of a read.
const RESPONSE_BUFFER: usize = 64 * 1024;
/// The most header fields of a response.
const MAX_FIELDS: usize = 128;
/// A body of this length goes out in one write with its head.
const JOINED_BODY: u64 = 16 * 1024;

/// The buffers of a slot, used by all its connections.
pub(super) struct Http1Buffers {
    /// The head of the request.
    pub(super) request: Vec<u8>,
    /// What was read.
    response: Box<[u8]>,
}

/// The head of a response, and how the message goes on.
#[derive(Debug)]
struct FramedHead {
    head: ResponseHead,
    /// Its length.
    bytes: usize,
    framing: BodyEnd,
    keeps_connection: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Length(u64),
    Chunks,
    Close,
}

impl Http1Buffers {
    pub(super) fn new() -> Self {
        Self {
            request: Vec::new(),
            response: vec![0; RESPONSE_BUFFER].into(),
        }
    }
}

/// Sends the request whose head is in the buffer, with a body of this length, which repeats the bytes. Reads the response.
pub(super) async fn exchange(
    stream: &mut dyn LoadStream,
    buffers: &mut Http1Buffers,
    bytes: &[u8],
    length: u64,
) -> Result<LoadResponse, ExchangeFailure> {
    let sent = send(stream, &mut buffers.request, bytes, length).await;
    let mut reader = ResponseReader {
        stream,
        buffer: &mut buffers.response,
        at: 0,
        filled: 0,
        reads: 0,
    };
    let response = reader.read_response().await;
    match (sent, response) {
        (Ok(()), response) => response,
        // The server had enough of the body, and said why before it closed the connection.
        (Err(_), Ok(response)) => Ok(LoadResponse {
            keeps_connection: false,
            ..response
        }),
        (Err(error), Err(failure)) => Err(ExchangeFailure {
            kind: error.into(),
            ..failure
        }),
    }
}

async fn send(
    stream: &mut dyn LoadStream,
    head: &mut Vec<u8>,
    bytes: &[u8],
    length: u64,
) -> io::Result<()> {
    let piece = |left: u64| &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
    let joined = piece(length.min(JOINED_BODY));
    head.extend_from_slice(joined);
    stream.write_all(head).await?;
    let mut left = length - joined.len() as u64;
    while left > 0 {
        let piece = piece(left);
        stream.write_all(piece).await?;
        left -= piece.len() as u64;
    }
    stream.flush().await
}

struct ResponseReader<'a> {
    stream: &'a mut dyn LoadStream,
    buffer: &'a mut [u8],
    /// `at..filled` of the buffer was read and not used.
    at: usize,
    filled: usize,
    /// How often something was read.
    reads: u64,
}

impl ResponseReader<'_> {
    async fn read_response(&mut self) -> Result<LoadResponse, ExchangeFailure> {
        let first = self.fill_head().await;
        first.map_err(|kind| ExchangeFailure {
            kind,
            is_before_response: true,
        })?;
        let first_byte = Instant::now();
        let framed = loop {
            let framed = self.read_head().await?;
            self.at += framed.bytes;
            if framed.head.status >= 200 {
                break framed;
            }
        };
        let body_bytes = match framed.framing {
            BodyEnd::Length(length) => self.skip(length).await.map(|()| length)?,
            BodyEnd::Chunks => self.read_chunks().await?,
            BodyEnd::Close => self.read_to_close().await?,
        };
        Ok(LoadResponse {
            head: framed.head,
            body_bytes,
            first_byte,
            // A response that came with one read ended when it began.
            end: if self.reads > 1 {
                Instant::now()
            } else {
                first_byte
            },
            // Bytes after the response are no response to anything.
            keeps_connection: framed.keeps_connection && self.at == self.filled,
        })
    }

    async fn read_head(&mut self) -> Result<FramedHead, LoadFailure> {
        loop {
            if let Some(head) = parse_head(&self.buffer[self.at..self.filled])? {
                return Ok(head);
            }
            if self.filled - self.at == self.buffer.len() {
                return Err(LoadFailure::InvalidResponse);
            }
            self.fill_head().await?;
        }
    }

    /// Reads more of the response behind what is there. 0 is the end of the connection.
    async fn fill(&mut self) -> io::Result<usize> {
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
        } else if self.filled == self.buffer.len() {
            self.buffer.copy_within(self.at..self.filled, 0);
            (self.at, self.filled) = (0, self.filled - self.at);
        }
        let count = self.stream.read(&mut self.buffer[self.filled..]).await?;
        self.filled += count;
        self.reads += 1;
        Ok(count)
    }

    async fn fill_head(&mut self) -> Result<(), LoadFailure> {
        match self.fill().await? {
            0 => Err(LoadFailure::Closed),
            _ => Ok(()),
        }
    }

    async fn fill_body(&mut self) -> Result<(), LoadFailure> {
        match self.fill().await? {
            0 => Err(LoadFailure::TruncatedBody),
            _ => Ok(()),
        }
    }

    /// Uses so many bytes, reading them if they are not there.
    async fn skip(&mut self, mut count: u64) -> Result<(), LoadFailure> {
        loop {
            let there = (self.filled - self.at).min(usize::try_from(count).unwrap_or(usize::MAX));
            self.at += there;
            count -= there as u64;
            if count == 0 {
                return Ok(());
            }
            self.fill_body().await?;
        }
    }

    async fn read_to_close(&mut self) -> Result<u64, LoadFailure> {
        let mut total = 0;
        loop {
            total += (self.filled - self.at) as u64;
            self.at = self.filled;
            if self.fill().await? == 0 {
                return Ok(total);
            }
        }
    }

    async fn read_chunks(&mut self) -> Result<u64, LoadFailure> {
        let mut chunks = ChunkedDecoder::default();
        let mut total = 0;
        loop {
            let received = &self.buffer[self.at..self.filled];
            let read = chunks.read_framing(received);
            let (framing, part) = read.map_err(|_| LoadFailure::InvalidResponse)?;
            self.at += framing;
            match part {
                ChunkedPart::Data(length) => {
                    self.at += length;
                    total += length as u64;
                }
                ChunkedPart::NeedsMore => self.fill_body().await?,
                ChunkedPart::End => return Ok(total),
            }
        }
    }
}

/// Parses a response's head; `None` if it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<FramedHead>, LoadFailure> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, bytes, &mut fields)
        .map_err(|_| LoadFailure::InvalidResponse)?;
    let httparse::Status::Complete(length) = parsed else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let mut framed = FramedHead {
        head: ResponseHead {
            status,
            ..ResponseHead::default()
        },
        bytes: length,
        framing: BodyEnd::Close,
        keeps_connection: response.version == Some(1),
    };
    let mut is_chunked = false;
    for field in response.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let length = BodyEnd::Length(parse_length(field.value)?);
            if framed.framing != BodyEnd::Close && framed.framing != length {
                return Err(LoadFailure::InvalidResponse);
            }
            framed.framing = length;
        } else if is("transfer-encoding") {
            is_chunked = has_token(field.value, "chunked");
        } else if is("connection") && has_token(field.value, "close") {
            framed.keeps_connection = false;
        } else {
            framed.head.add_field(field.name, field.value);
        }
    }
    if is_chunked {
        framed.framing = BodyEnd::Chunks;
    }
    match status {
        // Nobody asked for another protocol.
        0..100 | 101 => return Err(LoadFailure::InvalidResponse),
        100..200 | 204 | 304 => framed.framing = BodyEnd::Length(0),
        _ => {}
    }
    framed.keeps_connection &= framed.framing != BodyEnd::Close;
    Ok(Some(framed))
}

fn parse_length(value: &[u8]) -> Result<u64, LoadFailure> {
    let text = std::str::from_utf8(value).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = text.and_then(|text| text.parse().ok());
    length.ok_or(LoadFailure::InvalidResponse)
}

/// Whether a comma-separated value has a token.
fn has_token(value: &[u8], token: &str) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

//! Decodes aws-chunked: chunks with their lengths and, if they are signed, their signatures, and
//! fields that follow the last one (S3 API reference, "Transferring Payload in Multiple Chunks",
//! "Including Trailing Headers").
//!
//! ```text
//! SIZE[;chunk-signature=HEX] CRLF data CRLF ... 0[;chunk-signature=HEX] CRLF
//! [name:value CRLF ... [x-amz-trailer-signature:HEX CRLF]] CRLF
//! ```
//!
//! This takes bytes as they arrive and does no I/O. Decoded bytes are slices of the input: nothing
//! is copied, and no chunk is held, however long it is. A chunk's signature is compared when the
//! chunk ends, before its last bytes are given out, so a body is whole and right once
//! [`finish`](AwsChunkedDecoder::finish) has returned.

use bytes::{Buf as _, Bytes};
use sha2::{Digest as _, Sha256};

use crate::{ChunkSignatures, S3ErrorCode, S3Failure, StreamingPayload};

/// Maximum bytes of the line before a chunk: a length and a signature take a hundred.
const MAX_LINE: usize = 1024;

/// Maximum bytes after the last chunk.
const MAX_TRAILER: usize = 8 << 10;

/// Minimum bytes of every chunk but the last one that has any.
const MIN_CHUNK: u64 = 8192;

/// What may stand around the name and the value of a field.
const BLANKS: [char; 2] = [' ', '\t'];

/// A field that follows the body, its name in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrailerField {
    pub name: String,
    /// The value, without blanks around it.
    pub value: String,
}

#[derive(Debug)]
pub(crate) struct AwsChunkedDecoder {
    signatures: Option<ChunkSignatures>,
    has_trailer: bool,
    /// Bytes that the whole body must have.
    expected_len: u64,
    /// Bytes of the chunks that have begun.
    announced_len: u64,
    /// Length of the chunk before, and how many chunks there were.
    last_chunk: u64,
    chunks: u64,
    state: ChunkState,
    /// The part of a line, or of the trailer, that has arrived.
    line: Vec<u8>,
}

/// What comes next.
#[derive(Debug)]
enum ChunkState {
    /// The line before a chunk.
    Line,
    /// Bytes of a chunk.
    Data {
        left: u64,
        /// Hashes the chunk, if it is signed.
        signed: Option<SignedChunk>,
    },
    /// The line end after a chunk.
    LineEnd,
    /// What follows the last chunk.
    Trailer,
}

/// A chunk whose signature is compared at its end.
#[derive(Debug)]
struct SignedChunk {
    hasher: Sha256,
    signature: String,
}

impl AwsChunkedDecoder {
    /// Decodes a body that has `expected_len` bytes once it is decoded.
    pub(crate) fn new(payload: StreamingPayload, expected_len: u64) -> Self {
        Self {
            signatures: payload.signatures,
            has_trailer: payload.has_trailer,
            expected_len,
            announced_len: 0,
            last_chunk: 0,
            chunks: 0,
            state: ChunkState::Line,
            line: Vec::new(),
        }
    }

    /// Takes bytes from the front of `input` and returns the next decoded ones; `None` once it has
    /// taken all.
    ///
    /// # Errors
    /// The body is malformed, too long, or a chunk's signature is wrong. Nothing more can be
    /// decoded then.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, S3Failure> {
        while !input.is_empty() {
            match &mut self.state {
                ChunkState::Line => {
                    if take_line(&mut self.line, input)? {
                        self.begin_chunk()?;
                    }
                }
                ChunkState::Data { left, signed } => {
                    let max = usize::try_from(*left).unwrap_or(usize::MAX);
                    let data = input.split_to(max.min(input.len()));
                    *left -= data.len() as u64;
                    if let Some(signed) = signed {
                        signed.hasher.update(&data);
                    }
                    if *left == 0 {
                        self.end_chunk()?;
                    }
                    return Ok(Some(data));
                }
                ChunkState::LineEnd => {
                    let expected = if self.line.is_empty() { b'\r' } else { b'\n' };
                    if input.get_u8() != expected {
                        return Err(malformed());
                    }
                    self.line.push(expected);
                    if expected == b'\n' {
                        self.line.clear();
                        self.state = ChunkState::Line;
                    }
                }
                ChunkState::Trailer => {
                    if self.line.len() + input.len() > MAX_TRAILER {
                        return Err(S3ErrorCode::MalformedTrailerError.into());
                    }
                    self.line.extend_from_slice(input);
                    input.clear();
                }
            }
        }
        Ok(None)
    }

    /// Checks the end of the body, and returns the fields that follow it.
    ///
    /// # Errors
    /// The body is shorter than announced, the trailer is malformed, or its signature is wrong.
    pub(crate) fn finish(mut self) -> Result<Vec<TrailerField>, S3Failure> {
        if !matches!(self.state, ChunkState::Trailer) {
            return Err(malformed());
        }
        let malformed = || S3Failure::new(S3ErrorCode::MalformedTrailerError);
        let (mut fields, signature) = parse_trailer(&self.line)?;
        fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if fields.windows(2).any(|two| two[0].name == two[1].name)
            || !self.has_trailer && !fields.is_empty()
        {
            return Err(malformed());
        }
        match (&mut self.signatures, signature) {
            (Some(signatures), Some(signature)) if self.has_trailer => {
                let lines = fields
                    .iter()
                    .map(|field| [&*field.name, ":", &field.value, "\n"]);
                let text: String = lines.flatten().collect();
                signatures.verify_trailer(&text, &signature)?;
            }
            (Some(_), None) if self.has_trailer => return Err(malformed()),
            (_, Some(_)) => return Err(malformed()),
            (_, None) => {}
        }
        Ok(fields)
    }

    /// Begins the chunk of a complete line.
    fn begin_chunk(&mut self) -> Result<(), S3Failure> {
        let received = std::mem::take(&mut self.line);
        let line = received.strip_suffix(b"\r\n").ok_or_else(malformed)?;
        let line = str::from_utf8(line).map_err(|_| malformed())?;
        let (size, extension) = line.split_once(';').unwrap_or((line, ""));
        let size = parse_size(size)?;
        self.chunks += 1;
        if size > 0 && self.chunks > 1 && self.last_chunk < MIN_CHUNK {
            return Err(S3Failure::new(S3ErrorCode::InvalidChunkSizeError)
                .element("Chunk", self.chunks.to_string())
                .element("BadChunkSize", self.last_chunk.to_string()));
        }
        self.last_chunk = size;
        self.announced_len = self
            .announced_len
            .checked_add(size)
            .filter(|length| *length <= self.expected_len)
            .ok_or_else(wrong_length)?;
        let signed = match &self.signatures {
            None => None,
            Some(_) => Some(SignedChunk {
                hasher: Sha256::new(),
                signature: extension
                    .strip_prefix("chunk-signature=")
                    .ok_or_else(malformed)?
                    .to_owned(),
            }),
        };
        self.state = ChunkState::Data { left: size, signed };
        if size == 0 {
            self.end_chunk()?;
        }
        Ok(())
    }

    /// Ends a chunk that has arrived.
    fn end_chunk(&mut self) -> Result<(), S3Failure> {
        let next = match self.last_chunk {
            0 => ChunkState::Trailer,
            _ => ChunkState::LineEnd,
        };
        let ended = std::mem::replace(&mut self.state, next);
        if let (
            Some(signatures),
            ChunkState::Data {
                signed: Some(chunk),
                ..
            },
        ) = (&mut self.signatures, ended)
        {
            signatures.verify_chunk(&chunk.hasher.finalize(), &chunk.signature)?;
        }
        if self.last_chunk == 0 && self.announced_len != self.expected_len {
            Err(wrong_length())
        } else {
            Ok(())
        }
    }
}

/// Moves bytes up to a line feed. Returns whether it has come.
fn take_line(line: &mut Vec<u8>, input: &mut Bytes) -> Result<bool, S3Failure> {
    let end = memchr::memchr(b'\n', input);
    let part = input.split_to(end.map_or(input.len(), |end| end + 1));
    if line.len() + part.len() > MAX_LINE {
        return Err(malformed());
    }
    line.extend_from_slice(&part);
    Ok(end.is_some())
}

/// Parses the length of a chunk, in hexadecimal.
fn parse_size(text: &str) -> Result<u64, S3Failure> {
    let is_hex = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let size = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
    size.ok_or_else(malformed)
}

/// The fields of a trailer, and its signature. Clients end a line with CRLF, with LF, or with both
/// and an empty line after it, since the signed text has other line ends than the body.
fn parse_trailer(trailer: &[u8]) -> Result<(Vec<TrailerField>, Option<String>), S3Failure> {
    let malformed = || S3Failure::new(S3ErrorCode::MalformedTrailerError);
    let text = str::from_utf8(trailer).map_err(|_| malformed())?;
    // The trailer ends with its last line.
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(malformed());
    }
    let (mut fields, mut signature) = (Vec::new(), None);
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        let name = name.trim_matches(BLANKS).to_ascii_lowercase();
        let value = value.trim_matches(BLANKS).to_owned();
        match name.as_str() {
            "" => return Err(malformed()),
            "x-amz-trailer-signature" if signature.is_none() => signature = Some(value),
            // The signature covers what is before it.
            _ if signature.is_some() => return Err(malformed()),
            _ => fields.push(TrailerField { name, value }),
        }
    }
    Ok((fields, signature))
}

fn malformed() -> S3Failure {
    let message = "The request body terminated unexpectedly, or is not aws-chunked.";
    S3Failure::with_message(S3ErrorCode::IncompleteBody, message)
}

fn wrong_length() -> S3Failure {
    let message = "The chunks have not as many bytes as x-amz-decoded-content-length says.";
    S3Failure::with_message(S3ErrorCode::IncompleteBody, message)
}

#[cfg(test)]
mod tests;

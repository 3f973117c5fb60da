//! The chunks of an HTTP/1.1 body (RFC 9112 7.1).
//!
//! Some small servers end the lines of chunk sizes and trailers with LF alone. curl and browsers accept that, and so does this.
//! A client may: what comes behind the body is read by nobody else. Everything else that is not in the grammar is an error.

/// The most bytes between the data of two chunks: a size, its extensions, or all trailers together.
const MAX_FRAMING_BYTES: usize = 16 * 1024;

/// Reads one body, in pieces of any length.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    position: ChunkPosition,
    /// Bytes since the last ones of data.
    framing_bytes: usize,
}

/// What follows the framing that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkedPart {
    /// So many bytes of the body.
    Data(usize),
    /// Nothing yet: the piece ends here.
    NeedsMore,
    /// Nothing: the body has ended.
    End,
}

/// Chunks that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Not a hexadecimal number, or one above 64 bits.
    #[error("the size of a chunk is invalid")]
    Size,
    /// Something else than a line end.
    #[error("a chunk is longer than its size")]
    End,
    /// A line does not end where it must.
    #[error("a line of the chunked body does not end with CRLF")]
    LineEnd,
    /// A trailer that is no header field.
    #[error("a trailer of the chunked body is invalid")]
    Trailer,
    /// Extensions or trailers without end.
    #[error("the extensions of a chunk, or the trailers, are too long")]
    TooLong,
}

/// Where in the body the next byte is. A number is the size of the chunk, or what is left of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ChunkPosition {
    /// Before the first digit of a size.
    #[default]
    SizeStart,
    /// Behind a digit.
    Size(u64),
    /// In white space behind the digits.
    SizeEnd(u64),
    Extension(u64),
    /// Behind the CR of a line with a size.
    SizeLineFeed(u64),
    Data(u64),
    /// Behind the data of a chunk.
    DataEnd,
    /// Behind the CR there.
    DataLineFeed,
    /// At the beginning of a line behind the last chunk.
    TrailerStart,
    TrailerName,
    TrailerValue,
    /// Behind the CR of a trailer.
    TrailerLineFeed,
    /// Behind the CR of the last line.
    EndLineFeed,
    End,
}

impl ChunkedDecoder {
    /// Reads the framing at the beginning of these bytes: how many of them it takes, and what follows. The data that follow count as
    /// read; the next bytes are those behind them.
    ///
    /// # Errors
    /// The body is malformed. The decoder must not be used again.
    pub fn read_framing(&mut self, bytes: &[u8]) -> Result<(usize, ChunkedPart), ChunkError> {
        for (index, byte) in bytes.iter().enumerate() {
            match self.position {
                ChunkPosition::Data(left) => {
                    return Ok((index, self.read_data(left, bytes.len() - index)));
                }
                ChunkPosition::End => return Ok((index, ChunkedPart::End)),
                position => {
                    self.framing_bytes += 1;
                    if self.framing_bytes > MAX_FRAMING_BYTES {
                        return Err(ChunkError::TooLong);
                    }
                    self.position = position.after(*byte)?;
                }
            }
        }
        let part = match self.position {
            ChunkPosition::End => ChunkedPart::End,
            _ => ChunkedPart::NeedsMore,
        };
        Ok((bytes.len(), part))
    }

    fn read_data(&mut self, left: u64, available: usize) -> ChunkedPart {
        let length = usize::try_from(left).map_or(available, |left| left.min(available));
        self.framing_bytes = 0;
        self.position = match left - length as u64 {
            0 => ChunkPosition::DataEnd,
            left => ChunkPosition::Data(left),
        };
        ChunkedPart::Data(length)
    }
}

impl ChunkPosition {
    /// The position behind a byte of framing.
    fn after(self, byte: u8) -> Result<Self, ChunkError> {
        match (self, byte) {
            (Self::SizeStart, _) => add_digit(0, byte),
            (Self::Size(size), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => add_digit(size, byte),
            (Self::Size(size) | Self::SizeEnd(size), b' ' | b'\t') => Ok(Self::SizeEnd(size)),
            (Self::Size(size) | Self::SizeEnd(size), b';') => Ok(Self::Extension(size)),
            (Self::Size(size) | Self::SizeEnd(size) | Self::Extension(size), b'\r') => {
                Ok(Self::SizeLineFeed(size))
            }
            (
                Self::Size(size)
                | Self::SizeEnd(size)
                | Self::Extension(size)
                | Self::SizeLineFeed(size),
                b'\n',
            ) => Ok(match size {
                0 => Self::TrailerStart,
                size => Self::Data(size),
            }),
            (Self::Size(_) | Self::SizeEnd(_), _) => Err(ChunkError::Size),
            (Self::Extension(size), _) => Ok(Self::Extension(size)),
            (Self::DataEnd, b'\r') => Ok(Self::DataLineFeed),
            (Self::DataEnd | Self::DataLineFeed, b'\n') => Ok(Self::SizeStart),
            (Self::DataEnd, _) => Err(ChunkError::End),
            (Self::TrailerStart, b'\r') => Ok(Self::EndLineFeed),
            (Self::TrailerStart | Self::EndLineFeed, b'\n') => Ok(Self::End),
            (Self::TrailerStart | Self::TrailerName, _) if is_token(byte) => Ok(Self::TrailerName),
            (Self::TrailerName, b':') => Ok(Self::TrailerValue),
            (Self::TrailerValue, b'\r') => Ok(Self::TrailerLineFeed),
            (Self::TrailerValue | Self::TrailerLineFeed, b'\n') => Ok(Self::TrailerStart),
            (Self::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(Self::TrailerValue),
            (Self::TrailerStart | Self::TrailerName | Self::TrailerValue, _) => {
                Err(ChunkError::Trailer)
            }
            (
                Self::SizeLineFeed(_)
                | Self::DataLineFeed
                | Self::TrailerLineFeed
                | Self::EndLineFeed,
                _,
            ) => Err(ChunkError::LineEnd),
            // `read_framing` asks for none of these.
            (Self::Data(_) | Self::End, _) => Ok(self),
        }
    }
}

/// Whether a name of a header field may have this byte.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn add_digit(size: u64, byte: u8) -> Result<ChunkPosition, ChunkError> {
    let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Size)?;
    let size = size.checked_mul(16).ok_or(ChunkError::Size)?;
    Ok(ChunkPosition::Size(size + u64::from(digit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A body, and the bytes behind it.
    type Decoded = (Vec<u8>, Vec<u8>);

    /// What a client reads of these bytes in pieces, or why not. `None` is a body without an end.
    fn decode(bytes: &[u8], piece: usize) -> Result<Option<Decoded>, ChunkError> {
        let (mut decoder, mut body) = (ChunkedDecoder::default(), Vec::new());
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes.len().min(at + piece);
            let (framing, part) = decoder.read_framing(&bytes[at..end])?;
            at += framing;
            match part {
                ChunkedPart::Data(length) => {
                    assert!(length > 0);
                    body.extend_from_slice(&bytes[at..at + length]);
                    at += length;
                }
                ChunkedPart::NeedsMore => assert_eq!(at, end),
                ChunkedPart::End => return Ok(Some((body, bytes[at..].to_vec()))),
            }
        }
        Ok(None)
    }

    fn body(bytes: &str) -> Result<Option<String>, ChunkError> {
        let decoded = decode(bytes.as_bytes(), usize::MAX >> 1)?;
        Ok(decoded.map(|(body, _)| String::from_utf8(body).unwrap()))
    }

    #[test]
    fn a31_sizes_extensions_and_trailers_are_read() {
        for framing in [
            "5\r\nhello\r\n0\r\n\r\n",
            "5\nhello\n0\n\n",
            "5\r\nhello\n0\r\nX: y\n\n",
            "0005 \t;a=\"b;c\";d\r\nhello\r\n000;x\r\nA: b\r\nC-1:\td\u{e4}\r\n\r\n",
            "1;a\nh\n4 \nello\r\n0\n\r\n",
        ] {
            assert_eq!(body(framing), Ok(Some("hello".to_owned())), "{framing:?}");
        }
        assert_eq!(
            body("A\r\n0123456789\r\n0\r\n\r\n").unwrap().unwrap().len(),
            10
        );
    }

    #[test]
    fn a31_what_is_not_in_the_grammar_is_refused() {
        for (framing, error) in [
            ("\r\n", ChunkError::Size),
            ("x\r\n", ChunkError::Size),
            ("-5\r\n", ChunkError::Size),
            ("0x5\r\n", ChunkError::Size),
            ("5 5\r\n", ChunkError::Size),
            ("10000000000000000\r\n", ChunkError::Size),
            ("5\rhello", ChunkError::LineEnd),
            ("5;a\rb\n", ChunkError::LineEnd),
            ("5\r\nhello!\r\n", ChunkError::End),
            ("5\r\nhello\rx", ChunkError::LineEnd),
            ("0\r\n\rx", ChunkError::LineEnd),
            ("0\r\nA: b\rc\r\n", ChunkError::LineEnd),
            ("0\r\nA: \0\r\n", ChunkError::Trailer),
            ("0\r\nA\r\n", ChunkError::Trailer),
            ("0\r\n: b\r\n", ChunkError::Trailer),
            ("0\r\n A: b\r\n", ChunkError::Trailer),
        ] {
            assert_eq!(body(framing), Err(error), "{framing:?}");
        }
        assert_eq!(body("ffffffffffffffff\r\nabc"), Ok(None));
        assert_eq!(body("5\r\nhello\r\n0\r\n"), Ok(None), "no end");
    }

    #[test]
    fn a31_framing_without_data_has_a_limit() {
        let long = "a".repeat(MAX_FRAMING_BYTES);
        for framing in [
            format!("5;{long}\r\nhello\r\n0\r\n\r\n"),
            format!("0\r\nA: {long}\r\n\r\n"),
            "0\r\n".to_owned() + &"A: b\r\n".repeat(MAX_FRAMING_BYTES / 6 + 1),
            "0".repeat(MAX_FRAMING_BYTES + 1),
        ] {
            assert_eq!(body(&framing), Err(ChunkError::TooLong));
        }
        let many = "1;extension\r\na\r\n".repeat(MAX_FRAMING_BYTES) + "0\r\n\r\n";
        assert_eq!(body(&many).unwrap().unwrap().len(), MAX_FRAMING_BYTES);
    }

    proptest! {
        #[test]
        fn any_chunks_in_any_pieces_are_their_data(
            chunks: Vec<(Vec<u8>, bool, bool)>,
            bare_trailers: bool,
            piece in 1_usize..40,
            behind: Vec<u8>,
        ) {
            let line_end = |bare: bool| if bare { "\n" } else { "\r\n" };
            let (mut sent, mut expected) = (Vec::new(), Vec::new());
            for (data, bare_size, bare_end) in chunks.iter().filter(|(data, ..)| !data.is_empty()) {
                sent.extend_from_slice(format!("{:x}{}", data.len(), line_end(*bare_size)).as_bytes());
                sent.extend_from_slice(data);
                sent.extend_from_slice(line_end(*bare_end).as_bytes());
                expected.extend_from_slice(data);
            }
            let end = line_end(bare_trailers);
            sent.extend_from_slice(format!("0{end}A: b{end}{end}").as_bytes());
            sent.extend_from_slice(&behind);
            prop_assert_eq!(decode(&sent, piece), Ok(Some((expected, behind))));
        }

        #[test]
        fn bytes_mean_the_same_in_any_pieces(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'2'), Just(b';'), any::<u8>()],
                0..60,
            ),
            piece in 1_usize..40,
        ) {
            prop_assert_eq!(decode(&bytes, piece), decode(&bytes, bytes.len().max(1)));
        }
    }
}

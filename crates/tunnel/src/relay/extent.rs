//! How much of what a client says is for the peer that it was led to.
//!
//! A tunnel's bytes are, all of them. Of a request that is passed on only the request is: what follows it on the same connection is
//! another request, for another host perhaps, and whoever got it could answer in that host's name. So its body is measured as the
//! peer will measure it (RFC 9112 section 6), and where it cannot be, there is an error and no guess.

use std::io;

/// Digits of the longest size of a chunk: what has more is no size.
const DIGITS: u8 = 15;

/// How much of what comes from a client goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BodyFraming(RemainingBody);

/// What is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RemainingBody {
    /// Whatever there is.
    #[default]
    Anything,
    /// So many bytes.
    Bytes(u64),
    /// Chunks, from here in one of them.
    Chunks(ChunkPosition),
}

/// A place in a body of chunks (RFC 9112 section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    /// In a size of so many digits up to here.
    Size(u64, u8),
    /// Behind it, up to the line's end.
    Extension(u64),
    /// Before that line's LF.
    SizeEnd(u64),
    /// Before so many bytes of data.
    Data(u64),
    /// Behind them: CR, then LF.
    DataCr,
    DataLf,
    /// Where a line of the trailer begins.
    Line,
    /// In one.
    InLine,
    /// Before its LF.
    LineEnd,
    /// Before the LF of the empty line.
    LastLf,
}

impl BodyFraming {
    /// All of it.
    pub(crate) const ALL: Self = Self(RemainingBody::Anything);

    /// So many bytes.
    pub(crate) const fn bytes(count: u64) -> Self {
        Self(RemainingBody::Bytes(count))
    }

    /// A body of chunks.
    pub(crate) const fn chunks() -> Self {
        Self(RemainingBody::Chunks(ChunkPosition::Size(0, 0)))
    }

    /// Whether there is no end to it.
    pub(crate) fn is_all(self) -> bool {
        self.0 == RemainingBody::Anything
    }

    /// Whether nothing more goes on.
    pub(crate) fn is_over(self) -> bool {
        self.0 == RemainingBody::Bytes(0)
    }

    /// How many of these bytes, which follow those of the last call, go on.
    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            RemainingBody::Anything => Ok(bytes.len()),
            RemainingBody::Bytes(left) => {
                let taken = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            RemainingBody::Chunks(place) => match place.go_over(bytes)? {
                Some(end) => {
                    self.0 = RemainingBody::Bytes(0);
                    Ok(end)
                }
                None => Ok(bytes.len()),
            },
        }
    }
}

impl ChunkPosition {
    /// Goes over these bytes; where the body ends among them, if it does.
    fn go_over(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if let Self::Data(left) = *self {
                let here = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                at += here;
                *self = match left - here as u64 {
                    0 => Self::DataCr,
                    left => Self::Data(left),
                };
                continue;
            }
            at += 1;
            if *self == Self::LastLf && *byte == b'\n' {
                return Ok(Some(at));
            }
            let next = self.after(*byte);
            *self = next.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the body's chunks are malformed",
                )
            })?;
        }
        Ok(None)
    }

    /// The place behind a byte that is no data; none if that has no business there.
    fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Size(size, 1..), b'\r') | (Self::Extension(size), b'\r') => Self::SizeEnd(size),
            (Self::Size(size, 1..), b';' | b' ' | b'\t') => Self::Extension(size),
            (Self::Size(size, digits @ ..DIGITS), digit) => {
                let value = char::from(digit).to_digit(16)?;
                Self::Size(size << 4 | u64::from(value), digits + 1)
            }
            (Self::Extension(size), byte) if byte != b'\n' => Self::Extension(size),
            (Self::SizeEnd(0), b'\n') | (Self::LineEnd, b'\n') => Self::Line,
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::Size(0, 0),
            (Self::Line, b'\r') => Self::LastLf,
            (Self::InLine, b'\r') => Self::LineEnd,
            (Self::Line | Self::InLine, byte) if byte != b'\n' => Self::InLine,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many bytes of a text go on, in pieces of so many.
    fn taken(mut extent: BodyFraming, text: &[u8], piece: usize) -> io::Result<usize> {
        let pieces = text.chunks(piece).map(|piece| extent.take(piece));
        pieces.sum()
    }

    #[test]
    fn lengths_and_tunnels_are_counted() {
        assert_eq!(taken(BodyFraming::ALL, b"whatever", 3).unwrap(), 8);
        assert_eq!(
            taken(BodyFraming::bytes(5), b"GET / and more", 2).unwrap(),
            5
        );
        assert_eq!(taken(BodyFraming::bytes(0), b"GET /", 5).unwrap(), 0);
        assert!(BodyFraming::bytes(0).is_over() && !BodyFraming::chunks().is_over());
    }

    #[test]
    fn a_body_of_chunks_ends_where_it_ends() {
        for body in [
            "0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "00a;x=y\r\n0123456789\r\n000\r\nX: y\r\nZ:\r\n\r\n",
            "1 \r\n\r\r\n0;a=\"b;c\"\r\n\r\n",
        ] {
            let text = format!("{body}GET http://other.test/ HTTP/1.1\r\n\r\n");
            for piece in 1..text.len() {
                let taken = taken(BodyFraming::chunks(), text.as_bytes(), piece);
                assert_eq!(taken.unwrap(), body.len(), "{body:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_peers_might_measure_differently_is_an_error() {
        for body in [
            "\r\n",
            "x\r\n",
            "+3\r\nabc\r\n",
            "0x3\r\nabc\r\n",
            "3\nabc\n0\n\n",
            "3\r\nabcd\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "3;\nabc\r\n",
            "3\rabc",
            "0\r\n\n",
            "0\r\nX: y\n\r\n",
            "0\r\nX: y\rz\r\n\r\n",
            "fffffffffffffffff\r\n",
        ] {
            assert!(
                taken(BodyFraming::chunks(), body.as_bytes(), 7).is_err(),
                "{body:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_chunks_are_measured_to_their_last_byte(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
            more in prop::collection::vec(any::<u8>(), 0..20),
            piece in 1usize..400,
        ) {
            let mut body = Vec::new();
            for chunk in chunks {
                body.extend(format!("{:X}\r\n", chunk.len()).bytes());
                body.extend(chunk);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            let length = body.len();
            body.extend(more);
            prop_assert_eq!(taken(BodyFraming::chunks(), &body, piece).unwrap(), length);
        }

        #[test]
        fn nothing_is_a_panic_and_pieces_do_not_matter(text in "[0-9a-f;\r\n\u{0}x]{0,60}", piece in 1usize..20) {
            let whole = taken(BodyFraming::chunks(), text.as_bytes(), 64).ok();
            prop_assert_eq!(taken(BodyFraming::chunks(), text.as_bytes(), piece).ok(), whole);
        }
    }
}

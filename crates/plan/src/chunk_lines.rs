//! Line ends in chunked bodies (RFC 9112 7.1).
//!
//! Some small servers end the lines of chunk sizes and trailers with LF alone. curl and browsers accept that, hyper does not,
//! as a proxy must not. [`ChunkLineScanner`] finds those line ends in the bytes of a response, so that CR can be put before
//! them. It changes no other byte: where it does not understand the framing it leaves the rest alone, and hyper refuses it.

use memchr::memchr;

/// The bytes of a line that are stored. A `Transfer-Encoding: chunked` line and any chunk size are shorter.
const MAX_STORED: usize = 64;

/// Reads one response after the other, in pieces of any length, and finds line feeds that lack a carriage return.
#[derive(Debug, Default)]
pub struct ChunkLineScanner {
    position: ResponsePosition,
    line: LinePrefix,
}

/// Where in a response the next byte is.
#[derive(Debug, Clone, Copy, Default)]
enum ResponsePosition {
    Head(ScannedHead),
    ChunkSize,
    /// In the data of a chunk, with this many bytes left.
    ChunkData(u64),
    /// Between the data of a chunk and the next size.
    ChunkEnd,
    Trailers,
    /// In a body that is not chunked, behind the body, or in framing that is not understood.
    #[default]
    Other,
}

/// What the scanned lines of a head contain.
#[derive(Debug, Clone, Copy, Default)]
struct ScannedHead {
    has_status_line: bool,
    /// A 1xx response: another head follows.
    is_interim: bool,
    is_chunked: bool,
}

/// A line, or its beginning.
#[derive(Debug, Clone, Copy)]
struct LinePrefix {
    stored: [u8; MAX_STORED],
    length: usize,
    ends_with_cr: bool,
}

impl Default for LinePrefix {
    fn default() -> Self {
        Self {
            stored: [0; MAX_STORED],
            length: 0,
            ends_with_cr: false,
        }
    }
}

impl ChunkLineScanner {
    /// The next byte begins a response.
    pub fn begin_response(&mut self) {
        *self = Self {
            position: ResponsePosition::Head(ScannedHead::default()),
            line: LinePrefix::default(),
        };
    }

    /// Reads bytes up to the first line feed of the framing that lacks a carriage return, and returns its index. The caller goes on with the
    /// bytes behind it. `None` if there is none: all bytes were read.
    pub fn find_bare_line_feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut index = 0;
        while index < bytes.len() {
            match self.position {
                ResponsePosition::Other => return None,
                ResponsePosition::ChunkData(remaining) => {
                    let available = bytes.len() - index;
                    let read = usize::try_from(remaining).map_or(available, |n| n.min(available));
                    index += read;
                    self.position = match remaining - read as u64 {
                        0 => ResponsePosition::ChunkEnd,
                        remaining => ResponsePosition::ChunkData(remaining),
                    };
                }
                ResponsePosition::Head(_)
                | ResponsePosition::ChunkSize
                | ResponsePosition::ChunkEnd
                | ResponsePosition::Trailers => {
                    let rest = &bytes[index..];
                    let Some(length) = memchr(b'\n', rest) else {
                        self.line.push(rest);
                        return None;
                    };
                    self.line.push(&rest[..length]);
                    index += length + 1;
                    if self.end_line() {
                        return Some(index - 1);
                    }
                }
            }
        }
        None
    }

    /// Goes on behind a line; returns whether the line belongs to the framing and lacks its carriage return.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let next = match self.position {
            ResponsePosition::Head(head) => {
                self.position = head.after(&line);
                return false;
            }
            ResponsePosition::ChunkSize => match line.chunk_size() {
                Some(0) => Some(ResponsePosition::Trailers),
                size => size.map(ResponsePosition::ChunkData),
            },
            ResponsePosition::ChunkEnd => line.is_empty().then_some(ResponsePosition::ChunkSize),
            ResponsePosition::Trailers if line.is_empty() => {
                self.position = ResponsePosition::Other;
                return !line.ends_with_cr;
            }
            position => Some(position),
        };
        self.position = next.unwrap_or(ResponsePosition::Other);
        next.is_some() && !line.ends_with_cr
    }
}

impl ScannedHead {
    fn after(mut self, line: &LinePrefix) -> ResponsePosition {
        if !self.has_status_line {
            // Empty lines before the status line are skipped.
            self.has_status_line = !line.is_empty();
            self.is_interim = line.text().get(9) == Some(&b'1');
        } else if line.is_empty() {
            return match self {
                Self {
                    is_interim: true, ..
                } => ResponsePosition::Head(Self::default()),
                Self {
                    is_chunked: true, ..
                } => ResponsePosition::ChunkSize,
                _ => ResponsePosition::Other,
            };
        } else if line.is_transfer_encoding() {
            // Several fields are rare, and need not be understood here.
            self.is_chunked = line
                .text()
                .trim_ascii_end()
                .to_ascii_lowercase()
                .ends_with(b"chunked");
        }
        ResponsePosition::Head(self)
    }
}

impl LinePrefix {
    fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_with_cr = *last == b'\r';
        if let Some(free) = self.stored.get_mut(self.length..) {
            let stored = free.len().min(bytes.len());
            free[..stored].copy_from_slice(&bytes[..stored]);
        }
        self.length += bytes.len();
    }

    /// Without its carriage return.
    fn is_empty(&self) -> bool {
        self.length == usize::from(self.ends_with_cr)
    }

    /// Its beginning.
    fn text(&self) -> &[u8] {
        &self.stored[..self.length.min(MAX_STORED)]
    }

    fn is_transfer_encoding(&self) -> bool {
        const NAME: &[u8] = b"transfer-encoding:";
        self.length <= MAX_STORED
            && self
                .text()
                .get(..NAME.len())
                .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    }

    /// The number that the line begins with, if it is one that was stored whole.
    fn chunk_size(&self) -> Option<u64> {
        let text = self.text();
        let digits = text
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if digits == MAX_STORED {
            return None;
        }
        let digits = std::str::from_utf8(&text[..digits]).ok()?;
        u64::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a client would read: the bytes in pieces, with a carriage return before each line feed that was found.
    fn corrected(scanner: &mut ChunkLineScanner, bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut output = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(index) = scanner.find_bare_line_feed(piece) {
                output.extend_from_slice(&piece[..index]);
                output.extend_from_slice(b"\r\n");
                piece = &piece[index + 1..];
            }
            output.extend_from_slice(piece);
        }
        output
    }

    fn corrected_response(bytes: &[u8]) -> Vec<u8> {
        let mut scanner = ChunkLineScanner::default();
        scanner.begin_response();
        corrected(&mut scanner, bytes, 7)
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn is_unchanged(response: &str) -> bool {
        corrected_response(response.as_bytes()) == response.as_bytes()
    }

    #[test]
    fn line_feeds_of_sizes_and_trailers_are_found() {
        let framing = "5;a=b\nhello\n0005 \r\na\nb\nc\n0\nName: value\n\n";
        let expected = "5;a=b\r\nhello\r\n0005 \r\na\nb\nc\r\n0\r\nName: value\r\n\r\n";
        let heads = [
            HEAD.to_owned(),
            HEAD.replace("\r\n", "\n"),
            format!("\r\n{}", HEAD.to_uppercase()),
            format!("HTTP/1.1 100 Continue\r\n\r\n{HEAD}"),
        ];
        for head in heads {
            let corrected = corrected_response(format!("{head}{framing}").as_bytes());
            assert_eq!(
                String::from_utf8(corrected).unwrap(),
                format!("{head}{expected}")
            );
        }
    }

    #[test]
    fn bodies_that_are_not_chunked_are_left_alone() {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked, gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-Transfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(is_unchanged(&format!("{head}5\nhello\n0\n\n")), "{head}");
        }
    }

    #[test]
    fn framing_that_is_not_understood_is_left_alone() {
        let zeros = "0".repeat(MAX_STORED);
        for framing in [
            "\n5\nhello\n",
            "x\n5\nhello\n",
            "ffffffffffffffff0\n5\n",
            &format!("{zeros}5\nhello\n"),
        ] {
            assert!(is_unchanged(&format!("{HEAD}{framing}")), "{framing}");
        }
        // A chunk that is longer than its size: the lines until then are known, the rest is not.
        let corrected = corrected_response(format!("{HEAD}5\nhello!\n0\n\n").as_bytes());
        assert_eq!(corrected, format!("{HEAD}5\r\nhello!\n0\n\n").as_bytes());
    }

    #[test]
    fn only_the_next_response_is_read_after_a_body() {
        let mut scanner = ChunkLineScanner::default();
        let response = format!("{HEAD}1\na\n0\n\n");
        for _ in 0..2 {
            assert_eq!(corrected(&mut scanner, b"5\nhello\n", 3), b"5\nhello\n");
            scanner.begin_response();
            let corrected = corrected(&mut scanner, response.as_bytes(), 3);
            assert_eq!(corrected, format!("{HEAD}1\r\na\r\n0\r\n\r\n").as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_chunks_in_any_pieces_get_the_same_line_ends(
            chunks: Vec<(Vec<u8>, bool, bool)>,
            bare_trailers: bool,
            piece in 1_usize..40,
        ) {
            let line_end = |bare: bool| if bare { "\n" } else { "\r\n" };
            let (mut sent, mut expected) = (HEAD.as_bytes().to_vec(), HEAD.as_bytes().to_vec());
            for (data, bare_size, bare_end) in chunks.iter().filter(|(data, ..)| !data.is_empty()) {
                for (output, size_end, data_end) in [
                    (&mut sent, line_end(*bare_size), line_end(*bare_end)),
                    (&mut expected, "\r\n", "\r\n"),
                ] {
                    output.extend_from_slice(format!("{:x}{size_end}", data.len()).as_bytes());
                    output.extend_from_slice(data);
                    output.extend_from_slice(data_end.as_bytes());
                }
            }
            let end = line_end(bare_trailers);
            sent.extend_from_slice(format!("0{end}A: b{end}{end}").as_bytes());
            expected.extend_from_slice(b"0\r\nA: b\r\n\r\n");
            let mut scanner = ChunkLineScanner::default();
            scanner.begin_response();
            prop_assert_eq!(corrected(&mut scanner, &sent, piece), expected);
        }

        #[test]
        fn what_is_found_is_a_line_feed_behind_another_byte_than_a_carriage_return(
            bytes: Vec<u8>,
            piece in 1_usize..40,
        ) {
            let sent = [HEAD.as_bytes(), &bytes].concat();
            let mut scanner = ChunkLineScanner::default();
            scanner.begin_response();
            let without_cr = |bytes: Vec<u8>| {
                bytes.into_iter().filter(|byte| *byte != b'\r').collect::<Vec<_>>()
            };
            let corrected = corrected(&mut scanner, &sent, piece);
            prop_assert_eq!(without_cr(corrected), without_cr(sent));
        }
    }
}

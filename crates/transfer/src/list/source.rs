//! The bytes of a list: decompressed, with the first ones looked at to detect compression and format.
//!
//! Nothing that the data claim about their size is believed, and no more is read than is needed: the list may be typed.

use std::io::{self, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use crate::metalink;

/// The most bytes that are read to detect a format.
const MAX_PEEK: usize = 64 << 10;

/// Compressed bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// The largest window that a zstd list may need, as a power of two: 8 MiB, which RFC 8878 3.1.1.1.2 wants every decoder
/// to have and `zstd -19` keeps within. It bounds the memory that a hostile list can make haul use.
const MAX_WINDOW_LOG: u32 = 23;

/// A source whose first bytes were read already. It returns them again.
pub(super) struct PeekedReader {
    /// The bytes that were read.
    bytes: Cursor<Vec<u8>>,
    /// An error behind those bytes, to be returned after them.
    failed: Option<io::Error>,
    rest: Box<dyn Read + Send>,
}

impl PeekedReader {
    /// Reads until `is_enough`, until `most` bytes have come, or until the source ends or fails. Each call reads what
    /// is there, so that nobody waits for bytes that are not needed.
    pub(super) fn peek(
        mut rest: Box<dyn Read + Send>,
        most: usize,
        mut is_enough: impl FnMut(&[u8]) -> bool,
    ) -> Self {
        let (mut bytes, mut filled, mut failed) = (vec![0; most], 0, None);
        while filled < most && !is_enough(&bytes[..filled]) {
            match rest.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        bytes.truncate(filled);
        Self {
            bytes: Cursor::new(bytes),
            failed,
            rest,
        }
    }

    /// Reads the byte order mark of a list and, if that is to tell the format, its first line. If that line is XML,
    /// more lines are read up to the first element: no list of URLs begins like that.
    pub(super) fn peek_list(source: Box<dyn Read + Send>, for_format: bool) -> Self {
        let mut examined = 0;
        Self::peek(source, MAX_PEEK, |bytes| {
            if !for_format {
                return bytes.len() >= BOM.len() || bytes.contains(&b'\n');
            }
            while let Some(end) = bytes[examined..].iter().position(|&byte| byte == b'\n') {
                let line = without_bom(&bytes[examined..examined + end]);
                if is_content(line) {
                    return !line.trim_ascii_start().starts_with(b"<")
                        || bytes.len() >= metalink::DETECTION_BYTES
                        || metalink::is_metalink(bytes);
                }
                examined += end + 1;
            }
            false
        })
    }

    /// The bytes that were read.
    pub(super) fn peeked(&self) -> &[u8] {
        self.bytes.get_ref()
    }

    /// Whether the bytes that were read are those of a binary file: they have a NUL, and no URL.
    pub(super) fn is_binary(&self) -> bool {
        let bytes = self.peeked();
        bytes.contains(&0) && !bytes.windows(3).any(|window| window == b"://")
    }

    /// Whether the source begins with a byte order mark of UTF-16 or UTF-32.
    pub(super) fn is_utf16(&self) -> bool {
        let bytes = self.peeked();
        bytes.starts_with(&[0xfe, 0xff]) || bytes.starts_with(&[0xff, 0xfe])
    }
}

impl Read for PeekedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.bytes.read(buffer)? {
            0 => self
                .failed
                .take()
                .map_or_else(|| self.rest.read(buffer), Err),
            n => Ok(n),
        }
    }
}

/// The byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Removes a byte order mark.
pub(super) fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// Whether a line is neither blank nor a comment.
pub(super) fn is_content(line: &[u8]) -> bool {
    line.trim_ascii_start()
        .first()
        .is_some_and(|&byte| byte != b'#')
}

/// The first line that is neither blank nor a comment; empty if there is none.
pub(super) fn first_line(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.find(|line| is_content(line)).unwrap_or_default()
}

/// The decompressed source and the name of its compression. Several members or frames in a row are one text.
pub(super) fn decompressed(
    source: Box<dyn Read + Send>,
) -> (Box<dyn Read + Send>, Option<&'static str>) {
    let source = PeekedReader::peek(source, 4, |bytes| {
        bytes.len() >= 4 || !may_be_compressed(bytes)
    });
    let is_gzip = is_gzip(source.peeked());
    let is_zstd = is_zstd(source.peeked());
    let buffered = BufReader::with_capacity(BUFFER, source);
    if is_gzip {
        (Box::new(MultiGzDecoder::new(buffered)), Some("gzip"))
    } else if is_zstd {
        (zstd_decoder(buffered), Some("zstd"))
    } else {
        (Box::new(buffered.into_inner()), None)
    }
}

/// Whether more bytes could turn this into the beginning of a compressed list. If not, nothing more is waited for: the
/// list may be typed.
fn may_be_compressed(bytes: &[u8]) -> bool {
    matches!(bytes.first(), None | Some(0x1f | 0x28 | 0x50..=0x5f))
}

/// RFC 1952 2.3.1.
fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// RFC 8878 3.1.1, or a skippable frame (3.1.2), which parallel compressors put in front.
fn is_zstd(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

fn zstd_decoder(source: BufReader<PeekedReader>) -> Box<dyn Read + Send> {
    let decoder = zstd::Decoder::with_buffer(source).and_then(|mut decoder| {
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        Ok(decoder)
    });
    match decoder {
        Ok(decoder) => Box::new(decoder),
        // The first read returns the error.
        Err(error) => Box::new(FailedReader(Some(error))),
    }
}

/// A reader whose first read fails.
struct FailedReader(Option<io::Error>);

impl Read for FailedReader {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peeked_bytes_are_returned_before_the_rest() {
        let source = Cursor::new(b"abcdef").chain(Cursor::new(b"ghi"));
        let mut source = PeekedReader::peek(Box::new(source), 4, |bytes| bytes.len() >= 2);
        assert_eq!(source.peeked(), b"abcd");
        let mut all = String::new();
        source.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abcdefghi");
    }

    #[test]
    fn nothing_is_read_behind_the_first_line_with_content() {
        /// Returns one line a call, and fails when a further line is read.
        struct TypedLines(Vec<&'static str>);
        impl Read for TypedLines {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let line = self
                    .0
                    .pop()
                    .ok_or_else(|| io::Error::other("asked for more"))?;
                buffer[..line.len()].copy_from_slice(line.as_bytes());
                Ok(line.len())
            }
        }
        let lines = || {
            Box::new(TypedLines(vec![
                "http://h/\n",
                "# one\n",
                "\n",
                "\u{feff}\n",
            ]))
        };
        let source = PeekedReader::peek_list(lines(), true);
        assert!(source.failed.is_none() && source.peeked().ends_with(b"http://h/\n"));
        let mut source = PeekedReader::peek_list(lines(), false);
        assert!(source.failed.is_none());
        assert!(io::copy(&mut source, &mut io::sink()).is_err());
        let xml = || {
            let lines = vec!["<size>", "<metalink>\n", "<!-- x\n-->", "\n", "<?xml?>\n"];
            Box::new(TypedLines(lines))
        };
        let source = PeekedReader::peek_list(xml(), true);
        assert!(source.failed.is_none() && source.peeked().ends_with(b"<metalink>\n"));
        let other = io::repeat(b'<').chain(Cursor::new(b"x"));
        let source = PeekedReader::peek_list(Box::new(Cursor::new(b"<html>\n").chain(other)), true);
        assert_eq!(source.peeked().len(), MAX_PEEK);
        let source = PeekedReader::peek_list(Box::new(io::repeat(b'\n')), true);
        assert_eq!(source.peeked().len(), MAX_PEEK);
    }
}

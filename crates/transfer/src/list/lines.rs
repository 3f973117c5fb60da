//! Splits a source into lines, with one line in memory at a time.

use std::io::{self, BufRead, BufReader, Read};

use super::bad_line::{BadLineProblem, LineError};
use super::patience::ReadPatience;
use super::source::{is_content, without_bom};

/// The longest line, and the longest entry of several lines, in bytes.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// Reads lines, and can step back once.
pub(super) struct LineReader {
    source: BufReader<Box<dyn Read + Send>>,
    /// The line and its newline.
    text: Vec<u8>,
    /// Length of the line without its end.
    len: usize,
    /// The current line's number, from 1.
    number: u64,
    /// Whether the current line is to be returned again.
    returns_again: bool,
    /// An error that [`peek_byte`](Self::peek_byte) met, for the next read.
    failed: Option<io::Error>,
    /// How long the source waits.
    patience: ReadPatience,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    Line,
    /// A line that was too long. It was skipped.
    TooLong,
    End,
}

/// The result of looking at the next line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PeekedByte {
    /// The next line begins with this byte.
    Byte(u8),
    End,
    /// Nothing has come within a moment.
    Later,
    /// An error, which the next read returns.
    Failed,
}

impl LineReader {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source: BufReader::with_capacity(BUFFER, source),
            text: Vec::new(),
            len: 0,
            number: 0,
            returns_again: false,
            failed: None,
            patience: ReadPatience::default(),
        }
    }

    /// With this the source can be asked for bytes without waiting for long.
    pub(super) fn with_patience(self, patience: ReadPatience) -> Self {
        Self { patience, ..self }
    }

    /// Reads the next line. A last line without newline counts; a line that a read error cuts off does not.
    pub(super) fn read_line(&mut self) -> io::Result<ReadLine> {
        if std::mem::take(&mut self.returns_again) {
            return Ok(ReadLine::Line);
        }
        self.text.clear();
        self.len = 0;
        self.number += 1;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        // A line of the greatest length still fits with either end.
        let most = (MAX_LINE + 2) as u64;
        (&mut self.source)
            .take(most)
            .read_until(b'\n', &mut self.text)?;
        if self.text.is_empty() {
            return Ok(ReadLine::End);
        }
        let is_whole = self.text.ends_with(b"\n");
        let end = if is_whole {
            self.text.len() - 1
        } else {
            self.text.len()
        };
        let line = &self.text[..end];
        self.len = line.strip_suffix(b"\r").unwrap_or(line).len();
        if self.len > MAX_LINE {
            if !is_whole {
                self.source.skip_until(b'\n')?;
            }
            self.len = 0;
            return Ok(ReadLine::TooLong);
        }
        self.text.truncate(self.len);
        self.text.push(b'\n');
        Ok(ReadLine::Line)
    }

    /// Reads the next line that is neither blank nor a comment, and returns its number. `None` at the end of the list.
    pub(super) fn next_content(&mut self) -> Option<Result<u64, LineError>> {
        loop {
            let read = self.read_line();
            return Some(match read {
                Ok(ReadLine::End) => return None,
                Ok(ReadLine::Line) if !is_content(self.line()) => continue,
                Ok(ReadLine::Line) => Ok(self.number),
                Ok(ReadLine::TooLong) => Err(too_long(self.number)),
                Err(error) => Err(LineError::read(self.number, error)),
            });
        }
    }

    /// The current line without its end, and without a byte order mark.
    pub(super) fn line(&self) -> &[u8] {
        let line = &self.text[..self.len];
        if self.number == 1 {
            without_bom(line)
        } else {
            line
        }
    }

    /// The same with a newline.
    pub(super) fn line_with_newline(&self) -> &[u8] {
        let line = &self.text[..=self.len];
        if self.number == 1 {
            without_bom(line)
        } else {
            line
        }
    }

    /// The current line's number, from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.number
    }

    /// Makes the next read return the current line again.
    pub(super) fn unread(&mut self) {
        self.returns_again = true;
    }

    /// Makes the next read return this error.
    pub(super) fn unread_error(&mut self, error: io::Error) {
        self.number -= 1;
        self.failed = Some(error);
    }

    /// Whether the next line does not begin within a moment.
    pub(super) fn is_idle(&mut self) -> bool {
        self.peek_byte(false) == PeekedByte::Later
    }

    /// Looks at the first byte of the next line, and waits for it, or for a moment only.
    pub(super) fn peek_byte(&mut self, waits: bool) -> PeekedByte {
        loop {
            let bytes = if waits {
                self.source.fill_buf()
            } else {
                self.patience.briefly(|| self.source.fill_buf())
            };
            match bytes {
                Ok(bytes) => {
                    return bytes
                        .first()
                        .map_or(PeekedByte::End, |&byte| PeekedByte::Byte(byte));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && !waits => {
                    return PeekedByte::Later;
                }
                Err(e) => {
                    self.failed = Some(e);
                    return PeekedByte::Failed;
                }
            }
        }
    }
}

/// The error of a line, or an entry that begins in this line, beyond [`MAX_LINE`].
pub(super) fn too_long(line: u64) -> LineError {
    let problem = BadLineProblem::LineTooLong { limit: MAX_LINE };
    LineError::new(line, "", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> LineReader {
        LineReader::new(Box::new(io::Cursor::new(text.to_vec())))
    }

    fn all(text: &[u8]) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut lines = lines(text);
        let mut found = Vec::new();
        loop {
            match lines.read_line().unwrap() {
                ReadLine::Line => found.push((lines.line_number(), Some(lines.line().to_vec()))),
                ReadLine::TooLong => found.push((lines.line_number(), None)),
                ReadLine::End => return found,
            }
        }
    }

    #[test]
    fn c2_lines_end_with_lf_crlf_or_the_end_of_the_list() {
        let some = |text: &[u8]| Some(text.to_vec());
        assert_eq!(
            all(b"\xef\xbb\xbfa\r\n\n\xef\xbb\xbfb\n\rc\r"),
            [
                (1, some(b"a")),
                (2, some(b"")),
                (3, some(b"\xef\xbb\xbfb")),
                (4, some(b"\rc")),
            ]
        );
        assert_eq!(all(b""), []);
    }

    #[test]
    fn c2_a_line_that_is_too_long_is_skipped_and_not_kept_in_memory() {
        for end in ["\n", "\r\n", ""] {
            let text = format!("{}{end}", "x".repeat(MAX_LINE));
            assert_eq!(all(text.as_bytes())[0].1.as_ref().unwrap().len(), MAX_LINE);
            let text = format!("a\n{}{end}", "x".repeat(MAX_LINE + 1));
            assert_eq!(all(text.as_bytes())[1..], [(2, None)]);
        }
        let long = format!("{}\nb", "x".repeat(5 * MAX_LINE));
        let mut lines = lines(long.as_bytes());
        assert_eq!(lines.read_line().unwrap(), ReadLine::TooLong);
        assert!(lines.text.capacity() <= 4 * MAX_LINE && lines.line().is_empty());
        assert_eq!(lines.read_line().unwrap(), ReadLine::Line);
        assert_eq!((lines.line_number(), lines.line()), (2, &b"b"[..]));
    }

    #[test]
    fn a_peek_takes_nothing_and_an_error_is_returned_once() {
        struct BrokenSource(u8);
        impl Read for BrokenSource {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 => {
                        buffer[..2].copy_from_slice(b"a\n");
                        Ok(2)
                    }
                    2 => Err(io::ErrorKind::Interrupted.into()),
                    _ => Err(io::Error::other("broken")),
                }
            }
        }
        let mut lines = LineReader::new(Box::new(BrokenSource(0)));
        assert_eq!(lines.peek_byte(true), PeekedByte::Byte(b'a'));
        assert_eq!(lines.read_line().unwrap(), ReadLine::Line);
        assert_eq!(lines.line(), b"a");
        assert_eq!(lines.peek_byte(true), PeekedByte::Failed);
        assert_eq!(lines.read_line().unwrap_err().to_string(), "broken");
    }
}

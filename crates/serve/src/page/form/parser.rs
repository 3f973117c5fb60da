//! Splits a multipart body into its parts (RFC 2046 5.1). No I/O: bytes go in, events come out.

use bytes::{Bytes, BytesMut};
use memchr::memmem::{self, Finder};

use super::{FormError, MAX_PART_HEAD, MAX_PREAMBLE};

/// What the parser finds, in this order: heads, each followed by data and an end, and the end of
/// the form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MultipartEvent {
    /// A part begins. Its head, with all line ends.
    Part(Bytes),
    /// Some of its bytes; never empty.
    Data(Bytes),
    PartEnd,
    /// The form is complete. Bytes after it are ignored.
    End,
}

/// Finds the parts of a body, however it is divided into chunks.
///
/// Call [`poll`](Self::poll) until it returns no event, then [`push`](Self::push).
#[derive(Debug)]
pub(super) struct MultipartParser {
    /// Bytes that were pushed and not returned.
    buffer: BytesMut,
    /// A line end, two hyphens and the boundary.
    delimiter: Finder<'static>,
    state: MultipartParserState,
    /// Bytes before the first delimiter, so far.
    preamble: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MultipartParserState {
    /// Before the first delimiter.
    Preamble,
    /// After a delimiter: a head follows, or two hyphens.
    Delimiter,
    /// At a head. The line end before it is still in the buffer, so that an empty head ends like
    /// any other.
    Head,
    /// In a part.
    Data,
    End,
}

impl MultipartParser {
    pub(super) fn new(boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        Self {
            // If nothing precedes the first delimiter, it has no line end before it.
            buffer: BytesMut::from(&b"\r\n"[..]),
            delimiter: Finder::new(&delimiter).into_owned(),
            state: MultipartParserState::Preamble,
            preamble: 0,
        }
    }

    /// Adds bytes of the body.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event; `None` if it needs more bytes.
    pub(super) fn poll(&mut self) -> Result<Option<MultipartEvent>, FormError> {
        loop {
            match self.state {
                MultipartParserState::Preamble => match self.until_delimiter() {
                    (skipped, true) => {
                        self.count_preamble(skipped.len())?;
                        self.state = MultipartParserState::Delimiter;
                    }
                    (skipped, false) => {
                        self.count_preamble(skipped.len())?;
                        return Ok(None);
                    }
                },
                MultipartParserState::Delimiter => match self.after_delimiter(0)? {
                    Some(state) => self.state = state,
                    None => return Ok(None),
                },
                MultipartParserState::Head => return self.take_head(),
                MultipartParserState::Data => {
                    // The delimiter is taken only when no data precedes it, so that one call
                    // returns one event.
                    let needle = self.delimiter.needle();
                    if self.buffer.starts_with(needle) {
                        // Only when its line is complete: a line that merely begins like a
                        // delimiter would end a file in the middle.
                        let Some(state) = self.after_delimiter(needle.len())? else {
                            return Ok(None);
                        };
                        self.state = state;
                        return Ok(Some(MultipartEvent::PartEnd));
                    }
                    let data = self.take_data();
                    return Ok((!data.is_empty()).then_some(MultipartEvent::Data(data)));
                }
                MultipartParserState::End => return Ok(Some(MultipartEvent::End)),
            }
        }
    }

    fn count_preamble(&mut self, more: usize) -> Result<(), FormError> {
        self.preamble += more;
        if self.preamble > MAX_PREAMBLE {
            Err(FormError::Malformed("no part begins"))
        } else {
            Ok(())
        }
    }

    /// Takes the bytes before the next delimiter with the delimiter; or those that cannot be part
    /// of one.
    fn until_delimiter(&mut self) -> (Bytes, bool) {
        let data = self.take_data();
        let found = self.buffer.starts_with(self.delimiter.needle());
        if found {
            let _ = self.buffer.split_to(self.delimiter.needle().len());
        }
        (data, found)
    }

    /// Takes the bytes before the next delimiter, or before a possible beginning of one.
    fn take_data(&mut self) -> Bytes {
        let at = self.delimiter.find(&self.buffer).unwrap_or_else(|| {
            let longest = self.delimiter.needle().len() - 1;
            let tail = self.buffer.len().saturating_sub(longest);
            // A delimiter begins with a carriage return, which most tails do not contain.
            let starts = memchr::memchr_iter(b'\r', &self.buffer[tail..]).map(|at| tail + at);
            let mut starts =
                starts.filter(|at| self.delimiter.needle().starts_with(&self.buffer[*at..]));
            starts.next().unwrap_or(self.buffer.len())
        });
        self.buffer.split_to(at).freeze()
    }

    /// Takes a delimiter of `len` bytes and returns the next state; takes nothing if that is not
    /// known yet. Blanks may follow the delimiter.
    fn after_delimiter(&mut self, len: usize) -> Result<Option<MultipartParserState>, FormError> {
        let rest = &self.buffer[len..];
        if rest.starts_with(b"--") {
            self.buffer.clear();
            return Ok(Some(MultipartParserState::End));
        }
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let blanks = rest.iter().take_while(blank).count();
        if blanks > 64 {
            return Err(FormError::Malformed("more than a boundary is in its line"));
        }
        match &rest[blanks..] {
            [b'\r', b'\n', ..] => {
                let _ = self.buffer.split_to(len + blanks);
                Ok(Some(MultipartParserState::Head))
            }
            [] | [b'\r'] => Ok(None),
            [b'-'] if blanks == 0 => Ok(None),
            _ => Err(FormError::Malformed("more than a boundary is in its line")),
        }
    }

    fn take_head(&mut self) -> Result<Option<MultipartEvent>, FormError> {
        let searched = &self.buffer[..self.buffer.len().min(MAX_PART_HEAD)];
        let Some(end) = memmem::find(searched, b"\r\n\r\n") else {
            return if self.buffer.len() >= MAX_PART_HEAD {
                Err(FormError::Malformed("a part's head is too long"))
            } else {
                Ok(None)
            };
        };
        let mut head = self.buffer.split_to(end + 4).freeze();
        self.state = MultipartParserState::Data;
        // Without the line end before it.
        let _ = head.split_to(2);
        Ok(Some(MultipartEvent::Part(head)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Heads and bodies, and whether the end was found.
    type Found = (Vec<(Bytes, Vec<u8>)>, bool);

    /// Parses a body that is pushed in chunks of these lengths.
    fn parse_parts(body: &[u8], lengths: &[usize]) -> Result<Found, FormError> {
        let mut parser = MultipartParser::new(b"b");
        let mut parts: Vec<(Bytes, Vec<u8>)> = Vec::new();
        let mut lengths = lengths.iter().copied().cycle();
        let mut rest = body;
        loop {
            match parser.poll()? {
                Some(MultipartEvent::Part(head)) => parts.push((head, Vec::new())),
                Some(MultipartEvent::Data(data)) => {
                    let (_, bytes) = parts.last_mut().expect("a part");
                    assert!(!data.is_empty());
                    bytes.extend_from_slice(&data);
                }
                Some(MultipartEvent::PartEnd) => {}
                Some(MultipartEvent::End) => return Ok((parts, true)),
                None if rest.is_empty() => return Ok((parts, false)),
                None => {
                    let len = lengths.next().unwrap_or(1).clamp(1, rest.len());
                    parser.push(&rest[..len]);
                    rest = &rest[len..];
                    assert!(parser.buffer.len() < MAX_PART_HEAD + len);
                }
            }
        }
    }

    /// Bytes that are often nearly a delimiter.
    fn arb_content() -> impl Strategy<Value = Vec<u8>> {
        let chunks: Vec<&[u8]> = vec![
            b"\r\n--",
            b"\r",
            b"\n",
            b"-",
            b"--b",
            b"x",
            b"\r\n\r\n",
            b"\0\xff",
        ];
        let content = prop::collection::vec(prop::sample::select(chunks), 0..12)
            .prop_map(|chunks| chunks.concat());
        content.prop_filter("it has no delimiter", |content| {
            // Not even one that is completed by the line end before it.
            let all = [b"\r\n", &content[..], b"\r\n--b"].concat();
            memmem::find(&all[2..], b"\r\n--b") == Some(content.len())
        })
    }

    proptest! {
        #[test]
        fn parts_are_parsed_whatever_the_chunk_size(
            contents in prop::collection::vec(arb_content(), 0..5),
            lengths in prop::collection::vec(1..12_usize, 1..8),
        ) {
            let mut body = Vec::new();
            for (index, content) in contents.iter().enumerate() {
                body.extend_from_slice(format!("--b\r\nPart: {index}\r\n\r\n").as_bytes());
                body.extend_from_slice(content);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"--b--\r\n");
            let (parts, is_whole) = parse_parts(&body, &lengths).expect("a form");
            prop_assert!(is_whole);
            let bodies: Vec<Vec<u8>> = parts.iter().map(|(_, bytes)| bytes.clone()).collect();
            prop_assert_eq!(bodies, contents);
            for (index, (head, _)) in parts.iter().enumerate() {
                let expected = format!("Part: {index}\r\n\r\n");
                prop_assert_eq!(&head[..], expected.as_bytes());
            }
            // Truncated anywhere, it is incomplete.
            let cut = body.len() - 3;
            for end in 0..cut {
                let (_, is_whole) = parse_parts(&body[..end], &lengths).expect("so far it is one");
                prop_assert!(!is_whole);
            }
        }

        #[test]
        fn no_body_panics(body in prop::collection::vec(prop::sample::select(b"\r\n-b x:".to_vec()), 0..60), len in 1..9_usize) {
            let _ = parse_parts(&body, &[len]);
        }
    }

    #[test]
    fn empty_heads_and_blanks_are_accepted() {
        let (parts, is_whole) = parse_parts(
            b"ignored\r\n--b \t\r\n\r\nx\r\n--b\r\n\r\n\r\n--b--rest",
            &[99],
        )
        .expect("a form");
        assert!(is_whole);
        let parts: Vec<_> = parts
            .iter()
            .map(|(head, body)| (&head[..], &body[..]))
            .collect();
        assert_eq!(parts, [(&b"\r\n"[..], &b"x"[..]), (b"\r\n", b"")]);
    }

    #[test]
    fn malformed_forms_are_refused_with_bounded_memory() {
        let long = [b"--b\r\nA: ".to_vec(), vec![b'x'; MAX_PART_HEAD]].concat();
        let cases = [
            (vec![b'x'; MAX_PREAMBLE + 100], "no part begins"),
            (b"--bx\r\n".to_vec(), "more than a boundary is in its line"),
            (b"--b-x".to_vec(), "more than a boundary is in its line"),
            (
                [&b"--b"[..], &[b' '; 100]].concat(),
                "more than a boundary is in its line",
            ),
            (long, "a part's head is too long"),
        ];
        for (body, why) in cases {
            for lengths in [[1], [100_000]] {
                let refused = parse_parts(&body, &lengths);
                assert!(
                    matches!(refused, Err(FormError::Malformed(said)) if said == why),
                    "{why}: {refused:?}"
                );
            }
        }
    }
}

//! Where the parts of a multipart body begin and end (RFC 2046 5.1). No I/O: bytes go in, events come out.

use bytes::{Bytes, BytesMut};
use memchr::memmem::{self, Finder};

use super::{FormError, MAX_PART_HEAD, MAX_PREAMBLE};

/// What is found in a body, in this order: heads, each with data and an end behind it, and the end of all.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MultipartEvent {
    /// A part begins. Its head, each line with its end.
    Part(Bytes),
    /// Some of its bytes; never none.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// The form is complete. What may follow is not looked at.
    End,
}

/// Finds the parts of a body that is pushed in, however it is cut.
///
/// [`poll`](Self::poll) until it has no event, then [`push`](Self::push).
#[derive(Debug)]
pub(super) struct MultipartParser {
    /// What was pushed and not given out.
    held: BytesMut,
    /// A line's end, two hyphens and the boundary.
    delimiter: Finder<'static>,
    stage: MultipartParserState,
    /// Bytes before the first delimiter, so far.
    preamble: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MultipartParserState {
    /// Before the first delimiter.
    Preamble,
    /// Behind a delimiter: a head follows, or two hyphens.
    Delimiter,
    /// At a head. Its line's end before it is still held, so that an empty head ends like any other.
    Head,
    /// In a part.
    Data,
    End,
}

impl MultipartParser {
    pub(super) fn new(boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        Self {
            // The first delimiter has no line's end before it if nothing is before it.
            held: BytesMut::from(&b"\r\n"[..]),
            delimiter: Finder::new(&delimiter).into_owned(),
            stage: MultipartParserState::Preamble,
            preamble: 0,
        }
    }

    /// Takes more of the body.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// What is next; `None` when it needs more to know.
    pub(super) fn poll(&mut self) -> Result<Option<MultipartEvent>, FormError> {
        loop {
            match self.stage {
                MultipartParserState::Preamble => match self.until_delimiter() {
                    (skipped, true) => {
                        self.count_preamble(skipped.len())?;
                        self.stage = MultipartParserState::Delimiter;
                    }
                    (skipped, false) => {
                        self.count_preamble(skipped.len())?;
                        return Ok(None);
                    }
                },
                MultipartParserState::Delimiter => match self.after_delimiter(0)? {
                    Some(stage) => self.stage = stage,
                    None => return Ok(None),
                },
                MultipartParserState::Head => return self.head(),
                MultipartParserState::Data => {
                    // Only where nothing is before it is the delimiter taken, so that an event is never two.
                    let needle = self.delimiter.needle();
                    if self.held.starts_with(needle) {
                        // Not before its line is whole: what only begins like a delimiter would end a file in the middle.
                        let Some(stage) = self.after_delimiter(needle.len())? else {
                            return Ok(None);
                        };
                        self.stage = stage;
                        return Ok(Some(MultipartEvent::PartEnd));
                    }
                    let data = self.data();
                    return Ok((!data.is_empty()).then_some(MultipartEvent::Data(data)));
                }
                MultipartParserState::End => return Ok(Some(MultipartEvent::End)),
            }
        }
    }

    fn count_preamble(&mut self, more: usize) -> Result<(), FormError> {
        self.preamble += more;
        match self.preamble > MAX_PREAMBLE {
            true => Err(FormError::Malformed("no part begins")),
            false => Ok(()),
        }
    }

    /// Takes what is before the next delimiter, and that too; or what certainly is before one.
    fn until_delimiter(&mut self) -> (Bytes, bool) {
        let data = self.data();
        let found = self.held.starts_with(self.delimiter.needle());
        if found {
            let _ = self.held.split_to(self.delimiter.needle().len());
        }
        (data, found)
    }

    /// Takes what is before the next delimiter, or before where one may have begun.
    fn data(&mut self) -> Bytes {
        let at = self.delimiter.find(&self.held).unwrap_or_else(|| {
            let longest = self.delimiter.needle().len() - 1;
            let tail = self.held.len().saturating_sub(longest);
            // A delimiter begins with a carriage return, of which most tails have none.
            let begins = memchr::memchr_iter(b'\r', &self.held[tail..]).map(|at| tail + at);
            let mut begins =
                begins.filter(|at| self.delimiter.needle().starts_with(&self.held[*at..]));
            begins.next().unwrap_or(self.held.len())
        });
        self.held.split_to(at).freeze()
    }

    /// Takes so many bytes, a delimiter, and says what it leads to; nothing is taken if that is not known yet. Spaces may stand behind it.
    fn after_delimiter(&mut self, len: usize) -> Result<Option<MultipartParserState>, FormError> {
        let behind = &self.held[len..];
        if behind.starts_with(b"--") {
            self.held.clear();
            return Ok(Some(MultipartParserState::End));
        }
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let blanks = behind.iter().take_while(blank).count();
        if blanks > 64 {
            return Err(FormError::Malformed("more than a boundary is in its line"));
        }
        match &behind[blanks..] {
            [b'\r', b'\n', ..] => {
                let _ = self.held.split_to(len + blanks);
                Ok(Some(MultipartParserState::Head))
            }
            [] | [b'\r'] => Ok(None),
            [b'-'] if blanks == 0 => Ok(None),
            _ => Err(FormError::Malformed("more than a boundary is in its line")),
        }
    }

    fn head(&mut self) -> Result<Option<MultipartEvent>, FormError> {
        let searched = &self.held[..self.held.len().min(MAX_PART_HEAD)];
        let Some(end) = memmem::find(searched, b"\r\n\r\n") else {
            return match self.held.len() >= MAX_PART_HEAD {
                true => Err(FormError::Malformed("a part's head is too long")),
                false => Ok(None),
            };
        };
        let mut head = self.held.split_to(end + 4).freeze();
        self.stage = MultipartParserState::Data;
        // Without the line's end before it.
        let _ = head.split_to(2);
        Ok(Some(MultipartEvent::Part(head)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Heads and bodies, and whether the end was seen.
    type Found = (Vec<(Bytes, Vec<u8>)>, bool);

    /// Parts as heads and bodies, from a body that is pushed in pieces of such lengths.
    fn split(body: &[u8], lengths: &[usize]) -> Result<Found, FormError> {
        let mut splitter = MultipartParser::new(b"b");
        let mut parts: Vec<(Bytes, Vec<u8>)> = Vec::new();
        let mut lengths = lengths.iter().copied().cycle();
        let mut rest = body;
        loop {
            match splitter.poll()? {
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
                    splitter.push(&rest[..len]);
                    rest = &rest[len..];
                    assert!(splitter.held.len() < MAX_PART_HEAD + len);
                }
            }
        }
    }

    /// Bytes that often are nearly a delimiter.
    fn arb_content() -> impl Strategy<Value = Vec<u8>> {
        let pieces: Vec<&[u8]> = vec![
            b"\r\n--",
            b"\r",
            b"\n",
            b"-",
            b"--b",
            b"x",
            b"\r\n\r\n",
            b"\0\xff",
        ];
        let content = prop::collection::vec(prop::sample::select(pieces), 0..12);
        let content = content.prop_map(|pieces| pieces.concat());
        content.prop_filter("it has no delimiter", |content| {
            // Not even one that the line's end before it completes.
            let all = [b"\r\n", &content[..], b"\r\n--b"].concat();
            memmem::find(&all[2..], b"\r\n--b") == Some(content.len())
        })
    }

    proptest! {
        #[test]
        fn parts_come_out_as_they_went_in_however_they_are_cut(
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
            let (parts, is_whole) = split(&body, &lengths).expect("a form");
            prop_assert!(is_whole);
            let bodies: Vec<Vec<u8>> = parts.iter().map(|(_, bytes)| bytes.clone()).collect();
            prop_assert_eq!(bodies, contents);
            for (index, (head, _)) in parts.iter().enumerate() {
                let expected = format!("Part: {index}\r\n\r\n");
                prop_assert_eq!(&head[..], expected.as_bytes());
            }
            // Cut off anywhere, it is not whole.
            let cut = body.len() - 3;
            for end in 0..cut {
                let (_, is_whole) = split(&body[..end], &lengths).expect("so far it is one");
                prop_assert!(!is_whole);
            }
        }

        #[test]
        fn no_body_panics(body in prop::collection::vec(prop::sample::select(b"\r\n-b x:".to_vec()), 0..60), len in 1..9_usize) {
            let _ = split(&body, &[len]);
        }
    }

    #[test]
    fn empty_heads_and_blanks_are_read() {
        let (parts, is_whole) = split(
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
    fn what_is_no_form_is_refused_before_it_is_held() {
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
                let refused = split(&body, &lengths);
                assert!(
                    matches!(refused, Err(FormError::Malformed(said)) if said == why),
                    "{why}: {refused:?}"
                );
            }
        }
    }
}

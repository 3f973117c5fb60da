//! Requests whose end two programs could see in different places (row D10, request smuggling).
//!
//! hyper reads requests as RFC 9112 lets it: a line may end in a bare line feed, a Content-Length beside a Transfer-Encoding is passed over,
//! two equal lengths are one. A proxy before this server may read the same bytes otherwise, and then what it takes for a body is
//! a request here. So the bytes of each head are looked at once more, as they came from the wire, and what is ambiguous is refused.
//!
//! This is no parser: hyper has parsed the head when it is asked about, and says where its body ends. The watch keeps the bytes
//! that came since, finds the head's end among them, and counts off the body. After a chunked body it would have to follow the chunks; there
//! the connection ends with the answer.

/// The body that follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunks,
}

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguous {
    /// A line ends without a carriage return.
    #[error("a line of the head ends in a bare line feed")]
    BareLineFeed,
    /// A carriage return that ends no line.
    #[error("a line of the head has a bare carriage return")]
    BareReturn,
    /// Several fields say how long the body is.
    #[error("the length of the body is given more than once")]
    Lengths,
    /// A length that is no number alone.
    #[error("the Content-Length is not a number")]
    Length,
    /// An encoding other than in chunks, of which hyper takes any list that ends in it.
    #[error("the body's one encoding is chunked")]
    Encoding,
    /// No Host, several, or one that names none (RFC 9112 3.2).
    #[error("a request names its host in one Host field")]
    Host,
    /// The end of the head is not among what came.
    #[error("the head cannot be found in what was sent")]
    Lost,
}

/// Watches the bytes of one connection.
#[derive(Debug, Default)]
pub struct HeadWatch {
    /// What came and belongs to no request yet.
    pending: Vec<u8>,
    /// Bytes of a body that are still to come.
    skip: u64,
    /// Nothing is looked at any more: chunks came, or the connection speaks another protocol.
    over: bool,
    /// A head was asked about: what comes now is not what the connection began with.
    has_had_one: bool,
}

impl HeadWatch {
    /// Bytes came. Those that are kept are not more than hyper reads before it asks about their head.
    pub fn came(&mut self, mut bytes: &[u8]) {
        if self.over {
            return;
        }
        let skipped = usize::try_from(self.skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
        self.skip -= skipped as u64;
        bytes = &bytes[skipped..];
        self.pending.extend_from_slice(bytes);
    }

    /// Whether a request has begun to come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether what came is what the connection began with. Another protocol may be begun there and nowhere else: behind a request,
    /// a proxy that shares the connection among its clients would let one of them take it away from all others.
    #[must_use]
    pub fn is_at_beginning(&self) -> bool {
        !self.over && !self.has_had_one
    }

    /// No more heads will be looked at.
    pub fn end(&mut self) {
        *self = Self {
            over: true,
            ..Self::default()
        };
    }

    /// hyper has read a head, after which `follows` comes. Whether others would have read the same.
    ///
    /// # Errors
    /// See [`Ambiguous`]: to be answered with 400, and the connection closed.
    pub fn head(&mut self, follows: Follows) -> Result<(), Ambiguous> {
        if self.over {
            return Ok(());
        }
        self.has_had_one = true;
        let len = head_len(&self.pending).ok_or(Ambiguous::Lost)?;
        let judged = judge(&self.pending[..len]);
        self.pending.drain(..len);
        match follows {
            Follows::Length(length) => {
                let there = self.pending.len() as u64;
                self.skip = length.saturating_sub(there);
                let there = usize::try_from(length.min(there)).unwrap_or(usize::MAX);
                self.pending.drain(..there);
            }
            Follows::Chunks => self.end(),
        }
        if self.pending.is_empty() && self.pending.capacity() > 1024 {
            self.pending = Vec::new();
        }
        judged
    }
}

/// Bytes of the first head, as a reader sees it who takes bare line feeds.
fn head_len(bytes: &[u8]) -> Option<usize> {
    // Empty lines before a request are passed over (RFC 9112 2.2).
    let start = bytes
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut at = start;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'\n')? + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

fn judge(head: &[u8]) -> Result<(), Ambiguous> {
    let (mut lengths, mut hosts) = (0, 0);
    // Of HTTP/1.0, which knows no Host.
    let mut is_old = None;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r\n").ok_or(Ambiguous::BareLineFeed)?;
        if line.contains(&b'\r') {
            return Err(Ambiguous::BareReturn);
        }
        if !line.is_empty() {
            is_old.get_or_insert_with(|| line.ends_with(b" HTTP/1.0"));
        }
        if let Some(value) = field(line, b"host") {
            hosts += 1;
            if !is_host(value) {
                return Err(Ambiguous::Host);
            }
        }
        if let Some(value) = field(line, b"content-length") {
            lengths += 1;
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return Err(Ambiguous::Length);
            }
        }
        if let Some(value) = field(line, b"transfer-encoding") {
            lengths += 1;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Ambiguous::Encoding);
            }
        }
    }
    match (lengths, hosts) {
        (2.., _) => Err(Ambiguous::Lengths),
        (_, 1) => Ok(()),
        (_, 0) if is_old == Some(true) => Ok(()),
        _ => Err(Ambiguous::Host),
    }
}

/// Whether a Host field says a host and perhaps a port (RFC 3986 3.2.2), or rightly nothing.
fn is_host(value: &[u8]) -> bool {
    let (host, rest) = match value.strip_prefix(b"[") {
        Some(inner) => match inner.iter().position(|byte| *byte == b']') {
            Some(end) => (&inner[..end], &inner[end + 1..]),
            None => return false,
        },
        None => {
            let end = value.iter().position(|byte| *byte == b':');
            value.split_at(end.unwrap_or(value.len()))
        }
    };
    let is_literal = value.starts_with(b"[");
    let may_be = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || b"-._~%!$&'()*+,;=".contains(byte)
            || (is_literal && *byte == b':')
    };
    let is_port = match rest {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host.iter().all(may_be) && is_port
}

/// A field's value, if that is its line.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = line.split_at_checked(name.len())?;
    if !first.eq_ignore_ascii_case(name) {
        return None;
    }
    let rest = rest.trim_ascii_start();
    Some(rest.strip_prefix(b":")?.trim_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(head: &str) -> Result<(), Ambiguous> {
        let mut watch = HeadWatch::default();
        watch.came(head.as_bytes());
        watch.head(Follows::Length(0))
    }

    #[test]
    fn d10_what_could_be_read_otherwise_is_refused() {
        use Ambiguous::{BareLineFeed, BareReturn, Encoding, Host, Length, Lengths, Lost};
        let request = |fields: &str| format!("PUT / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let cases = [
            (request("Content-Length: 1\r\n"), Ok(())),
            (request("Transfer-Encoding: chunked\r\n"), Ok(())),
            (
                request("X-Content-Length: 1\r\nContent-Length: 1\r\n"),
                Ok(()),
            ),
            (
                request("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
                Err(Lengths),
            ),
            (
                request("transfer-encoding: chunked\r\ncontent-length: 1\r\n"),
                Err(Lengths),
            ),
            (
                request("Content-Length: 1\r\nContent-Length: 1\r\n"),
                Err(Lengths),
            ),
            (request("Content-Length: 1, 1\r\n"), Err(Length)),
            (request("Content-Length: +1\r\n"), Err(Length)),
            (request("Content-Length:\r\n"), Err(Length)),
            (
                request("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n"),
                Err(Lengths),
            ),
            (request("X: 1\nY: 2\r\n"), Err(BareLineFeed)),
            (request("X: 1\rY: 2\r\n"), Err(BareReturn)),
            ("GET / HTTP/1.1\n\n".to_owned(), Err(BareLineFeed)),
            (
                "GET / HTTP/1.1\r\nHost: x\r\n\n".to_owned(),
                Err(BareLineFeed),
            ),
            ("GET / HTTP/1.1\r\nHost".to_owned(), Err(Lost)),
            (
                request("Transfer-Encoding: gzip, chunked\r\n"),
                Err(Encoding),
            ),
            (request("Transfer-Encoding: ,chunked\r\n"), Err(Encoding)),
            (request("Transfer-Encoding:\tCHUNKED \r\n"), Ok(())),
            (request("Host: x\r\n"), Err(Host)),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Err(Host)),
            ("\r\nGET / HTTP/1.0\r\n\r\n".to_owned(), Ok(())),
            (
                "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n".to_owned(),
                Err(Host),
            ),
        ];
        for (head, expected) in cases {
            assert_eq!(judged(&head), expected, "{head:?}");
        }
    }

    #[test]
    fn d10_a_host_is_a_host() {
        for host in [
            "",
            "x",
            "a-b.example",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:80",
            "a_b",
            "x:",
            "%41",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a b", "a/b", "u@h", "x:y", "x:1:2", "[::1", "[::1]x", "::1", "a\0", "\u{e4}", "a?b",
            "a, b",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn d10_nothing_is_looked_at_after_chunks() {
        let mut watch = HeadWatch::default();
        watch.came(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        assert_eq!(watch.head(Follows::Chunks), Ok(()));
        watch.came(b"cde\n\n");
        assert!(!watch.has_begun());
    }

    #[test]
    fn a_connection_begins_once() {
        let mut watch = HeadWatch::default();
        assert!(watch.is_at_beginning());
        watch.came(b"PRI * HTTP/2.0\r\n\r\n");
        assert!(watch.is_at_beginning());
        for follows in [Follows::Length(0), Follows::Chunks] {
            let mut watch = HeadWatch::default();
            watch.came(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(watch.head(follows), Ok(()));
            assert!(!watch.is_at_beginning());
        }
    }

    proptest! {
        /// However the bytes are cut, each head is found after the body before it, and a bad one is the one that is refused.
        #[test]
        fn heads_are_found_between_bodies(
            bodies in prop::collection::vec(0_usize..300, 1..8),
            cuts in prop::collection::vec(1_usize..200, 1..60),
            bad in 0_usize..8,
        ) {
            let mut stream = Vec::new();
            // Where each head ends: hyper asks when it has all of it.
            let mut ends = Vec::new();
            for (index, body) in bodies.iter().enumerate() {
                let end = if index == bad { "\n" } else { "\r\n" };
                stream.extend(format!("PUT /{index} HTTP/1.1\r\nHost: x\r\nX: 1{end}Content-Length: {body}\r\n\r\n").into_bytes());
                ends.push(stream.len());
                // Bodies that look like heads.
                stream.extend(b"\r\n\r\nGET / HTTP/1.1\n\n".iter().cycle().take(*body));
            }
            let (mut watch, mut came, mut asked) = (HeadWatch::default(), 0, 0);
            for cut in cuts.iter().cycle() {
                let next = (came + cut).min(stream.len());
                watch.came(&stream[came..next]);
                came = next;
                while asked < ends.len() && ends[asked] <= came {
                    let judged = watch.head(Follows::Length(bodies[asked] as u64));
                    prop_assert_eq!(judged.is_err(), asked == bad);
                    asked += 1;
                }
                if came == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(asked, ends.len());
            prop_assert!(!watch.has_begun());
        }
    }
}

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
#[path = "head_watch_tests.rs"]
mod tests;

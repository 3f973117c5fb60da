//! What the head of one request says about the length of its body, and whether every reader would agree (row
//! D10).

/// How the end of a request's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBodyFraming {
    /// The body has this many bytes.
    Length(u64),
    /// The body comes in chunks.
    Chunked,
}

/// What other readers could read otherwise in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousHead {
    /// A line ends without a carriage return.
    #[error("a line of the head ends in a bare line feed")]
    BareLineFeed,
    /// A carriage return that does not end a line.
    #[error("a line of the head has a bare carriage return")]
    BareCarriageReturn,
    /// Several fields give the length of the body.
    #[error("the length of the body is given more than once")]
    ConflictingLengths,
    /// A length that is not a plain number.
    #[error("the Content-Length is not a number")]
    InvalidLength,
    /// A transfer coding other than chunked alone; hyper accepts any list that ends in it.
    #[error("a Transfer-Encoding other than chunked")]
    UnsupportedEncoding,
    /// No Host, several, or a malformed one (RFC 9112 3.2).
    #[error("a request needs exactly one valid Host field")]
    InvalidHost,
    /// The end of the head is not among the bytes received.
    #[error("the end of the head was not found in the bytes received")]
    HeadNotFound,
}

/// Checks a head, with the empty line at its end and any before its beginning.
pub(super) fn check_framing(head: &[u8]) -> Result<RequestBodyFraming, AmbiguousHead> {
    let (mut lengths, mut hosts) = (0, 0);
    let mut framing = RequestBodyFraming::Length(0);
    // Whether the request is HTTP/1.0, which has no Host.
    let mut is_http10 = None;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let line = line
            .strip_suffix(b"\r\n")
            .ok_or(AmbiguousHead::BareLineFeed)?;
        if line.contains(&b'\r') {
            return Err(AmbiguousHead::BareCarriageReturn);
        }
        if !line.is_empty() {
            is_http10.get_or_insert_with(|| line.ends_with(b" HTTP/1.0"));
        }
        if let Some(value) = field(line, b"host") {
            hosts += 1;
            if !is_host(value) {
                return Err(AmbiguousHead::InvalidHost);
            }
        }
        if let Some(value) = field(line, b"content-length") {
            lengths += 1;
            framing =
                RequestBodyFraming::Length(number(value).ok_or(AmbiguousHead::InvalidLength)?);
        }
        if let Some(value) = field(line, b"transfer-encoding") {
            lengths += 1;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(AmbiguousHead::UnsupportedEncoding);
            }
            framing = RequestBodyFraming::Chunked;
        }
    }
    match (lengths, hosts) {
        (2.., _) => Err(AmbiguousHead::ConflictingLengths),
        (_, 1) => Ok(framing),
        (_, 0) if is_http10 == Some(true) => Ok(framing),
        _ => Err(AmbiguousHead::InvalidHost),
    }
}

/// Parses digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

/// Whether the value of a Host field, or the authority of a target, is a host with an optional port (RFC 3986 3.2.2), or
/// empty, which is allowed. User information is not: others may take it for the host.
#[must_use]
pub fn is_host(value: &[u8]) -> bool {
    let (is_host, rest) = match value.strip_prefix(b"[") {
        Some(inner) => match inner.iter().position(|byte| *byte == b']') {
            Some(end) => (is_ip_literal(&inner[..end]), &inner[end + 1..]),
            None => return false,
        },
        None => {
            let end = value.iter().position(|byte| *byte == b':');
            let (name, rest) = value.split_at(end.unwrap_or(value.len()));
            (is_registered_name(name), rest)
        }
    };
    let is_port = match rest {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_host && is_port
}

/// Whether the text between brackets is an IPv6 address or of a later version of IP.
fn is_ip_literal(text: &[u8]) -> bool {
    if let [b'v' | b'V', rest @ ..] = text {
        let Some(dot) = rest.iter().position(|byte| *byte == b'.') else {
            return false;
        };
        let (version, address) = (&rest[..dot], &rest[dot + 1..]);
        let is_allowed = |byte: &u8| is_name_byte(*byte) || *byte == b':';
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(is_allowed);
    }
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Whether a text is a name, in which two hexadecimal digits follow each `%`.
fn is_registered_name(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            [byte, rest @ ..] if is_name_byte(*byte) => rest,
            _ => return false,
        }
    }
}

/// Unreserved characters and sub-delimiters.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// The value of a field, if this line is the field.
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
    use super::*;

    #[test]
    fn d10_an_ambiguous_head_is_refused() {
        use AmbiguousHead::{
            BareCarriageReturn, BareLineFeed, ConflictingLengths, InvalidHost, InvalidLength,
            UnsupportedEncoding,
        };
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
                Err(ConflictingLengths),
            ),
            (
                request("transfer-encoding: chunked\r\ncontent-length: 1\r\n"),
                Err(ConflictingLengths),
            ),
            (
                request("Content-Length: 1\r\nContent-Length: 1\r\n"),
                Err(ConflictingLengths),
            ),
            (request("Content-Length: 1, 1\r\n"), Err(InvalidLength)),
            (request("Content-Length: +1\r\n"), Err(InvalidLength)),
            (request("Content-Length:\r\n"), Err(InvalidLength)),
            (
                request("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n"),
                Err(ConflictingLengths),
            ),
            (request("X: 1\nY: 2\r\n"), Err(BareLineFeed)),
            (request("X: 1\rY: 2\r\n"), Err(BareCarriageReturn)),
            ("GET / HTTP/1.1\n\n".to_owned(), Err(BareLineFeed)),
            (
                "GET / HTTP/1.1\r\nHost: x\r\n\n".to_owned(),
                Err(BareLineFeed),
            ),
            (
                request("Transfer-Encoding: gzip, chunked\r\n"),
                Err(UnsupportedEncoding),
            ),
            (
                request("Transfer-Encoding: ,chunked\r\n"),
                Err(UnsupportedEncoding),
            ),
            (request("Transfer-Encoding:\tCHUNKED \r\n"), Ok(())),
            (request("Host: x\r\n"), Err(InvalidHost)),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Err(InvalidHost)),
            ("\r\nGET / HTTP/1.0\r\n\r\n".to_owned(), Ok(())),
            (
                "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n".to_owned(),
                Err(InvalidHost),
            ),
        ];
        for (head, expected) in cases {
            let result = check_framing(head.as_bytes()).map(|_| ());
            assert_eq!(result, expected, "{head:?}");
        }
    }

    #[test]
    fn d10_host_fields_are_validated() {
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
            "[::ffff:192.0.2.1]:80",
            "[v1.fe80::a+en1]",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a b",
            "a/b",
            "u@h",
            "x:y",
            "x:1:2",
            "[::1",
            "[::1]x",
            "::1",
            "a\0",
            "\u{e4}",
            "a?b",
            "a, b",
            "[]",
            "[zz]",
            "[ab..cd::1]",
            "[::1].evil",
            "[::1]evil",
            "a[::1]:98",
            "localhost:80@evil",
            "local%zz",
            "%4",
            "[v.a]",
            "[v1.]",
            "[fe80::1%eth0]",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn d10_the_length_of_the_body_is_found() {
        let most = u64::MAX.to_string();
        for (field, framing) in [
            (String::new(), Ok(RequestBodyFraming::Length(0))),
            (
                "Content-Length: 0\r\n".to_owned(),
                Ok(RequestBodyFraming::Length(0)),
            ),
            (
                "content-length:007 \r\n".to_owned(),
                Ok(RequestBodyFraming::Length(7)),
            ),
            (
                format!("Content-Length: {most}\r\n"),
                Ok(RequestBodyFraming::Length(u64::MAX)),
            ),
            (
                format!("Content-Length: {most}0\r\n"),
                Err(AmbiguousHead::InvalidLength),
            ),
            (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                Ok(RequestBodyFraming::Chunked),
            ),
        ] {
            let head = format!("PUT / HTTP/1.1\r\nHost: x\r\n{field}\r\n");
            assert_eq!(check_framing(head.as_bytes()), framing, "{field}");
        }
    }
}

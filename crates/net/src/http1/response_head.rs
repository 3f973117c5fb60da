//! The head of a response, from bytes to header fields.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode, Version};

use super::error::Http1Error;

/// The longest head, in bytes. Real ones stay below eight thousand (row A23).
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The most fields of a head.
const MAX_FIELDS: usize = 100;

/// Takes a head from the beginning of these bytes; `None` if its end has not arrived.
///
/// # Errors
/// The bytes are no head, or it exceeds a limit.
pub(crate) fn take_response_head(buffer: &mut BytesMut) -> Result<Option<Parts>, Http1Error> {
    let Some(length) = end_of_head(buffer) else {
        return match buffer.len() {
            MAX_HEAD_BYTES.. => Err(Http1Error::HeadTooLong),
            _ => check_status_line(buffer).map(|()| None),
        };
    };
    if length > MAX_HEAD_BYTES {
        return Err(Http1Error::HeadTooLong);
    }
    parse(&buffer.split_to(length).freeze()).map(Some)
}

/// The length of a head with its empty line, and with empty lines before it. Bare line feeds end lines, too, as some servers and
/// proxies write them.
pub(crate) fn end_of_head(buffer: &[u8]) -> Option<usize> {
    let (mut start, mut has_text) = (0, false);
    while let Some(length) = memchr::memchr(b'\n', &buffer[start..]) {
        let is_empty = matches!(buffer[start..start + length], [] | [b'\r']);
        start += length + 1;
        if is_empty && has_text {
            return Some(start);
        }
        has_text |= !is_empty;
    }
    None
}

/// Whether these bytes can begin a head. A peer that speaks something else may wait for an answer to it, and not for the end of a head.
fn check_status_line(buffer: &[u8]) -> Result<(), Http1Error> {
    let mut response = httparse::Response::new(&mut []);
    match response.parse(buffer) {
        // The fields come later.
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn parse(head: &Bytes) -> Result<Parts, Http1Error> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let end = httparse::ParserConfig::default()
        // Folded lines are obsolete and harmless (row A22).
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut parsed, head, &mut fields)?;
    // Both must see the same end, or the body would begin elsewhere.
    if end != httparse::Status::Complete(head.len()) {
        return Err(httparse::Error::NewLine.into());
    }
    let (mut parts, ()) = Response::new(()).into_parts();
    let status = parsed.code.map(StatusCode::from_u16);
    parts.status = status.and_then(Result::ok).ok_or(httparse::Error::Status)?;
    parts.version = match parsed.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    parts.headers = HeaderMap::with_capacity(parsed.headers.len());
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = if field.value.contains(&b'\n') {
            HeaderValue::from_bytes(&unfold(field.value))
        } else {
            HeaderValue::from_maybe_shared(head.slice_ref(field.value))
        };
        parts.headers.append(
            name.map_err(|_| httparse::Error::HeaderName)?,
            value.map_err(|_| httparse::Error::HeaderValue)?,
        );
    }
    Ok(parts)
}

/// The lines of a value as one, with a space for each fold (RFC 9112 5.2).
fn unfold(value: &[u8]) -> Vec<u8> {
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(bytes: &[u8]) -> Result<Option<(Parts, Vec<u8>)>, Http1Error> {
        let mut buffer = BytesMut::from(bytes);
        let head = take_response_head(&mut buffer)?;
        Ok(head.map(|head| (head, buffer.to_vec())))
    }

    #[test]
    fn a_head_is_taken_when_its_end_is_there_and_what_follows_stays() {
        let bytes = b"\r\nHTTP/1.0 206 \r\nA: b\nC:d \r\na:\tx\xe9\r\n\r\nbody\n\n";
        let head = bytes.len() - 6;
        for end in 0..head {
            assert!(take(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        let (parts, rest) = take(bytes).unwrap().unwrap();
        assert_eq!(
            (parts.status.as_u16(), parts.version),
            (206, Version::HTTP_10)
        );
        assert_eq!(parts.headers["c"], "d");
        let values: Vec<&[u8]> = parts
            .headers
            .get_all("a")
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        assert_eq!(values, [&b"b"[..], b"x\xe9"]);
        assert_eq!(rest, b"body\n\n");
    }

    #[test]
    fn the_end_of_a_head_is_its_first_empty_line() {
        for (bytes, end) in [
            (&b"a\r\nb\r\n\r\nrest"[..], Some(8)),
            (b"a\n\nrest", Some(3)),
            (b"\r\n\na\n\r\nrest", Some(7)),
            (b"a\r\n \r\nb\r\n", None),
            (b"\r\n\r\n", None),
            (b"a\r\nb\r\n\r", None),
        ] {
            assert_eq!(end_of_head(bytes), end, "{bytes:?}");
        }
    }

    #[test]
    fn folded_lines_are_one() {
        let (parts, _) = take(b"HTTP/1.1 200 OK\r\nA: b\r\n  c \n\td\r\nE: f\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!(parts.headers["a"], "b c d");
        assert_eq!(parts.headers["e"], "f");
    }

    #[test]
    fn what_is_not_a_head_is_refused_at_once() {
        for bytes in [
            &b"SSH-2.0-x\r\n"[..],
            b"HTTP/2.0 200 OK",
            b"HTTP/1.1 2x0 OK",
            b"<html>",
            b"HTTP/1.1 099 x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        ] {
            assert!(matches!(take(bytes), Err(Http1Error::Head(_))), "{bytes:?}");
        }
    }

    #[test]
    fn a23_a_head_has_limits() {
        let with_fields = |count: usize, length: usize| {
            let field = format!("A: {}\r\n", "x".repeat(length));
            format!("HTTP/1.1 200 OK\r\n{}\r\n", field.repeat(count)).into_bytes()
        };
        assert_eq!(
            take(&with_fields(MAX_FIELDS, 9))
                .unwrap()
                .unwrap()
                .0
                .headers
                .len(),
            MAX_FIELDS
        );
        let too_many = take(&with_fields(MAX_FIELDS + 1, 9));
        assert!(matches!(
            too_many,
            Err(Http1Error::Head(httparse::Error::TooManyHeaders))
        ));
        let long = with_fields(1, MAX_HEAD_BYTES);
        for end in [MAX_HEAD_BYTES, long.len()] {
            assert!(matches!(take(&long[..end]), Err(Http1Error::HeadTooLong)));
        }
    }
}

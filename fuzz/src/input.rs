//! Makes arguments of parsers from a target's bytes.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, request};

/// Bytes as the value of a header field, without those that no field has.
pub(crate) fn field(bytes: &[u8]) -> HeaderValue {
    let allowed = bytes
        .iter()
        .copied()
        .filter(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..));
    HeaderValue::from_bytes(&allowed.collect::<Vec<_>>()).expect("only bytes that fields may have")
}

/// The header fields of lines; other lines are ignored.
pub(crate) fn fields(bytes: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let Some(colon) = line.iter().skip(1).position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon + 1);
        if let Ok(name) = HeaderName::from_bytes(name) {
            headers.append(name, field(value[1..].trim_ascii()));
        }
    }
    headers
}

/// The first line, and what follows it.
pub(crate) fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

/// Text, whatever the bytes are.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A request's head: `METHOD TARGET` and lines of header fields.
pub(crate) fn request_head(bytes: &[u8]) -> Option<request::Parts> {
    let (line, rest) = first_line(bytes);
    let line = str::from_utf8(line).ok()?;
    let (method, target) = line.trim_end().split_once(' ')?;
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::from_bytes(method.as_bytes()).ok()?;
    head.uri = target.parse::<Uri>().ok()?;
    head.headers = fields(rest);
    Some(head)
}

/// Cuts bytes into pieces. Their lengths follow from the bytes themselves, so that a failure happens again.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    let mut state = bytes.len() as u64 + 1;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ u64::from(first);
        let length = match state >> 61 {
            0..=3 => 1,
            4..=6 => usize::from(first % 16) + 1,
            _ => usize::from(first) + 1,
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        Some(piece)
    })
}

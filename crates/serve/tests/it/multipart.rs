//! Parses multipart/byteranges (RFC 9110 14.6) strictly: any deviation is a panic.

use std::ops::Range;

use crate::client::{TestResponse, find};

/// One part: its range, the length of the file, and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyPart {
    pub(crate) range: Range<usize>,
    pub(crate) len: usize,
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
}

#[track_caller]
pub(crate) fn parse_parts(response: &TestResponse) -> Vec<BodyPart> {
    let kind = response.header("content-type").expect("a type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("multipart/byteranges");
    // RFC 2046 5.1.1.
    assert!((1..=70).contains(&boundary.len()), "{boundary}");
    assert!(
        response.header("content-range").is_none(),
        "only parts may have this header"
    );
    let mut rest = &response.body[..];
    let mut parts = Vec::new();
    let (first, next) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    rest = rest.strip_prefix(first.as_bytes()).expect("a boundary");
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = find(part, b"\r\n\r\n").expect("a part's head");
        let head = std::str::from_utf8(&part[..end]).unwrap();
        let field = |name: &str| {
            let mut lines = head
                .split("\r\n")
                .filter_map(|line| line.strip_prefix(name));
            let value = lines.next().expect("a part's field");
            assert!(lines.next().is_none(), "{head}");
            value.to_owned()
        };
        let (range, len) = parse_content_range(&field("Content-Range: "));
        let body = &part[end + 4..];
        let bytes = body.get(..range.len()).expect("all of a part").to_vec();
        parts.push(BodyPart {
            kind: field("Content-Type: "),
            bytes,
            len,
            range: range.clone(),
        });
        rest = body[range.len()..]
            .strip_prefix(next.as_bytes())
            .expect("a boundary");
    }
    assert_eq!(rest, b"--\r\n");
    parts
}

/// Parses `bytes A-B/LEN`.
#[track_caller]
pub(crate) fn parse_content_range(value: &str) -> (Range<usize>, usize) {
    let (range, len) = value
        .strip_prefix("bytes ")
        .unwrap()
        .split_once('/')
        .unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let [first, last, len] = [first, last, len].map(|number| number.parse::<usize>().unwrap());
    assert!(first <= last && last < len, "{value}");
    (first..last + 1, len)
}

//! What origins and proxies send.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use haul_net::{Login, Proxy, Secret, Target, fuzzing};
use haul_plan::{
    BodyFraming, ChunkError, ChunkedDecoder, ChunkedPart, EntityTag, OriginalFile, ResourceVersion,
    RetryAfterText, UnixTime, VersionMatch, WaitText, expected_digests, redirect_digests,
    requested_wait as requested_wait_of,
};
use haul_transfer::fuzzing as transfer;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use url::Url;

use crate::input;
use crate::names::assert_safe_name;

fn base() -> Url {
    Url::parse("http://user@h.example/a/b?c").expect("a URL")
}

/// The head of an HTTP/1.1 response. It ends where it ends whatever follows, and its fields are the same when they are sent again.
pub(crate) fn response_head(data: &[u8]) {
    let Some((head, length)) = fuzzing::response_head(data) else {
        return;
    };
    let (again, whole) = fuzzing::response_head(&data[..length]).expect("a whole head");
    assert_eq!((whole, &again.headers), (length, &head.headers));
    assert_eq!(
        fuzzing::response_head(&data[..length - 1]).map(|_| ()),
        None
    );
    let framing =
        BodyFraming::from_response(&Method::GET, head.status, head.version, &head.headers);
    if let Ok(framing) = framing {
        let keeps = framing.keeps_connection(head.version, &head.headers);
        assert!(!(keeps && matches!(framing, BodyFraming::UntilClose(_))));
        if let BodyFraming::Length(length @ 1..) = framing {
            let first = head.headers[CONTENT_LENGTH].to_str().expect("digits");
            let digits = first.split(',').next().unwrap_or_default().trim();
            assert_eq!(digits.parse(), Ok(length));
        }
    }
    let mut printed = format!("HTTP/1.1 {} x\r\n", head.status.as_u16()).into_bytes();
    for (name, value) in &head.headers {
        printed.extend_from_slice(
            &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat(),
        );
    }
    printed.extend_from_slice(b"\r\n");
    let (parsed, length) = fuzzing::response_head(&printed).expect("a head that was printed");
    assert_eq!((parsed.status, length), (head.status, printed.len()));
    let trimmed = |headers: &HeaderMap| -> Vec<(String, Vec<u8>)> {
        let fields = headers.iter();
        fields
            .map(|(name, value)| (name.to_string(), value.as_bytes().trim_ascii().to_vec()))
            .collect()
    };
    assert_eq!(trimmed(&parsed.headers), trimmed(&head.headers));
}

/// A proxy's response to CONNECT.
pub(crate) fn connect_response(data: &[u8]) {
    if let Some((status, is_reusable, reason)) = fuzzing::connect_response(data) {
        assert!(
            !(is_reusable && data.starts_with(b"HTTP/1.0 ")),
            "{status} {reason:?}"
        );
    }
}

/// The chunks of a body: however they arrive, the same bytes come out, and no more of them than came in.
pub(crate) fn chunked_body(data: &[u8]) {
    let whole = unchunked(std::iter::once(data));
    assert!(whole.0.len() <= data.len() && whole.1 <= data.len());
    let in_pieces = unchunked(input::pieces(data));
    assert_eq!(in_pieces.2, whole.2);
    match whole.2 {
        Ok(_) => assert_eq!(in_pieces, whole),
        // What came before the mistake is the same.
        Err(_) => assert_eq!(in_pieces.0, whole.0),
    }
}

/// The decoded bytes, how many bytes were taken, and whether the body has ended.
fn unchunked<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<u8>, usize, Result<bool, ChunkError>) {
    let mut decoder = ChunkedDecoder::default();
    let (mut decoded, mut taken) = (Vec::new(), 0);
    for mut piece in pieces {
        loop {
            let (framing, part) = match decoder.read_framing(piece) {
                Ok(read) => read,
                Err(error) => return (decoded, taken, Err(error)),
            };
            taken += framing;
            piece = &piece[framing..];
            match part {
                ChunkedPart::End => return (decoded, taken, Ok(true)),
                ChunkedPart::NeedsMore => break,
                ChunkedPart::Data(length) => {
                    assert!((1..=piece.len()).contains(&length));
                    decoded.extend_from_slice(&piece[..length]);
                    taken += length;
                    piece = &piece[length..];
                }
            }
            if piece.is_empty() {
                break;
            }
        }
    }
    (decoded, taken, Ok(false))
}

/// Content-Range: the range is not empty and lies within the total, and parses as the same when it is printed.
pub(crate) fn content_range(data: &[u8]) {
    let Some((parsed, total)) = transfer::content_range(data) else {
        return;
    };
    let printed_total = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
    let range = match &parsed {
        None => "*".to_owned(),
        Some(range) => {
            assert!(!range.is_empty() && range.end <= total.unwrap_or(u64::MAX));
            format!("{}-{}", range.start, range.end - 1)
        }
    };
    let printed = format!("bytes {range}/{printed_total}");
    assert_eq!(
        transfer::content_range(printed.as_bytes()),
        Some((parsed, total))
    );
}

/// Content-Disposition: a name is one safe component.
pub(crate) fn content_disposition(data: &[u8]) {
    if let Some(name) = transfer::name_of_disposition(&input::field(data)) {
        assert_safe_name(&name);
    }
    if let Some(name) = transfer::sanitized_name(&input::text(data)) {
        assert_safe_name(&name);
    }
    if let Ok(url) = base().join(&input::text(data)) {
        assert_safe_name(&transfer::name_of_url(&url));
    }
}

/// WWW-Authenticate, a challenge a line: what answers it is one field, in which all quoted strings end.
pub(crate) fn challenges(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(8) {
        headers.append(WWW_AUTHENTICATE, input::field(line));
    }
    let login = Login {
        user: "a \"user\\".to_owned(),
        password: Secret::new("p\u{e4}ss:word".to_owned()),
    };
    let (realm, value) = fuzzing::answer_challenges(&headers, login, &base());
    if let Some(realm) = realm {
        assert!(realm.chars().count() <= 120 && !realm.contains(char::is_control));
    }
    let value = value.expect("a login has an answer, Basic at least");
    assert!(value.is_sensitive());
    let text = value.as_bytes();
    assert!(text.starts_with(b"Basic ") || text.starts_with(b"Digest "));
    assert!(has_whole_quotes(text), "{}", text.escape_ascii());
}

/// Whether each quoted string of a field has its end.
fn has_whole_quotes(field: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for byte in field {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    !is_quoted
}

/// Link, a field a line: mirrors are HTTP URLs in the order of their priority, and are found again when they are printed.
pub(crate) fn link_header(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(8) {
        headers.append(LINK, input::field(line));
    }
    let (duplicates, metalinks) = transfer::mirrors_of_links(&headers, &base());
    assert!(duplicates.len() + metalinks.len() <= 256);
    assert!(duplicates.is_sorted_by_key(|(priority, _)| *priority));
    let urls = duplicates.iter().map(|(_, url)| url);
    for url in urls.chain(&metalinks) {
        assert!(
            matches!(url.scheme(), "http" | "https") && url.has_host(),
            "{url}"
        );
    }
    let mut printed = HeaderMap::new();
    for (priority, url) in &duplicates {
        assert!((1..=999_999).contains(priority));
        let text = format!("<{url}>; rel=duplicate; pri={priority}");
        printed.append(LINK, HeaderValue::from_str(&text).expect("a URL is ASCII"));
    }
    // A reference may grow beyond the limit of references when it is escaped.
    if printed.values().all(|value| value.len() < 8000) {
        assert_eq!(transfer::mirrors_of_links(&printed, &base()).0, duplicates);
    }
}

/// Retry-After and the fields of rate limits, as the fields of a response.
pub(crate) fn requested_wait(data: &[u8]) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let headers = input::fields(data);
    for status in [429, 503, 403, 200] {
        let status = StatusCode::from_u16(status).expect("a status");
        let wait = requested_wait_of(status, &headers, now);
        let text = format!(
            "{}{}",
            RetryAfterText(wait),
            WaitText(wait.unwrap_or_default())
        );
        assert!(text.len() < 100, "{text}");
        let seconds = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            // A number may have a plus sign for this parser.
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse::<u32>().ok());
        if let Some(seconds) = seconds {
            assert_eq!(wait, Some(Duration::from_secs(seconds.into())));
        }
    }
}

/// The fields of a response that say which version of a file it is of: what was read is the same when it is printed.
pub(crate) fn validators(data: &[u8]) {
    let headers = input::fields(data);
    let version = ResourceVersion::from_headers(Some(7), &headers);
    assert_eq!(version.compare(&version), VersionMatch::Same);
    if let Some(etag) = &version.etag {
        assert_eq!(etag.to_string().parse::<EntityTag>().as_ref(), Ok(etag));
    }
    if let Some(media) = &version.media_type {
        assert!(
            !media.contains(char::is_control),
            "{:?}",
            headers.get(CONTENT_TYPE)
        );
    }
    drop(version.if_range());
    for expected in [expected_digests(&headers, true), redirect_digests(&headers)].concat() {
        assert_eq!(expected.digest.len(), expected.algorithm.digest_len());
    }
    let _ = OriginalFile::from_headers(&headers);
    if let Ok(time) = input::text(data).trim().parse::<UnixTime>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
}

/// A proxy that reads anything and sends the rest of these bytes.
struct ScriptedProxy<'a>(&'a [u8]);

impl AsyncRead for ScriptedProxy<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (piece, rest) = self.0.split_at(self.0.len().min(buffer.remaining()));
        buffer.put_slice(piece);
        self.0 = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedProxy<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What a SOCKS5 proxy sends: of a reply all bytes are read, and none of the target's behind it.
pub(crate) fn socks_proxy(data: &[u8]) {
    let target: Target = "h.example:443".parse().expect("a target");
    for (proxy, login_bytes) in [("socks5://p:1080", 0), ("socks5://u:p@p:1080", 2)] {
        let proxy: Proxy = proxy.parse().expect("a proxy");
        let mut stream = ScriptedProxy(data);
        if !fuzzing::socks_handshake(&mut stream, &target, &proxy) {
            continue;
        }
        let reply = 2 + if data[1] == 2 { login_bytes } else { 0 };
        let address = match data[reply + 3] {
            1 => 4,
            4 => 16,
            _ => 1 + usize::from(data[reply + 4]),
        };
        assert_eq!(data.len() - stream.0.len(), reply + 4 + address + 2);
    }
}

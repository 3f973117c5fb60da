//! What clients send to `haul serve` and `haul tunnel`.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use haul_net::Target;
use haul_plan::EntityTag;
use haul_plan::serving::{
    ConditionOutcome, CurrentRepresentation, RangeLimits, RangeSelection, RequestConditions,
    select_ranges_of_value,
};
use haul_serve::access::{
    AccessControl, AccessDecision, AccessOptions, AccessRequest, SignableMethod, SigningKey,
    is_cross_site, redact_signature,
};
use haul_serve::page::ListQuery;
use haul_serve::page::form::{FormError, FormReader, MAX_PARTS};
use haul_serve::{
    AmbiguousHead, ObjectKey, RequestBodyFraming, RequestPath, SmugglingGuard, is_host,
};
use haul_tunnel::fuzzing;
use http::Method;
use http::header::{AUTHORIZATION, HOST, PROXY_AUTHORIZATION};

use crate::input;

/// The heads on one connection, as the guard against request smuggling reads them: the pieces in which they arrive make no difference, and
/// what it accepts has one length, and a Host that is one.
pub(crate) fn request_head(data: &[u8]) {
    let mut whole = SmugglingGuard::default();
    whole.observe(data);
    let mut in_pieces = SmugglingGuard::default();
    input::pieces(data).for_each(|piece| in_pieces.observe(piece));
    let mut rest = data;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        // What this parser refuses hyper refuses, too: it uses the same.
        let Ok(httparse::Status::Complete(end)) = request.parse(rest) else {
            return;
        };
        let values = |name: &str| -> Vec<&[u8]> {
            let fields = request.headers.iter();
            let found = fields.filter(|field| field.name.eq_ignore_ascii_case(name));
            found.map(|field| field.value).collect()
        };
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        let length = || str::from_utf8(lengths.first()?).ok()?.parse().ok();
        let framing = if codings.is_empty() {
            RequestBodyFraming::Length(length().unwrap_or(0))
        } else {
            RequestBodyFraming::Chunked
        };
        let verdict = whole.check_head(framing);
        assert_eq!(in_pieces.check_head(framing), verdict);
        assert_ne!(verdict, Err(AmbiguousHead::HeadNotFound), "{request:?}");
        if verdict.is_err() {
            return;
        }
        assert!(lengths.len() + codings.len() <= 1 && values("host").into_iter().all(is_host));
        let RequestBodyFraming::Length(length) = framing else {
            return;
        };
        let body = usize::try_from(length).unwrap_or(usize::MAX);
        rest = rest[end..].get(body..).unwrap_or_default();
    }
}

/// The length of a file, and a line with a Range: what is selected lies within the file, and is no longer than it.
pub(crate) fn byte_ranges(data: &[u8]) {
    let (length, value) = input::first_line(data);
    let length = input::text(length).trim().parse().unwrap_or(1000_u64);
    let limits = RangeLimits::default();
    let ranges = match select_ranges_of_value(value, length, &limits) {
        RangeSelection::Whole | RangeSelection::Unsatisfiable => return,
        RangeSelection::Single(range) => vec![range],
        RangeSelection::Multiple(ranges) => {
            assert!((2..=limits.max_ranges).contains(&ranges.len()));
            ranges
        }
    };
    let mut total = 0;
    for range in &ranges {
        assert!(!range.is_empty() && range.end <= length, "{range:?}");
        total += u128::from(range.end - range.start);
    }
    assert!(total <= u128::from(length));
    let list: Vec<_> = ranges
        .iter()
        .map(|range| format!("{}-{}", range.start, range.end - 1))
        .collect();
    let printed = format!("bytes={}", list.join(","));
    let expected = match &ranges[..] {
        [single] => RangeSelection::Single(single.clone()),
        _ => RangeSelection::Multiple(ranges),
    };
    assert_eq!(
        select_ranges_of_value(printed.as_bytes(), length, &limits),
        expected
    );
}

/// A request's path and query: the key has only plain segments, and is the same when it is escaped and parsed.
pub(crate) fn object_key(data: &[u8]) {
    let text = input::text(data);
    let (path, query) = text.split_once('?').unwrap_or((&text, ""));
    if let Ok(RequestPath { key, is_folder }) = ObjectKey::parse(path) {
        for segment in key.segments() {
            assert!(!matches!(segment, b"." | b"..") && segment.len() <= 255);
            assert!(!segment.contains(&0));
        }
        assert_ne!(key.segments().next(), Some(&b".haul"[..]));
        let escaped = if is_folder && !key.is_root() {
            format!("{}/", key.escaped())
        } else {
            key.escaped()
        };
        assert_eq!(
            ObjectKey::parse(&escaped),
            Ok(RequestPath { key, is_folder })
        );
    }
    if let Ok(query) = ListQuery::parse(query) {
        drop(query.page_request(1000));
    }
    let redacted = redact_signature(query);
    assert!(redacted.split('&').count() == query.split('&').count());
}

static SIGNING_KEY: LazyLock<SigningKey> =
    LazyLock::new(|| SigningKey::new(b"a key of sixteen bytes or more..").expect("a key"));

static ACCESS: LazyLock<AccessControl> = LazyLock::new(|| {
    let options = AccessOptions {
        users: vec!["ann:secret:rw".parse().expect("a rule")],
        signing_key: Some(SIGNING_KEY.clone()),
        ..AccessOptions::default()
    };
    AccessControl::new(options).expect("rules")
});

/// A head with conditions and credentials. Without the right ones nobody may write, and a URL that is signed here is good.
pub(crate) fn access(data: &[u8]) {
    let Some(head) = input::request_head(data) else {
        return;
    };
    let Ok(path) = ObjectKey::parse(head.uri.path()) else {
        return;
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let mut request = AccessRequest {
        method: &head.method,
        path: &path,
        query: head.uri.query(),
        headers: &head.headers,
        now,
        peer: None,
    };
    let is_granted = |request: &AccessRequest<'_>| {
        matches!(ACCESS.authorize(request), AccessDecision::Granted(_))
    };
    let query = head.uri.query().unwrap_or_default();
    let has_signature = query.contains("haul-signature");
    if is_granted(&request) && head.method == Method::PUT && !has_signature {
        let field = head.headers[AUTHORIZATION].as_bytes();
        assert!(
            field[..6].eq_ignore_ascii_case(b"basic "),
            "{}",
            field.escape_ascii()
        );
        let coded = input::text(field.trim_ascii());
        assert!(
            coded.trim_end_matches('=').ends_with("YW5uOnNlY3JldA"),
            "{coded}"
        );
    }
    let expires = now + Duration::from_secs(60);
    let signed = SIGNING_KEY.sign(SignableMethod::Put, &path, head.uri.query(), expires);
    (request.query, request.method) = (Some(&*signed), &Method::PUT);
    assert!(is_granted(&request), "{signed}");
    request.method = &Method::DELETE;
    assert!(
        !is_granted(&request) || head.headers.contains_key(AUTHORIZATION),
        "{signed}"
    );
    let _ = is_cross_site(&head.headers, "h.example", false);
    let conditions = RequestConditions::parse(&head.headers);
    let etag = EntityTag::new_strong("a");
    let current = CurrentRepresentation {
        etag: Some(&etag),
        last_modified: Some(now),
    };
    let outcome = conditions.evaluate_read(current);
    assert!(!conditions.is_empty() || outcome == ConditionOutcome::Proceed);
}

/// A line with a content type, and a form: files come out the same however the body arrives, with no more bytes than it has, under names that
/// are one segment.
pub(crate) fn multipart_form(data: &[u8]) {
    let (content_type, body) = input::first_line(data);
    let content_type = input::text(content_type);
    let whole = files_of_form(&content_type, std::iter::once(body));
    let in_pieces = files_of_form(&content_type, input::pieces(body));
    let lengths = whole.0.iter().map(|(_, bytes)| bytes.len());
    assert!(lengths.sum::<usize>() <= body.len() && whole.0.len() <= MAX_PARTS);
    for (key, _) in &whole.0 {
        assert_eq!(key.segments().count(), 2, "{key}");
    }
    assert_eq!(in_pieces.1, whole.1);
    if whole.1.is_none() {
        assert_eq!(in_pieces.0, whole.0);
    }
}

/// The files of a form, and the error with which it ends.
fn files_of_form<'a>(
    content_type: &str,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<(ObjectKey, Vec<u8>)>, Option<String>) {
    let folder = ObjectKey::root().child(b"folder").expect("a name");
    let body: Vec<Result<Bytes, FormError>> = pieces
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    let mut files = Vec::new();
    let reading = async {
        let mut form = FormReader::new(content_type, folder, stream::iter(body))?;
        while let Some(key) = form.next_file().await? {
            files.push((key, Vec::new()));
            while let Some(chunk) = form.chunk().await? {
                assert!(!chunk.is_empty());
                files
                    .last_mut()
                    .expect("a file")
                    .1
                    .extend_from_slice(&chunk);
            }
        }
        Ok(())
    };
    let result: Result<(), FormError> = reading.now_or_never().expect("the body never waits");
    (files, result.err().map(|error| error.to_string()))
}

/// What a client of a SOCKS listener sends: a message ends where it ends whatever follows, and the target is one that a user could write.
pub(crate) fn socks_client(data: &[u8]) {
    let request = match fuzzing::socks_greeting(data) {
        Some(length) => {
            assert_eq!(fuzzing::socks_greeting(&data[..length - 1]), None);
            &data[length..]
        }
        None => data,
    };
    let Some((target, length)) = fuzzing::socks_request(request) else {
        return;
    };
    assert!(length <= 4 + 256 + 2);
    assert_eq!(
        fuzzing::socks_request(&request[..length]),
        Some((target.clone(), length))
    );
    assert_eq!(fuzzing::socks_request(&request[..length - 1]), None);
    assert_sendable(&target);
}

/// A request for a proxy: what goes on has one Host, that of its URL, and no login for this proxy.
pub(crate) fn forwarded_request(data: &[u8]) {
    let Some(head) = input::request_head(data) else {
        return;
    };
    let Ok((target, for_origin, for_proxy)) = fuzzing::forwarded_request(head) else {
        return;
    };
    assert_sendable(&target);
    assert_eq!(for_origin.headers(), for_proxy.headers());
    assert!(!for_origin.headers().contains_key(PROXY_AUTHORIZATION));
    let hosts: Vec<_> = for_origin.headers().get_all(HOST).iter().collect();
    let authority = for_proxy
        .uri()
        .authority()
        .expect("an absolute URL")
        .as_str();
    assert_eq!(hosts, [authority]);
    assert!(is_host(authority.as_bytes()), "{authority}");
    assert_eq!(for_origin.uri().authority(), None);
    assert_eq!(
        for_origin.uri().path_and_query(),
        for_proxy.uri().path_and_query()
    );
}

/// Checks that a target cannot end a line of a request, and is parsed as the same when it is printed.
fn assert_sendable(target: &Target) {
    let text = target.to_string();
    assert!(!text.contains(|c: char| c.is_control()
        || c.is_whitespace()
        || matches!(c, '/' | '@' | '?' | '#')));
    // A longer name cannot be looked up, and users may not write it.
    if target.host.len() <= 253 {
        assert_eq!(text.parse().as_ref(), Ok(target));
    }
}

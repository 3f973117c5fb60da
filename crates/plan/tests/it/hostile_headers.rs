//! Header fields as hostile and careless peers write them, made of the tokens of proper ones.
//!
//! Random bytes hardly ever get past a parser's first check; these do. Each property has a model that shares
//! no code with the parser: what the parser understood must be in the text.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_plan::{EntityTag, ResourceVersion, expected_digests, parse_retry_after};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

/// Up to `most` of these tokens, in any order.
fn tokens(of: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(of), 0..most).prop_map(|tokens| tokens.concat())
}

/// A text as a header's value; other texts never reach a parser.
fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

const DIGESTS: &[&str] = &[
    "sha-256",
    "SHA-256",
    "sha-512",
    "sha",
    "md5",
    "crc32c",
    "unixsum",
    "=",
    "=:",
    ":",
    ",",
    ", ",
    ";q=1",
    " ",
    "==",
    "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=",
    "HUXZLQLMuI/KZ5KDcJPcOA==",
    "AAAAAA==",
    "YQ==",
    "-3",
    "*",
    "\"",
    "2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
    "é",
];

/// Fields about the representation, which a partial response may have.
const REPRESENTATION_FIELDS: [&str; 2] = ["repr-digest", "digest"];

/// Fields about the content of a response.
const CONTENT_FIELDS: [&str; 5] = [
    "content-digest",
    "content-md5",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha1",
    "x-amz-checksum-crc32c",
];

proptest! {
    #[test]
    fn a26_a_parsed_digest_is_in_the_text_of_its_field(text in tokens(DIGESTS, 10), whole: bool) {
        for name in REPRESENTATION_FIELDS.into_iter().chain(CONTENT_FIELDS) {
            let mut headers = HeaderMap::new();
            headers.extend(value(&text).map(|value| (http::HeaderName::from_static(name), value)));
            for expected in expected_digests(&headers, whole) {
                prop_assert_eq!(expected.digest.len(), expected.algorithm.digest_len());
                prop_assert!(text.contains(&STANDARD.encode(&expected.digest)), "{:?} of {text:?}", expected);
                prop_assert_eq!(expected.field.to_ascii_lowercase(), name);
                prop_assert!(whole || REPRESENTATION_FIELDS.contains(&name), "{:?} on a part", expected);
            }
        }
    }
}

const WAITS: &[&str] = &[
    "0",
    "7",
    "120",
    "99999999999999999999999",
    "-",
    "+",
    ".",
    " ",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "GMT",
    "1994",
    ":",
    "é",
    "Sun, 99 Nov 1994 08:49:37 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
];

proptest! {
    #[test]
    fn a17_a_retry_after_is_seconds_or_a_date(text in tokens(WAITS, 4), now in 0u64..1 << 34) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let Some(value) = value(&text) else { return Ok(()) };
        let found = parse_retry_after(&value, now);
        let text = text.trim();
        let expected = if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
            Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
        } else {
            let date = httpdate::parse_http_date(text).ok();
            date.map(|date| date.duration_since(now).unwrap_or_default())
        };
        prop_assert_eq!(found, expected);
    }
}

const TAGS: &[&str] = &[
    "W/", "w/", "\"", "a", "v1", "é", " ", ",", "*", "-gzip", "\t", "\u{7f}", "\\\"", "W", "/", "!",
];

const DATES: &[&str] = &[
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 08:50:37 GMT",
    "Sun, 06 Nov 1994 08:49:38 GMT",
    "yesterday",
    "",
    "é",
];

/// A version from any response head.
fn any_version() -> impl Strategy<Value = (ResourceVersion, String, String)> {
    let date = || prop::sample::select(DATES);
    let length = prop::option::of(0u64..3);
    (length, tokens(TAGS, 6), any::<bool>(), date(), date()).prop_map(
        |(length, tag, quoted, modified, date)| {
            let tag = if quoted { format!("\"{tag}\"") } else { tag };
            let fields = [
                ("etag", tag.as_str()),
                ("last-modified", modified),
                ("date", date),
            ]
            .into_iter()
            .filter_map(|(name, text)| Some((http::HeaderName::from_static(name), value(text)?)));
            (
                ResourceVersion::from_headers(length, &fields.collect()),
                tag.clone(),
                modified.to_owned(),
            )
        },
    )
}

proptest! {
    #[test]
    fn a6_a_parsed_tag_is_the_text_of_the_field(text in tokens(TAGS, 6)) {
        if let Ok(tag) = text.parse::<EntityTag>() {
            let text = text.trim();
            prop_assert_eq!(tag.to_string(), text);
            prop_assert_eq!(tag.is_strong(), text.starts_with('"'));
            prop_assert!(text.ends_with('"') && text.matches('"').count() == 2, "{:?}", text);
            prop_assert_eq!(tag.strong_eq(&tag), tag.is_strong());
            prop_assert!(tag.weak_eq(&tag));
        }
    }

    #[test]
    fn a6_if_range_is_a_strong_tag_or_an_old_date_of_the_origin((version, tag, modified) in any_version()) {
        prop_assert!(version.is_same(&version));
        let sent = version.if_range();
        if let Some(sent) = sent {
            let sent = sent.as_bytes();
            prop_assert!(!sent.starts_with(b"W/"));
            if version.etag.is_some() {
                prop_assert_eq!(sent, tag.trim().as_bytes());
            } else {
                prop_assert_eq!(sent, modified.as_bytes());
            }
        }
    }

    #[test]
    fn a5_versions_are_the_same_only_if_nothing_differs((a, ..) in any_version(), (b, ..) in any_version()) {
        let differ = |a: Option<String>, b: Option<String>| a.is_some() && b.is_some() && a != b;
        let opaque = |version: &ResourceVersion| {
            let tag = version.etag_text();
            tag.map(|tag| tag.trim_start_matches("W/").to_owned())
        };
        if a.is_same(&b) {
            prop_assert!(!matches!((a.length, b.length), (Some(a), Some(b)) if a != b));
            prop_assert!(!differ(opaque(&a), opaque(&b)));
            prop_assert!(a.etag.is_none() || b.etag.is_some());
        }
    }
}

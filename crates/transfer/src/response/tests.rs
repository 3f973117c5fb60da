//! [`classify_response`], row by row, and that no head makes it accept a byte that was not requested.

use super::content_range::ContentRangeError;
use super::*;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect()
}

fn known_version() -> ResourceVersion {
    ResourceVersion::from_headers(Some(1000), &headers(&[("etag", "\"v1\"")]))
}

/// A request for the middle of a file whose version is known.
fn middle(version: &ResourceVersion) -> RequestedContent<'_> {
    RequestedContent {
        range: Some(100..200),
        on_disk: BytesOnDisk::Joined(version),
        ..RequestedContent::default()
    }
}

/// A job's first request.
fn first() -> RequestedContent<'static> {
    RequestedContent {
        range: Some(0..100),
        ..RequestedContent::default()
    }
}

fn classify(
    request: &RequestedContent<'_>,
    status: u16,
    pairs: &[(&'static str, &str)],
) -> Result<ResponseContent, RequestFailure> {
    classify_response(
        request,
        StatusCode::from_u16(status).unwrap(),
        &headers(pairs),
        SystemTime::UNIX_EPOCH,
    )
}

fn unusable_reason(
    request: &RequestedContent<'_>,
    status: u16,
    pairs: &[(&'static str, &str)],
) -> UnusableResponse {
    match classify(request, status, pairs) {
        Err(RequestFailure::Unusable(reason)) => reason,
        other => panic!("not unusable: {other:?}"),
    }
}

const TAG: (&str, &str) = ("etag", "\"v1\"");

#[test]
fn a1_the_requested_range_of_the_same_version_is_accepted() {
    let version = known_version();
    let found = classify(
        &middle(&version),
        206,
        &[
            ("content-range", "bytes 100-199/1000"),
            ("content-length", "100"),
            TAG,
        ],
    );
    assert!(
        matches!(found, Ok(ResponseContent::Part { range, total: 1000, .. }) if range == (100..200))
    );
    let shorter = classify(
        &middle(&version),
        206,
        &[("content-range", "bytes 100-149/1000"), TAG],
    );
    assert!(matches!(shorter, Ok(ResponseContent::Part { range, .. }) if range == (100..150)));
}

#[test]
fn a2_a_200_to_the_first_request_is_the_whole_file() {
    let found = classify(&first(), 200, &[("content-length", "1000"), TAG]);
    assert!(matches!(
        found,
        Ok(ResponseContent::Whole {
            length: Some(1000),
            coding: None,
            ..
        })
    ));
}

#[test]
fn a3_a_200_to_a_range_in_the_middle_is_an_ignored_range() {
    let version = known_version();
    assert_eq!(
        classify(&middle(&version), 200, &[("content-length", "1000"), TAG]),
        Err(RequestFailure::RangeIgnored)
    );
}

#[test]
fn a4_a_200_to_if_range_with_the_same_tag_is_a_misread_if_range() {
    let version = known_version();
    let request = RequestedContent {
        if_range_sent: true,
        ..middle(&version)
    };
    assert_eq!(
        classify(&request, 200, &[("content-length", "1000"), TAG]),
        Err(RequestFailure::IfRangeMisread)
    );
    assert!(matches!(
        classify(
            &request,
            200,
            &[("content-length", "1000"), ("etag", "\"v2\"")]
        ),
        Err(RequestFailure::Changed)
    ));
}

#[test]
fn a5_another_tag_or_total_is_a_change_whatever_the_status() {
    let version = known_version();
    let part = ("content-range", "bytes 100-199/1000");
    for (status, pairs) in [
        (206, vec![part, ("etag", "\"v2\"")]),
        (206, vec![("content-range", "bytes 100-199/1001"), TAG]),
        (
            206,
            vec![("content-range", "bytes 0-9/10"), ("etag", "\"v2\"")],
        ),
        (200, vec![("content-length", "1000"), ("etag", "\"v2\"")]),
        (200, vec![("content-length", "999"), TAG]),
    ] {
        assert!(
            matches!(
                classify(&middle(&version), status, &pairs),
                Err(RequestFailure::Changed)
            ),
            "{status} {pairs:?}"
        );
    }
}

#[test]
fn a6_a_part_without_the_known_validator_is_unusable() {
    let version = known_version();
    assert_eq!(
        unusable_reason(
            &middle(&version),
            206,
            &[("content-range", "bytes 100-199/1000")]
        ),
        UnusableResponse::MissingValidator
    );
}

#[test]
fn a7_without_validators_length_and_range_decide() {
    let version = ResourceVersion {
        length: Some(1000),
        ..ResourceVersion::default()
    };
    let part = |value| classify(&middle(&version), 206, &[("content-range", value)]);
    assert!(matches!(
        part("bytes 100-199/1000"),
        Ok(ResponseContent::Part { .. })
    ));
    assert!(matches!(
        part("bytes 100-199/2000"),
        Err(RequestFailure::Changed)
    ));
}

#[test]
fn a8_a_wrong_range_a_missing_total_and_a_contradiction_are_unusable() {
    let version = known_version();
    let why = |range: &'static str| {
        unusable_reason(&middle(&version), 206, &[("content-range", range), TAG])
    };
    assert_eq!(why("bytes 0-99/1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes 101-199/1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes */1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes 100-1000/*"), UnusableResponse::WrongRange);
    let first_of_unknown = [("content-range", "bytes 0-99/*"), TAG];
    assert_eq!(
        unusable_reason(&first(), 206, &first_of_unknown),
        UnusableResponse::MissingTotal
    );
    assert!(matches!(
        why("bytes 199-100/1000"),
        UnusableResponse::ContentRange(ContentRangeError::Reversed)
    ));
    assert!(matches!(
        why("rubbish"),
        UnusableResponse::ContentRange(ContentRangeError::Malformed)
    ));
    let longer = [
        ("content-range", "bytes 100-199/1000"),
        ("content-length", "101"),
        TAG,
    ];
    assert_eq!(
        unusable_reason(&middle(&version), 206, &longer),
        UnusableResponse::LengthMismatch
    );
    assert_eq!(
        unusable_reason(
            &RequestedContent::default(),
            206,
            &[("content-range", "bytes 0-9/10")]
        ),
        UnusableResponse::UnrequestedPartial
    );
}

#[test]
fn a40_bytes_up_to_the_end_asked_for_count_and_the_total_may_be_known_already() {
    let version = known_version();
    for (range, length) in [
        ("bytes 100-299/1000", "200"),
        ("bytes 100-999/1000", "900"),
        ("bytes 100-199/*", "100"),
        ("bytes 100-999/*", "900"),
    ] {
        let pairs = [("content-range", range), ("content-length", length), TAG];
        let found = classify(&middle(&version), 206, &pairs);
        let Ok(ResponseContent::Part { range, total, .. }) = found else {
            panic!("{range}: {found:?}");
        };
        assert_eq!((range, total), (100..200, 1000));
    }
    let other = [("content-range", "bytes 100-199/*"), ("etag", "\"v2\"")];
    let found = classify(&middle(&version), 206, &other);
    assert_eq!(found, Err(RequestFailure::Changed));
}

#[test]
fn a9_a_part_without_content_range_and_a_multipart_body_are_unusable() {
    assert_eq!(
        unusable_reason(&first(), 206, &[TAG]),
        UnusableResponse::MissingContentRange
    );
    assert_eq!(
        unusable_reason(
            &first(),
            206,
            &[("content-type", "multipart/byteranges; boundary=x")]
        ),
        UnusableResponse::Multipart
    );
}

#[test]
fn a13_a_coding_makes_a_part_unusable_and_is_reported_for_a_whole_file() {
    let coded = [
        ("content-range", "bytes 0-99/1000"),
        ("content-encoding", "gzip"),
        TAG,
    ];
    assert_eq!(
        unusable_reason(&first(), 206, &coded),
        UnusableResponse::Encoded(ContentCoding::Gzip)
    );
    let whole = |coding: &str| match classify(&first(), 200, &[("content-encoding", coding)]) {
        Ok(ResponseContent::Whole { coding, .. }) => coding,
        other => panic!("{other:?}"),
    };
    assert_eq!(whole("identity"), None);
    assert_eq!(whole("X-GZIP"), Some(ContentCoding::Gzip));
    assert_eq!(whole("deflate"), Some(ContentCoding::Deflate));
    assert_eq!(whole("none"), None);
    assert_eq!(whole("none, br"), Some(ContentCoding::Brotli));
    assert_eq!(
        whole("deflate, identity, gzip"),
        Some(ContentCoding::Several(vec![
            ContentCoding::Deflate,
            ContentCoding::Gzip
        ]))
    );
    let other = |names: &str| Some(ContentCoding::Other(names.into()));
    assert_eq!(whole("gzip, compress"), other("gzip, compress"));
    let six = "br, br, br, br, br, br";
    assert_eq!(whole(six), other(six));
}

#[test]
fn a49_a_word_that_is_no_coding_changes_nothing() {
    let version = known_version();
    for name in [
        "aws-chunked",
        "AWS-Chunked",
        "binary",
        "utf-8",
        "\"UTF-8\"",
        "iso-8859-1",
        "",
        "identity",
        "aws-chunked, ",
        "text/plain",
        "8bit",
        "base64",
    ] {
        let part = [
            ("content-range", "bytes 100-199/1000"),
            ("content-encoding", name),
            TAG,
        ];
        let found = classify(&middle(&version), 206, &part);
        assert!(matches!(found, Ok(ResponseContent::Part { .. })), "{name}");
        let whole = classify(&first(), 200, &[("content-encoding", name)]);
        let Ok(ResponseContent::Whole { coding: None, .. }) = whole else {
            panic!("{name}: {whole:?}");
        };
    }
    let framed = [
        ("content-range", "bytes 0-99/1000"),
        ("content-encoding", "gzip, aws-chunked"),
        TAG,
    ];
    assert_eq!(
        unusable_reason(&first(), 206, &framed),
        UnusableResponse::Encoded(ContentCoding::Gzip)
    );
}

#[test]
fn a14_a_416_for_the_first_byte_of_an_empty_file_is_the_file() {
    assert!(matches!(
        classify(&first(), 416, &[("content-range", "bytes */0")]),
        Ok(ResponseContent::Empty { .. })
    ));
    assert_eq!(
        classify(&first(), 416, &[]),
        Err(RequestFailure::Unusable(UnusableResponse::NoFirstByte))
    );
}

#[test]
fn a15_a_range_past_the_end_is_told_apart_from_other_refusals() {
    let version = known_version();
    let found = classify(&middle(&version), 416, &[("content-range", "bytes */50")]);
    assert_eq!(found, Err(RequestFailure::Changed));
    let without_version = RequestedContent {
        range: Some(100..200),
        ..RequestedContent::default()
    };
    for pairs in [&[][..], &[("content-range", "bytes */100")]] {
        let found = classify(&without_version, 416, pairs);
        assert_eq!(found, Err(RequestFailure::PastEnd));
    }
}

#[test]
fn a38_a_refused_range_inside_the_file_is_no_change_of_it() {
    let version = known_version();
    let refused = |status| {
        Err(RequestFailure::RangeRefused {
            status: StatusCode::from_u16(status).unwrap(),
        })
    };
    for status in [400, 403, 406, 416, 501] {
        assert_eq!(classify(&middle(&version), status, &[]), refused(status));
        let found = classify(&RequestedContent::default(), status, &[]);
        assert_ne!(found, refused(status), "without a range");
    }
    let inside = [("content-range", "bytes */1000")];
    assert_eq!(classify(&middle(&version), 416, &inside), refused(416));
    assert_eq!(classify(&first(), 416, &inside), refused(416));
}

const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");

/// A page in place of a file: as a 200 and as a 206, with and without a length, validators and a range of its own.
const PAGES: [(u16, &[(&str, &str)]); 9] = [
    (200, &[HTML, ("content-length", "88")]),
    (200, &[HTML]),
    (
        200,
        &[HTML, ("content-length", "1001"), ("etag", "\"page\"")],
    ),
    (
        200,
        &[HTML, ("content-length", "1000"), ("etag", "\"page\"")],
    ),
    (200, &[HTML, ("content-length", "1000")]),
    (
        206,
        &[
            HTML,
            ("content-range", "bytes 0-87/88"),
            ("content-length", "88"),
        ],
    ),
    (
        206,
        &[
            HTML,
            ("content-range", "bytes 0-87/88"),
            ("etag", "\"page\""),
        ],
    ),
    (
        200,
        &[
            ("content-type", "application/json"),
            ("content-length", "30"),
        ],
    ),
    (200, &[("content-length", "0")]),
];

#[test]
fn a35_a_page_is_refused_where_bytes_of_a_file_are_on_disk() {
    let version = ResourceVersion {
        media_type: Some("application/zip".into()),
        ..known_version()
    };
    for (status, pairs) in PAGES {
        let found = classify(&middle(&version), status, pairs);
        assert_eq!(found, Err(RequestFailure::ErrorPage), "{pairs:?}");
        // All of it is asked for again, because ranges failed or the file changed.
        let again = RequestedContent {
            on_disk: BytesOnDisk::Replaced(&version),
            ..RequestedContent::default()
        };
        if status == 200 {
            let found = classify(&again, status, pairs);
            assert_eq!(found, Err(RequestFailure::ErrorPage), "{pairs:?}");
        }
        let nothing_on_disk = classify(&first(), status, pairs);
        assert_ne!(nothing_on_disk, Err(RequestFailure::ErrorPage));
    }
}

#[test]
fn a35_a_page_that_is_the_resource_may_change() {
    let page = ResourceVersion {
        media_type: Some("text/html".into()),
        ..known_version()
    };
    let newer = [HTML, ("content-length", "88"), ("etag", "\"v2\"")];
    assert_eq!(
        classify(&middle(&page), 200, &newer),
        Err(RequestFailure::Changed)
    );
    // The tag names the version, whatever a node says about the type.
    let file = ResourceVersion {
        media_type: Some("application/zip".into()),
        ..known_version()
    };
    let part = [HTML, ("content-range", "bytes 100-199/1000"), TAG];
    assert!(classify(&middle(&file), 206, &part).is_ok());
}

#[test]
fn a35_a_response_without_the_validators_that_the_file_had_is_no_newer_version() {
    let version = known_version();
    let bare = [("content-length", "999")];
    assert_eq!(
        unusable_reason(&middle(&version), 200, &bare),
        UnusableResponse::MissingValidator
    );
}

#[test]
fn a17_busy_statuses_carry_retry_after() {
    for status in [408, 429, 500, 502, 503, 504] {
        let found = classify(&first(), status, &[("retry-after", "7")]);
        assert!(
            matches!(found, Err(RequestFailure::Busy { retry_after: Some(wait), .. }) if wait.as_secs() == 7),
            "{status}"
        );
    }
}

#[test]
fn a18_other_statuses_are_denials_for_the_recovery_policy_to_weigh() {
    for status in [404, 410, 418, 451] {
        assert!(
            matches!(
                classify(&first(), status, &[]),
                Err(RequestFailure::Denied { .. })
            ),
            "{status}"
        );
    }
}

#[test]
fn a21_the_realm_is_read_from_the_first_challenge_that_has_one() {
    let found = classify(
        &first(),
        401,
        &[(
            "www-authenticate",
            "Basic realm=\"the vault\", charset=\"UTF-8\"",
        )],
    );
    assert!(
        matches!(found, Err(RequestFailure::Unauthorized { realm: Some(realm), .. }) if realm == "the vault")
    );
    let found = classify(&first(), 407, &[("proxy-authenticate", "Negotiate")]);
    assert!(matches!(
        found,
        Err(RequestFailure::Unauthorized { realm: None, .. })
    ));
}

#[test]
fn b6_a_304_counts_only_when_the_request_was_conditional() {
    let request = RequestedContent {
        conditional: true,
        ..first()
    };
    assert_eq!(
        classify(&request, 304, &[]),
        Ok(ResponseContent::NotModified)
    );
    assert_eq!(
        unusable_reason(&first(), 304, &[]),
        UnusableResponse::UnrequestedNotModified
    );
}

#[test]
fn a50_a_part_under_status_200_is_a_part() {
    let version = known_version();
    let part = ("content-range", "bytes 0-99/1000");
    let length = |length| ("content-length", length);
    assert_eq!(
        classify(&first(), 200, &[part, length("100"), TAG]),
        classify(&first(), 206, &[part, length("100"), TAG])
    );
    let middle = middle(&version);
    let inside = ("content-range", "bytes 100-199/1000");
    assert!(matches!(
        classify(&middle, 200, &[inside, length("100"), TAG]),
        Ok(ResponseContent::Part { range, total: 1000, .. }) if range == (100..200)
    ));
    // A request for the whole file gets no part of it.
    let whole = RequestedContent::default();
    assert_eq!(
        unusable_reason(&whole, 200, &[part, length("100")]),
        UnusableResponse::UnrequestedPartial
    );
    for request in [&first(), &middle, &whole] {
        assert_eq!(
            unusable_reason(request, 200, &[part, TAG]),
            UnusableResponse::Unexpected
        );
    }
    // The length is that of the file, or the range is all of it.
    for range in [
        "bytes 0-99/1000",
        "bytes 0-999/1000",
        "bytes */1000",
        "junk",
    ] {
        assert!(matches!(
            classify(
                &first(),
                200,
                &[("content-range", range), length("1000"), TAG]
            ),
            Ok(ResponseContent::Whole {
                length: Some(1000),
                ..
            })
        ));
    }
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        (0u64..400, 0u64..400, 0u64..1200).prop_map(|(a, b, c)| format!("bytes {a}-{b}/{c}")),
        Just("bytes 100-199/1000".to_owned()),
        Just("\"v1\"".to_owned()),
        (0u64..2000).prop_map(|n| n.to_string()),
    ]
}

proptest! {
    /// The property that keeps files whole: whatever a peer sends, a response that may be written begins where it was requested.
    #[test]
    fn no_head_lets_bytes_through_that_the_request_did_not_ask_for(
        status in prop_oneof![Just(206u16), Just(200), 100u16..600],
        range in any_value(), tag in any_value(), length in any_value(), coding in any_value(),
        pin: bool, sent_if_range: bool,
    ) {
        let version = known_version();
        let request = RequestedContent {
            range: Some(100..200),
            on_disk: pin.then_some(&version).into(),
            if_range_sent: sent_if_range,
            conditional: false,
        };
        let pairs = [("content-range", &range), ("etag", &tag), ("content-length", &length), ("content-encoding", &coding)]
            .map(|(name, value)| (name, value.as_str()));
        match classify(&request, status, &pairs) {
            Ok(ResponseContent::Part { range, total, version: found }) => {
                prop_assert!(range.start == 100 && range.end <= 200 && !range.is_empty() && range.end <= total);
                prop_assert!(!pin || version.is_same(&found));
            }
            Ok(ResponseContent::Whole { .. }) => prop_assert!(false, "a whole file was taken for a part"),
            _ => {}
        }
    }
}

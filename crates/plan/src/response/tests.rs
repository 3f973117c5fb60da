//! [`classify_response`], row by row, and that no head whatever lets a byte through that was not asked for.

use super::*;
use crate::content_range::ContentRangeError;
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

fn pinned() -> ResourceVersion {
    ResourceVersion::from_headers(Some(1000), &headers(&[("etag", "\"v1\"")]))
}

/// A request for the middle of a pinned file.
fn middle(version: &ResourceVersion) -> RequestedContent<'_> {
    RequestedContent {
        range: Some(100..200),
        expected_version: Some(version),
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

fn verdict(
    asked: &RequestedContent<'_>,
    status: u16,
    pairs: &[(&'static str, &str)],
) -> ResponseVerdict {
    classify_response(
        asked,
        StatusCode::from_u16(status).unwrap(),
        &headers(pairs),
        SystemTime::UNIX_EPOCH,
    )
}

fn refused(
    asked: &RequestedContent<'_>,
    status: u16,
    pairs: &[(&'static str, &str)],
) -> UnusableResponse {
    match verdict(asked, status, pairs) {
        ResponseVerdict::Refuse { why } => why,
        other => panic!("not refused: {other:?}"),
    }
}

const TAG: (&str, &str) = ("etag", "\"v1\"");

#[test]
fn a1_the_range_asked_for_of_the_same_version_is_taken() {
    let version = pinned();
    let found = verdict(
        &middle(&version),
        206,
        &[
            ("content-range", "bytes 100-199/1000"),
            ("content-length", "100"),
            TAG,
        ],
    );
    assert!(
        matches!(found, ResponseVerdict::Part { range, total: 1000, .. } if range == (100..200))
    );
    let shorter = verdict(
        &middle(&version),
        206,
        &[("content-range", "bytes 100-149/1000"), TAG],
    );
    assert!(matches!(shorter, ResponseVerdict::Part { range, .. } if range == (100..150)));
}

#[test]
fn a2_everything_to_the_first_request_is_the_whole_file() {
    let found = verdict(&first(), 200, &[("content-length", "1000"), TAG]);
    assert!(matches!(
        found,
        ResponseVerdict::Whole {
            length: Some(1000),
            encoding: None,
            ..
        }
    ));
}

#[test]
fn a3_everything_to_a_part_in_the_middle_is_an_ignored_range() {
    let version = pinned();
    assert_eq!(
        verdict(&middle(&version), 200, &[("content-length", "1000"), TAG]),
        ResponseVerdict::RangeIgnored
    );
}

#[test]
fn a4_everything_to_if_range_with_the_same_tag_drops_if_range() {
    let version = pinned();
    let asked = RequestedContent {
        if_range_sent: true,
        ..middle(&version)
    };
    assert_eq!(
        verdict(&asked, 200, &[("content-length", "1000"), TAG]),
        ResponseVerdict::DropIfRange
    );
    assert!(matches!(
        verdict(
            &asked,
            200,
            &[("content-length", "1000"), ("etag", "\"v2\"")]
        ),
        ResponseVerdict::Changed { .. }
    ));
}

#[test]
fn a5_another_tag_or_total_is_a_change_whatever_the_status() {
    let version = pinned();
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
                verdict(&middle(&version), status, &pairs),
                ResponseVerdict::Changed { .. }
            ),
            "{status} {pairs:?}"
        );
    }
}

#[test]
fn a6_a_part_without_the_validator_that_pinned_is_refused() {
    let version = pinned();
    assert_eq!(
        refused(
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
    let part = |value| verdict(&middle(&version), 206, &[("content-range", value)]);
    assert!(matches!(
        part("bytes 100-199/1000"),
        ResponseVerdict::Part { .. }
    ));
    assert!(matches!(
        part("bytes 100-199/2000"),
        ResponseVerdict::Changed { .. }
    ));
}

#[test]
fn a8_other_bytes_no_total_and_contradictions_are_refused() {
    let version = pinned();
    let why =
        |range: &'static str| refused(&middle(&version), 206, &[("content-range", range), TAG]);
    assert_eq!(why("bytes 0-99/1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes 101-199/1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes 100-200/1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes */1000"), UnusableResponse::WrongRange);
    assert_eq!(why("bytes 100-199/*"), UnusableResponse::MissingTotal);
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
        refused(&middle(&version), 206, &longer),
        UnusableResponse::LengthMismatch
    );
    assert_eq!(
        refused(
            &RequestedContent::default(),
            206,
            &[("content-range", "bytes 0-9/10")]
        ),
        UnusableResponse::UnrequestedPartial
    );
}

#[test]
fn a9_parts_without_content_range_and_multipart_are_refused() {
    assert_eq!(
        refused(&first(), 206, &[TAG]),
        UnusableResponse::MissingContentRange
    );
    assert_eq!(
        refused(
            &first(),
            206,
            &[("content-type", "multipart/byteranges; boundary=x")]
        ),
        UnusableResponse::Multipart
    );
}

#[test]
fn a13_a_coding_on_a_part_is_refused_and_on_a_whole_told() {
    let coded = [
        ("content-range", "bytes 0-99/1000"),
        ("content-encoding", "gzip"),
        TAG,
    ];
    assert_eq!(
        refused(&first(), 206, &coded),
        UnusableResponse::Encoded(ContentCoding::Gzip)
    );
    let whole = |coding: &str| match verdict(&first(), 200, &[("content-encoding", coding)]) {
        ResponseVerdict::Whole { encoding, .. } => encoding,
        other => panic!("{other:?}"),
    };
    assert_eq!(whole("identity"), None);
    assert_eq!(whole("X-GZIP"), Some(ContentCoding::Gzip));
    assert_eq!(whole("deflate"), Some(ContentCoding::Deflate));
    assert_eq!(
        whole("gzip, br"),
        Some(ContentCoding::Other("gzip, br".into()))
    );
}

#[test]
fn a14_an_empty_resource_has_no_first_byte() {
    assert!(matches!(
        verdict(&first(), 416, &[("content-range", "bytes */0")]),
        ResponseVerdict::Empty { .. }
    ));
}

#[test]
fn a15_a_range_past_the_end_tells_the_length() {
    let version = pinned();
    let found = verdict(&middle(&version), 416, &[("content-range", "bytes */50")]);
    assert_eq!(found, ResponseVerdict::PastEnd { total: Some(50) });
    assert_eq!(
        verdict(&middle(&version), 416, &[]),
        ResponseVerdict::PastEnd { total: None }
    );
}

#[test]
fn a17_busy_statuses_heal_and_carry_retry_after() {
    for status in [408, 429, 500, 502, 503, 504] {
        let found = verdict(&first(), status, &[("retry-after", "7")]);
        assert!(
            matches!(found, ResponseVerdict::Busy { retry_after: Some(wait), .. } if wait.as_secs() == 7),
            "{status}"
        );
    }
}

#[test]
fn a18_other_refusals_are_final_here_and_for_the_course_to_weigh() {
    for status in [400, 403, 404, 410, 418, 451] {
        assert!(
            matches!(
                verdict(&first(), status, &[]),
                ResponseVerdict::Denied { .. }
            ),
            "{status}"
        );
    }
}

#[test]
fn a21_the_realm_is_told_without_control_characters() {
    let found = verdict(
        &first(),
        401,
        &[(
            "www-authenticate",
            "Basic realm=\"the vault\", charset=\"UTF-8\"",
        )],
    );
    assert!(
        matches!(found, ResponseVerdict::Unauthorized { realm: Some(realm), .. } if realm == "the vault")
    );
    let found = verdict(&first(), 407, &[("proxy-authenticate", "Negotiate")]);
    assert!(matches!(
        found,
        ResponseVerdict::Unauthorized { realm: None, .. }
    ));
}

#[test]
fn b6_not_modified_counts_only_when_it_was_asked() {
    let asked = RequestedContent {
        conditional: true,
        ..first()
    };
    assert_eq!(verdict(&asked, 304, &[]), ResponseVerdict::NotModified);
    assert_eq!(
        refused(&first(), 304, &[]),
        UnusableResponse::UnrequestedNotModified
    );
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
    /// The property that keeps files whole: whatever a peer says, a part that may be written lies where it was asked for.
    #[test]
    fn no_head_lets_bytes_through_that_were_not_asked_for(
        status in prop_oneof![Just(206u16), Just(200), 100u16..600],
        range in any_value(), tag in any_value(), length in any_value(), coding in any_value(),
        pin: bool, sent_if_range: bool,
    ) {
        let version = pinned();
        let asked = RequestedContent {
            range: Some(100..200),
            expected_version: pin.then_some(&version),
            if_range_sent: sent_if_range,
            conditional: false,
        };
        let pairs = [("content-range", range), ("etag", tag), ("content-length", length), ("content-encoding", coding)];
        let pairs: Vec<(&'static str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        match verdict(&asked, status, &pairs) {
            ResponseVerdict::Part { range, total, version: found } => {
                prop_assert!(range.start == 100 && range.end <= 200 && !range.is_empty() && range.end <= total);
                prop_assert!(!pin || version.is_same(&found));
            }
            ResponseVerdict::Whole { .. } => prop_assert!(false, "everything was taken for a part"),
            _ => {}
        }
    }
}

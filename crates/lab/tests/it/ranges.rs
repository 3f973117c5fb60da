//! Ranges, preconditions and versions: first conforming, then broken.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};

use crate::raw::{ConnectionEnd, RawConnection, content, get, part, serve};

const DATE: &str = "Tue, 02 Jan 2024 03:04:05 GMT";

#[tokio::test]
async fn single_ranges_are_served() {
    let origin = serve(OriginResource::new(content())).await;
    for (request, status, content_range, body) in [
        ("bytes=0-0", 206, "bytes 0-0/300001", part(0..1)),
        ("bytes=7-99", 206, "bytes 7-99/300001", part(7..100)),
        (
            "bytes=299999-",
            206,
            "bytes 299999-300000/300001",
            part(299_999..300_001),
        ),
        (
            "bytes=-3",
            206,
            "bytes 299998-300000/300001",
            part(299_998..300_001),
        ),
        (
            "bytes=5-900000",
            206,
            "bytes 5-300000/300001",
            part(5..300_001),
        ),
        (
            "bytes=-900000",
            206,
            "bytes 0-300000/300001",
            part(0..300_001),
        ),
        ("bytes=300001-", 416, "bytes */300001", vec![]),
        ("bytes=400000-500000", 416, "bytes */300001", vec![]),
        ("bytes=-0", 416, "bytes */300001", vec![]),
    ] {
        let response = get(&origin, &[&format!("Range: {request}")]).await;
        assert_eq!(
            (response.status(), response.field("Content-Range")),
            (status, Some(content_range)),
            "{request}"
        );
        assert!(response.body == body && response.complete, "{request}");
    }
    for ignored in ["bytes=9-5", "bytes=0-1,5-6", "lines=1-2", "bytes=x-"] {
        let response = get(&origin, &[&format!("Range: {ignored}")]).await;
        assert_eq!(
            (response.status(), response.body.len()),
            (200, 300_001),
            "{ignored}"
        );
        assert_eq!(response.field("Content-Range"), None);
    }
}

#[tokio::test]
async fn tiny_and_empty_files_are_complete() {
    for length in [0, 1, 2] {
        let tiny = ResourceContent::random(9, length);
        let origin = serve(OriginResource::new(tiny.clone())).await;
        let response = get(&origin, &[]).await;
        assert_eq!((response.status(), &response.body), (200, &tiny.to_vec()));
        let response = get(&origin, &["Range: bytes=0-9"]).await;
        let status = if length == 0 { 416 } else { 206 };
        assert_eq!(
            (response.status(), &response.body),
            (status, &tiny.to_vec())
        );
    }
}

#[tokio::test]
async fn preconditions_follow_the_standard() {
    let origin = serve(OriginResource::new(content()).last_modified(DATE)).await;
    for (field, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: \"v0\", W/\"v1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"v2\"", 200),
        ("If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT", 304),
        ("If-Modified-Since: Wed, 03 Jan 2024 03:04:05 GMT", 304),
        ("If-Modified-Since: Mon, 01 Jan 2024 03:04:05 GMT", 200),
        ("If-Modified-Since: yesterday", 200),
    ] {
        let response = get(&origin, &[field]).await;
        assert_eq!(response.status(), status, "{field}");
        assert_eq!(response.body.is_empty(), status == 304, "{field}");
    }
    // If-None-Match takes precedence.
    let both = [
        "If-None-Match: \"v2\"",
        &format!("If-Modified-Since: {DATE}"),
    ];
    assert_eq!(get(&origin, &both).await.status(), 200);
}

#[tokio::test]
async fn if_range_is_compared_strongly() {
    let strong = serve(OriginResource::new(content()).last_modified(DATE)).await;
    let weak = serve(OriginResource::without_validator(content()).etag("W/\"v1\"")).await;
    for (origin, value, status) in [
        (&strong, "\"v1\"", 206),
        (&strong, "\"v2\"", 200),
        (&strong, DATE, 206),
        (&strong, "Wed, 03 Jan 2024 03:04:05 GMT", 200),
        (&weak, "W/\"v1\"", 200),
    ] {
        let response = get(origin, &["Range: bytes=5-9", &format!("If-Range: {value}")]).await;
        assert_eq!(response.status(), status, "{value}");
    }
}

#[tokio::test]
async fn head_has_no_body_and_other_methods_are_refused() {
    let origin = serve(OriginResource::new(content())).await;
    let mut raw = RawConnection::to(origin.address()).await;
    let response = raw.exchange("HEAD /f.bin", &["Range: bytes=0-4"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Length")),
        (200, Some("300001"))
    );
    let response = raw.exchange("GET /f.bin", &["Range: bytes=0-4"]).await;
    assert_eq!((response.status(), &response.body), (206, &part(0..5)));
    assert_eq!(raw.exchange("DELETE /f.bin", &[]).await.status(), 405);
    assert_eq!(origin.bytes_sent(), 5);
}

#[tokio::test]
async fn validators_are_optional() {
    for (resource, etag, date) in [
        (OriginResource::new(content()), Some("\"v1\""), None),
        (
            OriginResource::without_validator(content()).etag("W/\"v1\""),
            Some("W/\"v1\""),
            None,
        ),
        (
            OriginResource::without_validator(content()).last_modified(DATE),
            None,
            Some(DATE),
        ),
        (OriginResource::without_validator(content()), None, None),
    ] {
        let response = get(&serve(resource).await, &["Range: bytes=0-4"]).await;
        assert_eq!(
            (response.field("ETag"), response.field("Last-Modified")),
            (etag, date)
        );
    }
}

#[tokio::test]
async fn a2_a3_ranges_are_ignored_by_rule() {
    let origin = serve(
        OriginResource::new(content()).rule(RequestMatcher::mid_file(), faults::ignore_range),
    )
    .await;
    let response = get(&origin, &["Range: bytes=0-4"]).await;
    assert_eq!((response.status(), response.body.len()), (206, 5));
    let response = get(&origin, &["Range: bytes=5-9"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Range")),
        (200, None)
    );
    assert!(response.body == content().to_vec());
    // Also if the range cannot be satisfied.
    let response = get(&origin, &["Range: bytes=900000-"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Range")),
        (200, None)
    );
}

#[tokio::test]
async fn a4_if_range_never_matches() {
    let origin = serve(
        OriginResource::new(content())
            .rule(RequestMatcher::always(), faults::if_range_never_matches),
    )
    .await;
    let response = get(&origin, &["Range: bytes=5-9", "If-Range: \"v1\""]).await;
    assert_eq!(
        (response.status(), response.field("ETag")),
        (200, Some("\"v1\""))
    );
    assert_eq!(get(&origin, &["Range: bytes=5-9"]).await.status(), 206);
}

#[tokio::test]
async fn a5_versions_change_after_requests_after_bytes_and_by_replacement() {
    let newer = || OriginResource::new(ResourceContent::random(4, 300_001)).etag("\"v2\"");
    let etag = |response: &crate::raw::RawResponse| response.field("ETag").map(ToOwned::to_owned);
    for when in [
        RequestMatcher::after_first(1),
        RequestMatcher::after_bytes_sent(300_001),
    ] {
        let origin =
            serve(OriginResource::new(content()).rule(when, faults::serve_other(newer()))).await;
        assert_eq!(etag(&get(&origin, &[]).await).as_deref(), Some("\"v1\""));
        let response = get(&origin, &["Range: bytes=5-9", "If-Range: \"v1\""]).await;
        assert_eq!(
            (response.status(), etag(&response).as_deref()),
            (200, Some("\"v2\""))
        );
        assert!(response.body == ResourceContent::random(4, 300_001).to_vec());
    }
    let origin = serve(OriginResource::new(content())).await;
    assert_eq!(etag(&get(&origin, &[]).await).as_deref(), Some("\"v1\""));
    origin.replace("/f.bin", newer());
    assert_eq!(etag(&get(&origin, &[]).await).as_deref(), Some("\"v2\""));
}

#[tokio::test]
async fn a8_content_ranges_are_wrong() {
    let junk = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::content_range("junk"));
    let response = get(&serve(junk).await, &["Range: bytes=5-9"]).await;
    assert_eq!(response.field("Content-Range"), Some("junk"));
    let moved = faults::content_range_from(|range, total| {
        format!("bytes {}-{}/{}", range.start + 1, range.end, total + 1)
    });
    let origin = serve(OriginResource::new(content()).rule(RequestMatcher::always(), moved)).await;
    let response = get(&origin, &["Range: bytes=5-9"]).await;
    assert_eq!(response.field("Content-Range"), Some("bytes 6-10/300002"));
    assert_eq!(response.body, part(5..10));
    assert_eq!(get(&origin, &[]).await.field("Content-Range"), None);
}

#[tokio::test]
async fn a9_partial_responses_lack_a_content_range_or_are_multipart() {
    let bare =
        OriginResource::new(content()).rule(RequestMatcher::with_range(), faults::no_content_range);
    let response = get(&serve(bare).await, &["Range: bytes=5-9"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Range")),
        (206, None)
    );
    assert_eq!(response.body, part(5..10));

    let many = serve(
        OriginResource::new(content())
            .rule(RequestMatcher::with_range(), faults::multipart_byteranges),
    )
    .await;
    let response = get(&many, &["Range: bytes=5-9"]).await;
    assert_eq!(
        response.field("Content-Type"),
        Some("multipart/byteranges; boundary=LAB")
    );
    let expected = [
        b"--LAB\r\nContent-Range: bytes 5-9/300001\r\n\r\n".as_slice(),
        &part(5..10),
        b"\r\n--LAB--\r\n",
    ];
    assert_eq!(response.body, expected.concat());
    assert_eq!(
        (response.end, response.complete),
        (ConnectionEnd::Open, true)
    );
}

#[tokio::test]
async fn a30_files_grow() {
    let origin = serve(OriginResource::without_validator(content()).rule(
        RequestMatcher::always(),
        faults::growing_resource(3, 100, 10),
    ))
    .await;
    for total in [100, 110, 120] {
        let response = get(&origin, &["Range: bytes=5-9"]).await;
        assert_eq!(
            response.field("Content-Range"),
            Some(format!("bytes 5-9/{total}").as_str())
        );
        assert_eq!(
            (response.body, response.head.contains("ETag")),
            (part(5..10), false)
        );
    }
}

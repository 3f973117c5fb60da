//! Bodies that end too soon, too late, or never.

use std::io::Read as _;

use haul_lab::{OriginResource, RequestMatcher, faults};

use crate::raw::{ConnectionEnd, RawConnection, content, get, part, serve};

#[tokio::test]
async fn a10_bodies_are_cut_by_resets_and_closes_at_the_right_byte() {
    // The first is before the body, the last within the first chunk.
    for bytes in [0, 1, 1000, 299_999] {
        let origin = serve(
            OriginResource::new(content()).rule(RequestMatcher::nth(0), faults::close_after(bytes)),
        )
        .await;
        let response = get(&origin, &[]).await;
        assert_eq!(
            (response.end, response.complete),
            (ConnectionEnd::Closed, false),
            "{bytes}"
        );
        assert!(response.body == part(0..bytes), "{bytes}");
        let request = &origin.requests()[0];
        assert_eq!(
            (request.bytes_sent, request.was_cut_off, request.status),
            (bytes, true, 200)
        );
        assert!(get(&origin, &[]).await.complete);
    }
    for bytes in [0, 1000] {
        let origin = serve(
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::reset_after(bytes)),
        )
        .await;
        let response = get(&origin, &[]).await;
        assert_eq!(
            (response.end, response.complete),
            (ConnectionEnd::Reset, false),
            "{bytes}"
        );
        // A reset loses the bytes in flight.
        assert!(response.body.len() as u64 <= bytes);
        assert_eq!(
            (
                origin.requests()[0].bytes_sent,
                origin.requests()[0].was_cut_off
            ),
            (bytes, true)
        );
    }
}

#[tokio::test]
async fn a10_lengths_are_larger_than_the_body() {
    let origin = serve(
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::overstated_length(5)),
    )
    .await;
    let response = get(&origin, &[]).await;
    assert_eq!(response.field("Content-Length"), Some("300006"));
    assert_eq!(
        (response.end, response.complete, response.body.len()),
        (ConnectionEnd::Closed, false, 300_001)
    );
}

#[tokio::test]
async fn a10_chunks_end_without_the_last_chunk() {
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::chunked)
        .rule(RequestMatcher::nth(0), faults::close_after(1000));
    let origin = serve(resource).await;
    let response = get(&origin, &[]).await;
    assert_eq!(
        (response.end, response.complete),
        (ConnectionEnd::Closed, false)
    );
    assert_eq!(response.body, part(0..1000));
    assert_eq!(response.field("Content-Length"), None);
    let response = get(&origin, &[]).await;
    assert_eq!(
        (response.end, response.complete),
        (ConnectionEnd::Open, true)
    );
    assert!(response.body == content().to_vec());
}

#[tokio::test]
async fn a11_surplus_bytes_follow_the_body() {
    let origin = serve(
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::extra_bytes(7)),
    )
    .await;
    let response = get(&origin, &["Range: bytes=5-9"]).await;
    assert_eq!(response.field("Content-Range"), Some("bytes 5-9/300001"));
    assert_eq!(response.field("Content-Length"), Some("12"));
    assert_eq!(response.body, [part(5..10), vec![0xee; 7]].concat());

    let beyond = |_: &_, reply: &mut haul_lab::OriginResponse| reply.false_length = Some(5);
    let origin = serve(OriginResource::new(content()).rule(RequestMatcher::always(), beyond)).await;
    let mut raw = RawConnection::to(origin.address()).await;
    let response = raw.exchange("GET /f.bin", &["Range: bytes=5-99"]).await;
    assert_eq!(response.body, part(5..10));
    assert_eq!(raw.rest().await, (part(10..100), ConnectionEnd::Closed));
}

#[tokio::test]
async fn a12_lengths_are_unknown() {
    let origin = serve(
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::close_delimited),
    )
    .await;
    let response = get(&origin, &[]).await;
    assert_eq!(
        (
            response.field("Content-Length"),
            response.field("Connection")
        ),
        (None, Some("close"))
    );
    assert!(response.body == content().to_vec() && response.end == ConnectionEnd::Closed);
}

#[tokio::test]
async fn a13_bodies_are_encoded_without_a_request_for_it() {
    let origin =
        serve(OriginResource::new(content()).rule(RequestMatcher::always(), faults::gzip)).await;
    for fields in [&[][..], &["Range: bytes=5-9"]] {
        let response = get(&origin, fields).await;
        assert_eq!(
            (response.status(), response.field("Content-Encoding")),
            (200, Some("gzip"))
        );
        assert_eq!(response.field("Content-Range"), None);
        let mut plain = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(response.body.as_slice());
        decoder.read_to_end(&mut plain).unwrap();
        assert!(plain == content().to_vec());
    }
    let labelled = OriginResource::new(content())
        .rule(RequestMatcher::with_range(), faults::content_encoding("br"));
    let response = get(&serve(labelled).await, &["Range: bytes=5-9"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Encoding")),
        (206, Some("br"))
    );
    assert_eq!(response.body, part(5..10));
}

#[tokio::test]
async fn a19_responses_stall_until_the_client_closes() {
    for bytes in [0, 1000, 300_001] {
        let origin = serve(
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::stall_after(bytes)),
        )
        .await;
        let mut raw = RawConnection::to(origin.address()).await;
        raw.send_request("GET /f.bin", &[]).await;
        raw.head().await.unwrap();
        raw.fill(usize::try_from(bytes).unwrap()).await;
        assert!(raw.is_silent().await);
        assert!(raw.buffer == part(0..bytes));
        assert_eq!(origin.open_connections(), 1);
        drop(raw);
        haul_lab::within(crate::raw::LIMIT, async {
            while origin.open_connections() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a19_late_responses_are_dropped_when_the_client_closes() {
    let hour = std::time::Duration::from_secs(3600);
    let origin = serve(
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::delay_response(hour)),
    )
    .await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &[]).await;
    assert!(raw.is_silent().await);
    assert_eq!(origin.open_connections(), 1);
    drop(raw);
    haul_lab::within(crate::raw::LIMIT, async {
        while origin.open_connections() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(origin.bytes_sent(), 0);
}

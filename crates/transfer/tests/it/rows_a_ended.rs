//! Row A10 where the framing tells of no error: bodies that end properly, and before what their head promised.

use haul_lab::{OriginResource, OriginResponseBody, OriginResponseFraming, RequestMatcher, faults};
use haul_net::Kind;
use haul_transfer::{GetError, TransferEvent};

use crate::harness::{JobCase, content};

/// Chunked bodies that end at once, to every request but the first: each costs budget and a wait, so the job ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_empty_bodies_that_end_cleanly_exhaust_the_retries() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(RequestMatcher::mid_file(), |_, reply| {
        reply.framing = OriginResponseFraming::Chunked;
        reply.body = OriginResponseBody::Bytes(Vec::new());
    });
    let (ran, origin) = case.run(resource).await;
    assert!(
        matches!(ran.error(), GetError::Transport { source, .. } if *source.kind() == Kind::Closed),
        "{:?}",
        ran.error()
    );
    assert!(ran.retries() >= 6, "{} retries", ran.retries());
    let request_count = origin.requests().len();
    assert!(request_count < 60, "{request_count} requests");
    assert!(!case.path().exists());
}

/// The same once and in the middle of a body: the rest is fetched again, and only that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_chunked_body_that_ends_cleanly_but_short_is_resumed() {
    let case = JobCase::new();
    let half = content();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(1), move |request, reply| {
            let range = request.range(half.length()).unwrap();
            faults::chunked(request, reply);
            reply.body =
                OriginResponseBody::Slice(half.clone(), range.start..range.start + 100_000);
        });
    let (ran, _origin) = case.run(resource).await;
    assert_eq!(ran.outcome().fetched, content().length());
    assert!(ran.retries() >= 1);
    case.assert_file(&content());
}

/// A request whose whole rest was taken over is reported like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_request_whose_range_was_taken_over_is_reported() {
    let mut case = JobCase::new();
    // No stall: only a take-over can fetch the rest of the silent segment.
    case.client.stall_timeout = crate::harness::LIMIT * 2;
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(1), faults::stall_after(100_000));
    let (ran, _origin) = case.run(resource).await;
    case.assert_file(&content());
    let received = |event: &TransferEvent| match event {
        TransferEvent::SegmentEnded { range, .. } => range.end - range.start,
        _ => 0,
    };
    let received: u64 = ran.events.iter().map(received).sum();
    assert_eq!(received, content().length());
}

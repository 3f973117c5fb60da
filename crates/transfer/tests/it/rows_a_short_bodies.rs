//! Row A10: bodies with correct framing that are shorter than the response head says.

use haul_lab::{OriginResource, OriginResponseBody, OriginResponseFraming, RequestMatcher, faults};
use haul_net::Kind;
use haul_transfer::{GetError, NetworkError, TransferEvent};

use crate::harness::{JobCase, content};

/// All requests but the first get an empty chunked body. Each uses a retry and a wait, so the job ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_empty_bodies_that_end_cleanly_exhaust_the_retries() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(RequestMatcher::mid_file(), |_, reply| {
        reply.framing = OriginResponseFraming::Chunked;
        reply.body = OriginResponseBody::Bytes(Vec::new());
    });
    let (run, origin) = case.run(resource).await;
    assert!(
        matches!(run.error(), GetError::Network { error: NetworkError::Transport { source, .. }, .. } if *source.kind() == Kind::Closed),
        "{:?}",
        run.error()
    );
    assert!(run.retries() >= 6, "{} retries", run.retries());
    let request_count = origin.requests().len();
    assert!(request_count < 60, "{request_count} requests");
    assert!(!case.path().exists());
}

/// One body ends early. Only the rest of its range is fetched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_chunked_body_that_ends_cleanly_but_short_is_resumed() {
    let case = JobCase::new();
    let file = content();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(1), move |request, reply| {
            let range = request.range(file.length()).unwrap();
            faults::chunked(request, reply);
            reply.body =
                OriginResponseBody::Slice(file.clone(), range.start..range.start + 100_000);
        });
    let (run, _origin) = case.run(resource).await;
    assert_eq!(run.outcome().fetched, content().length());
    assert!(run.retries() >= 1);
    case.assert_file(&content());
}

/// A request ends with an event even if another connection took over the rest of its range.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_request_whose_range_was_taken_over_is_reported() {
    let mut case = JobCase::new();
    // No stall timeout: only another connection can fetch the rest of the silent segment.
    case.client.stall_timeout = crate::harness::LIMIT * 2;
    case.client.response_timeout = case.client.stall_timeout;
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(1), faults::stall_after(100_000));
    let (run, _origin) = case.run(resource).await;
    case.assert_file(&content());
    let received = |event: &TransferEvent| match event {
        TransferEvent::SegmentEnded { range, .. } => range.end - range.start,
        _ => 0,
    };
    let received: u64 = run.events.iter().map(received).sum();
    assert_eq!(received, content().length());
}

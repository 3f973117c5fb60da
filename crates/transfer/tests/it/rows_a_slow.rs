//! Rows A19 and A20: what a silent or slow connection holds is taken over by another.
//!
//! The stall timeout is longer here than a test may last, so that nothing but a take-over can end a job.

use haul_lab::{Origin, OriginResource, RecordedRequest, RequestMatcher, ResourceContent, faults};

use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// A case in which no silence is a stall.
fn patient() -> JobCase {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT * 10;
    case
}

/// The same, with segments as the plan likes them: fixed ones are taken over only from who is silent, or nearly so.
fn unfixed() -> JobCase {
    let mut case = patient();
    (case.options.segment_size, case.options.min_segment_size) = (None, None);
    case
}

/// The length of the requested range.
fn length(request: &RecordedRequest, of: &ResourceContent) -> u64 {
    let range = request.range(of.length()).unwrap();
    range.end - range.start
}

/// The requested and delivered bytes of a connection.
fn over(origin: &Origin, connection: usize) -> Vec<RecordedRequest> {
    let mut requests = origin.requests();
    requests.retain(|request| request.connection == connection);
    requests
}

/// That nothing failed: what ended the wait was no retry.
#[track_caller]
fn assert_nothing_failed(ran: &JobRun) {
    assert_eq!(ran.outcome().retries, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_stalled_segment_is_moved_to_another_connection() {
    let case = patient();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(2), faults::stall_after(1000));
    let (ran, origin) = case.run(resource).await;
    assert_nothing_failed(&ran);
    case.assert_file(&content());
    let requests = origin.requests();
    let stalled = requests[2].range(content().length()).unwrap();
    assert_eq!(requests[2].bytes_sent, 1000);
    let rest = stalled.start + 1000..stalled.end;
    assert!(
        requests[3..]
            .iter()
            .any(|request| request.range(content().length()) == Some(rest.clone())),
        "nobody requests for {rest:?}: {requests:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_request_without_a_response_is_moved_to_another_connection() {
    let case = patient();
    let silent =
        |_: &RecordedRequest, reply: &mut haul_lab::OriginResponse| reply.delay = LIMIT * 10;
    let (ran, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::nth(2), silent))
        .await;
    assert_nothing_failed(&ran);
    case.assert_file(&content());
    let requests = origin.requests();
    let again = requests
        .iter()
        .filter(|other| other.header("range") == requests[2].header("range"))
        .count();
    assert_eq!((requests[2].bytes_sent, again), (0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_a_connection_ten_times_slower_than_the_others_keeps_a_small_range() {
    const FAST: u64 = 4 << 20;
    let (case, content) = (unfixed(), ResourceContent::random(5, 32 << 20));
    // Half of the file is in the first answer; the slow one gets an eighth of the other half, for which it would need five
    // seconds, twice as long as the others need for everything.
    let resource = OriginResource::new(content.clone())
        .rule(
            RequestMatcher::on_connection(1),
            faults::body_rate(FAST / 10),
        )
        .rule(!RequestMatcher::on_connection(1), faults::body_rate(FAST));
    let (ran, origin) = case.run(resource).await;
    assert_nothing_failed(&ran);
    case.assert_file(&content);
    let slow = &over(&origin, 1)[0];
    let claimed = length(slow, &content);
    assert!(
        0 < slow.bytes_sent && slow.bytes_sent < claimed / 4 * 3,
        "of {claimed} bytes the slow connection delivered {}",
        slow.bytes_sent
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_a_nearly_dead_connection_keeps_hardly_any_range() {
    let (case, content) = (unfixed(), ResourceContent::random(5, 24 << 20));
    // Alone, this connection would take ten minutes for its megabyte.
    let resource =
        OriginResource::new(content.clone()).rule(RequestMatcher::nth(1), faults::body_rate(2000));
    let origin = serve(resource).await;
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_nothing_failed(&ran);
    case.assert_file(&content);
    let slow = &origin.requests()[1];
    let claimed = length(slow, &content);
    assert!(
        slow.bytes_sent < claimed / 16,
        "of {claimed} bytes the slow connection delivered {}",
        slow.bytes_sent
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_dripping_segment_is_taken_over_however_small_it_is() {
    for rate in [1, 10] {
        let case = patient();
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::nth(2), faults::body_rate(rate));
        let (ran, origin) = case.run(resource).await;
        assert_nothing_failed(&ran);
        case.assert_file(&content());
        assert!(origin.requests()[2].bytes_sent < 1000);
    }
}

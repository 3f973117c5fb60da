//! Rows A19 and A20: the range of a silent or slow connection is taken over by another connection.
//!
//! The stall timeout is longer than a test may take, so a job can only end if another connection takes the range over.

use haul_lab::{OriginResource, RecordedRequest, RequestMatcher, ResourceContent, faults};

use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// A case in which silence is never a stall.
fn case_without_stall_timeout() -> JobCase {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT * 10;
    case.client.response_timeout = case.client.stall_timeout;
    case
}

/// The same with automatic segment sizes. Segments of a fixed size are taken over only from silent or nearly silent connections.
fn case_with_automatic_segments() -> JobCase {
    let mut case = case_without_stall_timeout();
    (case.options.segment_size, case.options.min_segment_size) = (None, None);
    case
}

fn range_length(request: &RecordedRequest, content: &ResourceContent) -> u64 {
    let range = request.range(content.length()).unwrap();
    range.end - range.start
}

#[track_caller]
fn assert_no_retries(run: &JobRun) {
    assert_eq!(run.outcome().retries, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_stalled_segment_is_moved_to_another_connection() {
    let case = case_without_stall_timeout();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(2), faults::stall_after(1000));
    let (run, origin) = case.run(resource).await;
    assert_no_retries(&run);
    case.assert_file(&content());
    let requests = origin.requests();
    let stalled = requests[2].range(content().length()).unwrap();
    assert_eq!(requests[2].bytes_sent, 1000);
    let rest = stalled.start + 1000..stalled.end;
    assert!(
        requests[3..]
            .iter()
            .any(|request| request.range(content().length()) == Some(rest.clone())),
        "nothing requested {rest:?}: {requests:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_request_without_a_response_is_moved_to_another_connection() {
    let case = case_without_stall_timeout();
    let silent =
        |_: &RecordedRequest, reply: &mut haul_lab::OriginResponse| reply.delay = LIMIT * 10;
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::nth(2), silent))
        .await;
    assert_no_retries(&run);
    case.assert_file(&content());
    let requests = origin.requests();
    let same_range_count = requests
        .iter()
        .filter(|other| other.header("range") == requests[2].header("range"))
        .count();
    assert_eq!((requests[2].bytes_sent, same_range_count), (0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_a_connection_ten_times_slower_than_the_others_keeps_a_small_range() {
    const FAST: u64 = 4 << 20;
    let (case, content) = (
        case_with_automatic_segments(),
        ResourceContent::random(5, 32 << 20),
    );
    // The first response has half of the file. The slow connection gets an eighth of the other half, for which it would need five
    // seconds, twice as long as the others need for everything.
    let resource = OriginResource::new(content.clone())
        .rule(RequestMatcher::nth(1), faults::body_rate(FAST / 10))
        .rule(!RequestMatcher::nth(1), faults::body_rate(FAST));
    let (run, origin) = case.run(resource).await;
    assert_no_retries(&run);
    case.assert_file(&content);
    let slow = &origin.requests()[1];
    let claimed = range_length(slow, &content);
    assert!(
        0 < slow.bytes_sent && slow.bytes_sent < claimed / 4 * 3,
        "of {claimed} bytes the slow connection delivered {}",
        slow.bytes_sent
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_a_nearly_silent_connection_keeps_hardly_any_range() {
    let (case, content) = (
        case_with_automatic_segments(),
        ResourceContent::random(5, 24 << 20),
    );
    // Alone, this connection would take ten minutes for its megabyte.
    let resource =
        OriginResource::new(content.clone()).rule(RequestMatcher::nth(1), faults::body_rate(2000));
    let origin = serve(resource).await;
    let run = case.get(&origin.url("/f.bin")).await;
    assert_no_retries(&run);
    case.assert_file(&content);
    let slow = &origin.requests()[1];
    let claimed = range_length(slow, &content);
    assert!(
        slow.bytes_sent < claimed / 16,
        "of {claimed} bytes the slow connection delivered {}",
        slow.bytes_sent
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_nearly_silent_segment_is_taken_over_even_if_it_is_small() {
    for rate in [1, 10] {
        let case = case_without_stall_timeout();
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::nth(2), faults::body_rate(rate));
        let (run, origin) = case.run(resource).await;
        assert_no_retries(&run);
        case.assert_file(&content());
        assert!(origin.requests()[2].bytes_sent < 1000);
    }
}

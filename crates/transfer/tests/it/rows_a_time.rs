//! Row A47: origins that take long before they answer.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_plan::{Remedy, TransferTimeLimit};
use haul_transfer::ConnectionCount;
use haul_transfer::list::ListEntry;
use url::Url;

use crate::batch::BatchCase;
use crate::harness::{JobCase, LIMIT, content, serve};

/// How long origins take here, and a shorter stall timeout.
const LATENCY: Duration = Duration::from_millis(400);
const STALL: Duration = Duration::from_millis(100);

fn slow_origin() -> OriginResource {
    OriginResource::new(content()).rule(RequestMatcher::always(), faults::delay_response(LATENCY))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a47_responses_that_take_longer_than_the_stall_timeout_are_waited_for() {
    for connections in [1, 4] {
        let mut case = JobCase::new();
        (case.client.stall_timeout, case.client.response_timeout) = (STALL, LIMIT);
        case.options.connections = ConnectionCount::Fixed(connections);
        case.options.segment_size = Some(1 << 20);
        let (run, _origin) = case.run(slow_origin()).await;
        assert_eq!(run.outcome().retries, 0);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a47_a_first_byte_that_never_comes_is_an_error_of_its_limit() {
    let mut case = JobCase::new();
    (case.client.stall_timeout, case.client.response_timeout) = (LIMIT, STALL);
    case.options.retry.retries = 1;
    case.options.retry.retries_before_response = 1;
    let (run, origin) = case.run(slow_origin()).await;
    let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::Response);
    assert!(run.error().remedies().contains(&limit), "{:?}", run.error());
    assert_eq!(origin.requests().len(), 2);
}

/// A mirror that says nothing costs the stall timeout, since the other one may be faster. The last one is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a47_a_mirror_that_takes_long_is_left_for_another_one() {
    let silent = || {
        let resource = OriginResource::new(content());
        resource.rule(RequestMatcher::always(), faults::delay_response(LIMIT))
    };
    let silent = serve(silent()).await;
    for slow in [OriginResource::new(content()), slow_origin()] {
        let mut case = JobCase::new();
        (case.client.stall_timeout, case.client.response_timeout) = (STALL, LIMIT * 2);
        let other = serve(slow).await;
        case.mirrors = vec![other.url("/f.bin")];
        let run = case.get(&silent.url("/f.bin")).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a47_a_batch_waits_for_responses_and_leaves_silent_mirrors() {
    let slow = serve(slow_origin()).await;
    let silent = OriginResource::new(content());
    let silent = serve(silent.rule(RequestMatcher::always(), faults::delay_response(LIMIT))).await;
    let mut case = BatchCase::new();
    (case.client.stall_timeout, case.client.response_timeout) = (STALL, LIMIT * 2);
    let entry = |line, name: &str, origin: &Origin, mirrors: Vec<Url>| {
        Ok(ListEntry {
            path: Some(name.into()),
            mirrors,
            ..ListEntry::new(line, origin.url("/f.bin").parse().unwrap())
        })
    };
    let mirrors = vec![slow.url("/f.bin").parse().unwrap()];
    let entries = [
        entry(1, "waited", &slow, Vec::new()),
        entry(2, "mirrored", &silent, mirrors),
    ];
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (2, 0, 0), "{:?}", run.summary.failure_groups);
    for name in ["waited", "mirrored"] {
        case.assert_file(name, &content());
    }
}

//! Row A7: a resource without validators. One response is of one version. Several responses are joined only if a digest would
//! detect a mixture, or if the user chose several connections.

use haul_lab::{OriginResource, OriginResponseBody, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ConnectionCount, ErrorClass, JobOutput};

use crate::harness::{JobCase, content};

fn case_with_automatic_connections() -> JobCase {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Auto { max: 4 };
    case
}

/// A resource without validators that has another version of the same length after this many requests.
fn changing_after(after: usize) -> (OriginResource, ResourceContent) {
    let newer = ResourceContent::random(2, content().length());
    let changed = newer.clone();
    let resource = OriginResource::without_validator(content()).rule(
        RequestMatcher::after_first(after),
        move |_, reply| {
            if let OriginResponseBody::Slice(content, _) = &mut reply.body {
                *content = changed.clone();
            }
        },
    );
    (resource, newer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_without_validators_the_file_comes_from_one_response() {
    // Whenever the file changes, the result is one version.
    for after in 0..4 {
        let case = case_with_automatic_connections();
        let (resource, newer) = changing_after(after);
        let (run, origin) = case.run(resource).await;
        run.outcome();
        assert!(run.has_warning("neither ETag nor Last-Modified"));
        let requests = origin.requests();
        assert_eq!(requests.len(), 2, "the second response has the whole file");
        assert_eq!(requests[1].header("range"), None);
        case.assert_file(&if after < 2 { newer } else { content() });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_first_response_with_the_whole_file_is_enough() {
    let case = case_with_automatic_connections();
    let small = ResourceContent::random(3, 1000);
    let (run, origin) = case
        .run(OriginResource::without_validator(small.clone()))
        .await;
    run.outcome();
    case.assert_file(&small);
    assert_eq!(origin.requests().len(), 1);
    assert!(!run.has_warning("neither"), "one response needs no warning");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_broken_response_without_validators_is_repeated_and_never_resumed() {
    let case = case_with_automatic_connections();
    let (resource, newer) = changing_after(2);
    let resource = resource.rule(RequestMatcher::nth(1), faults::reset_after(500_000));
    let (run, origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&newer);
    assert_eq!(origin.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_response_without_validators_that_always_breaks_exhausts_the_retries() {
    let mut case = case_with_automatic_connections();
    case.options.retry.retries = 3;
    // Each response has more bytes than would reset the retry count of a resumable download.
    let big = ResourceContent::random(4, 8 << 20);
    let resource = OriginResource::without_validator(big)
        .rule(RequestMatcher::always(), faults::reset_after(6 << 20));
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert!(!run.hints_at_resuming(), "{:?}", run.error());
    assert!(
        (4..=6).contains(&origin.requests().len()),
        "{} requests",
        origin.requests().len()
    );
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_stream_without_validators_is_not_continued_with_bytes_of_another_version() {
    let mut case = case_with_automatic_connections();
    let fifo = case.dir.path().join("fifo");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    case.output = Some(JobOutput::File(fifo.clone()));
    let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    let (resource, _) = changing_after(1);
    let resource = resource.rule(RequestMatcher::nth(0), faults::reset_after(300_000));
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert!(!run.hints_at_resuming(), "{:?}", run.error());
    assert_eq!(origin.requests().len(), 1);
    let output = reader.join().unwrap();
    assert!(output == content().slice(0..output.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_several_connections_are_used_on_request_with_a_warning() {
    let case = JobCase::new();
    let (run, origin) = case.run(OriginResource::without_validator(content())).await;
    run.outcome();
    case.assert_file(&content());
    assert!(run.has_warning("neither ETag nor Last-Modified"));
    assert!(origin.requests().len() > 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_several_connections_are_used_if_a_checksum_detects_mixed_versions() {
    let checksum = format!("sha256:{}", content().sha256());
    let mut case = case_with_automatic_connections();
    case.checksums = vec![checksum.parse().unwrap()];
    let (run, origin) = case.run(OriginResource::without_validator(content())).await;
    run.outcome();
    case.assert_file(&content());
    assert!(origin.requests().len() > 2 && !run.has_warning("neither"));
    let mut case = case_with_automatic_connections();
    case.checksums = vec![checksum.parse().unwrap()];
    let (run, _origin) = case.run(changing_after(3).0).await;
    assert_eq!(run.error().class(), ErrorClass::Verification);
    assert!(!case.path().exists());
}

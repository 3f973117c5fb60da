//! Row A7: a resource without validators. One response is of one version; several responses are joined only if a digest would detect a
//! mixture, or if the user chose several connections.

use haul_lab::{OriginResource, OriginResponseBody, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ConnectionCount, ErrorClass, JobOutput};

use crate::harness::{JobCase, content};

/// A case with the default settings about connections.
fn case_without_connection_settings() -> JobCase {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Auto { max: 4 };
    case
}

/// A resource without validators that is another version, of the same length, from the n-th request on.
fn changing(after: usize) -> (OriginResource, ResourceContent) {
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
async fn a7_without_validators_one_response_brings_the_file() {
    // Whenever it changes, the file is one version of it.
    for after in 0..4 {
        let case = case_without_connection_settings();
        let (resource, newer) = changing(after);
        let (ran, origin) = case.run(resource).await;
        ran.outcome();
        assert!(ran.warned("neither ETag nor Last-Modified"));
        let requests = origin.requests();
        assert_eq!(requests.len(), 2, "the second brings everything");
        assert_eq!(requests[1].header("range"), None);
        case.assert_file(&if after < 2 { newer } else { content() });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_first_response_with_the_whole_file_is_enough() {
    let case = case_without_connection_settings();
    let small = ResourceContent::random(3, 1000);
    let (ran, origin) = case
        .run(OriginResource::without_validator(small.clone()))
        .await;
    ran.outcome();
    case.assert_file(&small);
    assert_eq!(origin.requests().len(), 1);
    assert!(!ran.warned("neither"), "nothing was lost by it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_broken_response_without_validators_is_repeated_and_never_resumed() {
    let case = case_without_connection_settings();
    let (resource, newer) = changing(2);
    let resource = resource.rule(RequestMatcher::nth(1), faults::reset_after(500_000));
    let (ran, origin) = case.run(resource).await;
    ran.outcome();
    case.assert_file(&newer);
    assert_eq!(origin.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_response_that_always_breaks_exhausts_the_retries() {
    let mut case = case_without_connection_settings();
    case.options.retry.retries = 3;
    // Each try brings more than what refills the budget of a download that can go on.
    let big = ResourceContent::random(4, 8 << 20);
    let resource = OriginResource::without_validator(big)
        .rule(RequestMatcher::always(), faults::reset_after(6 << 20));
    let (ran, origin) = case.run(resource).await;
    assert_eq!(ran.error().class(), ErrorClass::Network);
    assert!(!ran.hints_at_resuming(), "{:?}", ran.error().hint());
    assert!(
        (4..=6).contains(&origin.requests().len()),
        "{} requests",
        origin.requests().len()
    );
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_stream_without_validators_is_not_continued_with_bytes_of_another_version() {
    let mut case = case_without_connection_settings();
    let fifo = case.dir.path().join("fifo");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    case.output = Some(JobOutput::File(fifo.clone()));
    let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    let (resource, _) = changing(1);
    let resource = resource.rule(RequestMatcher::nth(0), faults::reset_after(300_000));
    let (ran, origin) = case.run(resource).await;
    assert_eq!(ran.error().class(), ErrorClass::Network);
    assert!(!ran.hints_at_resuming(), "{:?}", ran.error().hint());
    assert_eq!(origin.requests().len(), 1);
    let output = reader.join().unwrap();
    assert!(output == content().slice(0..output.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_several_connections_are_used_on_request_with_a_warning() {
    let case = JobCase::new();
    let (ran, origin) = case.run(OriginResource::without_validator(content())).await;
    ran.outcome();
    case.assert_file(&content());
    assert!(ran.warned("neither ETag nor Last-Modified"));
    assert!(origin.requests().len() > 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_several_connections_are_used_if_a_checksum_detects_mixed_versions() {
    let checksum = format!("sha256:{}", content().sha256());
    let mut case = case_without_connection_settings();
    case.checksums = vec![checksum.parse().unwrap()];
    let (ran, origin) = case.run(OriginResource::without_validator(content())).await;
    ran.outcome();
    case.assert_file(&content());
    assert!(origin.requests().len() > 2 && !ran.warned("neither"));
    let mut case = case_without_connection_settings();
    case.checksums = vec![checksum.parse().unwrap()];
    let (ran, _origin) = case.run(changing(3).0).await;
    assert_eq!(ran.error().class(), ErrorClass::Verification);
    assert!(!case.path().exists());
}

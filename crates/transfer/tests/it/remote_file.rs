//! Files that are read at any offset: the bytes are right, of one version, and cost few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_net::Client;
use haul_transfer::{
    ErrorClass, GetError, NetworkError, OriginError, RemoteFile, VerificationError,
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, LIMIT, serve};

/// The bytes of the first request.
const FIRST: u64 = 256 << 10;

/// How much a test reads at a time.
const STEP: usize = 64 << 10;

/// Opens a URL with quick retries.
async fn open_url(case: &JobCase, url: &str) -> Result<RemoteFile, GetError> {
    let client = Client::new(case.client.clone()).unwrap();
    let (retry, stop) = (case.options.retry.clone(), case.stop.clone());
    let headers =
        HeaderMap::from_iter([("x-user".parse().unwrap(), HeaderValue::from_static("1"))]);
    let opening = Box::pin(RemoteFile::open(
        client,
        url.parse().unwrap(),
        headers,
        retry,
        stop,
    ));
    within(LIMIT, opening).await
}

async fn open(origin: &Origin) -> Result<RemoteFile, GetError> {
    open_url(&JobCase::new(), &origin.url("/f.bin")).await
}

async fn read(file: &mut RemoteFile, offset: u64, length: usize) -> Result<Vec<u8>, GetError> {
    let bytes = within(LIMIT, file.read_at(offset, length)).await?;
    Ok(bytes.to_vec())
}

/// Reads a file from front to back.
async fn read_all(file: &mut RemoteFile) -> Result<Vec<u8>, GetError> {
    let mut bytes = Vec::new();
    loop {
        let next = read(file, bytes.len() as u64, STEP).await?;
        if next.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(next);
    }
}

fn content(mebibytes: u64) -> ResourceContent {
    ResourceContent::random(5, (mebibytes << 20) + 12_345)
}

fn ranges(origin: &Origin) -> Vec<String> {
    let requests = origin.requests();
    let range =
        |request: &haul_lab::RecordedRequest| request.header("range").unwrap_or("none").to_owned();
    requests.iter().map(range).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_read_from_front_to_back_costs_two_requests_of_one_connection() {
    let origin = serve(OriginResource::new(content(20))).await;
    let mut file = open(&origin).await.unwrap();
    assert_eq!(file.size(), content(20).length());
    assert!(read_all(&mut file).await.unwrap() == content(20).to_vec());
    assert_eq!(ranges(&origin), ["bytes=0-262143", "bytes=262144-"]);
    assert_eq!(origin.connection_count(), 1);
    let requests = origin.requests();
    assert_eq!(requests[1].header("if-range"), Some("\"v1\""));
    assert!(
        requests
            .iter()
            .all(|request| request.header("x-user") == Some("1"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_file_is_in_the_first_response() {
    for length in [1, 1000, FIRST - 1, FIRST] {
        let content = ResourceContent::random(5, length);
        let origin = serve(OriginResource::new(content.clone())).await;
        let mut file = open(&origin).await.unwrap();
        assert_eq!(file.size(), length);
        assert!(read_all(&mut file).await.unwrap() == content.to_vec());
        assert_eq!(read(&mut file, length - 1, 10).await.unwrap().len(), 1);
        assert_eq!(read(&mut file, length, 10).await.unwrap().len(), 0);
        assert_eq!(
            read(&mut file, u64::MAX, usize::MAX).await.unwrap().len(),
            0
        );
        assert_eq!(origin.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jumps_cost_one_small_request_each_and_keep_their_connection() {
    const JUMPS: u64 = 50;
    let origin = serve(OriginResource::new(content(100))).await;
    let mut file = open(&origin).await.unwrap();
    // From the last to the first, as far as one can tell.
    for number in (0..JUMPS).rev() {
        let offset = (number * 1_999_993) + 500_000;
        let bytes = read(&mut file, offset, 1000).await.unwrap();
        assert!(bytes == content(100).slice(offset..offset + 1000));
    }
    assert_eq!(origin.requests().len() as u64, 1 + JUMPS);
    // The rest of the first response may have come too slowly to keep its connection.
    assert!(origin.connection_count() <= 2);
    // A read over the end of a block costs a second block.
    assert!(origin.bytes_sent() <= FIRST + JUMPS * 2 * STEP as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_ways_back_and_forth_cost_no_request() {
    let origin = serve(OriginResource::new(content(20))).await;
    let mut file = open(&origin).await.unwrap();
    let mut offset = 0;
    while offset < 10 << 20 {
        read(&mut file, offset, STEP).await.unwrap();
        let back = offset.saturating_sub(2 << 20);
        for at in [back, offset + 100_000, offset] {
            let bytes = read(&mut file, at, 1000).await.unwrap();
            assert!(bytes == content(20).slice(at..at + 1000));
        }
        offset += STEP as u64;
    }
    assert_eq!(origin.requests().len(), 2, "{:?}", ranges(&origin));
}

#[test]
fn any_reads_bring_the_right_bytes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let content = content(12);
    let bytes = content.to_vec();
    // Every third connection breaks, and every fourth response is shorter than the range that was requested.
    let length = content.length();
    let resource = OriginResource::new(content.clone())
        .rule(
            RequestMatcher::matching(|request| request.number_for_path % 3 == 2),
            faults::reset_after(200_000),
        )
        .rule(
            RequestMatcher::matching(|request| request.number_for_path % 4 == 3),
            move |request, response| {
                let range = request.range(length).unwrap();
                let end = range.end.min(range.start + 100_001);
                let content_range = format!("bytes {}-{}/{length}", range.start, end - 1);
                response.set_header("Content-Range", &content_range);
                let slice = content.slice(range.start..end);
                response.body = haul_lab::OriginResponseBody::Bytes(slice);
            },
        );
    let origin = runtime.block_on(serve(resource));
    let reads = prop::collection::vec((0..length + 1000, 0usize..2 << 20, 0u8..4), 1..30);
    let config = ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(reads in reads)| {
        let read_all = async {
            let mut file = open(&origin).await.unwrap();
            let mut last_end = 0;
            for (at, count, kind) in reads {
                // Half of the reads go on where the last one ended.
                let (offset, count) = match kind {
                    0 => (at, count),
                    1 => (at, count % 1000),
                    _ => (last_end, count % 100_000),
                };
                let found = read(&mut file, offset, count).await.unwrap();
                let start = usize::try_from(offset.min(length)).unwrap();
                assert!(found == bytes[start..(start + count).min(bytes.len())], "{count} at {offset}");
                last_end = (offset + found.len() as u64) % length;
            }
        };
        runtime.block_on(read_all);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_file_that_changes_is_an_error_and_never_a_mix() {
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let other = ResourceContent::random(6, content(20).length());
    let shorter = ResourceContent::random(5, 10 << 20);
    let dated = |content| OriginResource::without_validator(content).last_modified(old);
    for (first, second) in [
        (
            OriginResource::new(content(20)),
            OriginResource::new(other.clone()).etag("\"v2\""),
        ),
        // A weak tag cannot be sent as a condition.
        (
            OriginResource::new(content(20)).etag("W/\"a\""),
            OriginResource::new(other.clone()).etag("W/\"b\""),
        ),
        (
            dated(content(20)),
            dated(other.clone()).last_modified("Mon, 07 Nov 1994 08:49:37 GMT"),
        ),
        // Only its length shows it.
        (dated(content(20)), dated(content(21))),
        (
            OriginResource::new(content(20)),
            OriginResource::new(shorter),
        ),
    ] {
        let origin = serve(first).await;
        let mut file = open(&origin).await.unwrap();
        assert!(read(&mut file, 0, 1000).await.unwrap() == content(20).slice(0..1000));
        origin.replace("/f.bin", second);
        for offset in [2 << 20, 15 << 20, 2 << 20] {
            let error = read(&mut file, offset, 1000).await.unwrap_err();
            assert!(
                matches!(
                    error,
                    GetError::Verification {
                        error: VerificationError::VersionChanged,
                        ..
                    }
                ),
                "{error:?}"
            );
            assert_eq!(error.class(), ErrorClass::Verification);
        }
        // What has come is still of the first version.
        assert!(read(&mut file, 0, 1000).await.unwrap() == content(20).slice(0..1000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_response_with_another_range_is_an_error() {
    let shifted = |range: std::ops::Range<u64>, total| {
        format!(
            "bytes {}-{}/{total}",
            range.start + 1,
            range.end.min(total - 1)
        )
    };
    for rule in [0, 1, 2] {
        let resource = OriginResource::new(content(20)).rule(
            RequestMatcher::mid_file(),
            move |request, response| match rule {
                0 => faults::content_range_from(shifted)(request, response),
                1 => faults::no_content_range(request, response),
                _ => faults::ignore_range(request, response),
            },
        );
        let origin = serve(resource).await;
        let mut file = open(&origin).await.unwrap();
        let error = read(&mut file, 10 << 20, 1000).await.unwrap_err();
        assert!(
            matches!(
                error,
                GetError::Origin {
                    error: OriginError::UnusableResponse { .. },
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(origin.requests().len() <= 6);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_an_origin_that_misreads_if_range_is_asked_without_it() {
    let resource = OriginResource::new(content(20))
        .rule(RequestMatcher::always(), faults::if_range_never_matches);
    let origin = serve(resource).await;
    let mut file = open(&origin).await.unwrap();
    assert!(read_all(&mut file).await.unwrap() == content(20).to_vec());
    assert_eq!(origin.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_connection_that_breaks_is_made_again() {
    let resource = OriginResource::new(content(4)).rule(
        RequestMatcher::after_first(1),
        |request, response| match request.number_for_path {
            1 => faults::reset_after(600_000)(request, response),
            2 => faults::status(503)(request, response),
            3 => faults::reset_connection(request, response),
            4 => faults::overstated_length(10)(request, response),
            _ => {}
        },
    );
    let origin = serve(resource).await;
    let mut file = open(&origin).await.unwrap();
    assert!(read_all(&mut file).await.unwrap() == content(4).to_vec());
    assert!(origin.requests().len() >= 6, "{:?}", ranges(&origin));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_failures_without_progress_end_a_read_and_a_later_one_may_work() {
    let mut case = JobCase::new();
    case.options.retry.retries = 2;
    let is_down = Arc::new(AtomicBool::new(false));
    let rule = {
        let is_down = Arc::clone(&is_down);
        RequestMatcher::matching(move |_| is_down.load(Ordering::Relaxed))
    };
    let resource = OriginResource::new(content(20)).rule(rule, faults::reset_connection);
    let origin = serve(resource).await;
    let mut file = open_url(&case, &origin.url("/f.bin")).await.unwrap();
    is_down.store(true, Ordering::Relaxed);
    let error = read(&mut file, 10 << 20, 1000).await.unwrap_err();
    assert!(
        matches!(
            error,
            GetError::Network {
                error: NetworkError::Transport { .. },
                ..
            }
        ),
        "{error:?}"
    );
    is_down.store(false, Ordering::Relaxed);
    let bytes = read(&mut file, 10 << 20, 1000).await.unwrap();
    assert!(bytes == content(20).slice(10 << 20..(10 << 20) + 1000));
    // The first, three that failed and perhaps one on a connection that was idle, and the last.
    assert!(origin.requests().len() <= 6, "{:?}", ranges(&origin));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a14_an_empty_file_has_no_bytes() {
    for has_ranges in [true, false] {
        let resource = OriginResource::new(ResourceContent::fixed("")).rule(
            RequestMatcher::matching(move |_| !has_ranges),
            faults::ignore_range,
        );
        let origin = serve(resource).await;
        let mut file = open(&origin).await.unwrap();
        assert_eq!(
            (file.size(), read(&mut file, 0, 10).await.unwrap().len()),
            (0, 0)
        );
        assert_eq!(origin.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_small_file_without_ranges_is_read_whole_from_one_response() {
    for chunked in [false, true] {
        let resource = OriginResource::new(content(4))
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::matching(move |_| chunked), faults::chunked)
            // The second is of another version, which is no error: no byte of the first is kept.
            .rule(
                RequestMatcher::first(1),
                faults::serve_other(OriginResource::new(content(3))),
            )
            .rule(RequestMatcher::first(1), faults::ignore_range)
            .rule(RequestMatcher::first(1), faults::close_after(2 << 20));
        let origin = serve(resource).await;
        let mut file = open(&origin).await.unwrap();
        assert_eq!(file.size(), content(4).length());
        let middle = read(&mut file, 3 << 20, 1000).await.unwrap();
        assert!(middle == content(4).slice(3 << 20..(3 << 20) + 1000));
        assert!(read_all(&mut file).await.unwrap() == content(4).to_vec());
        assert_eq!(origin.requests().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_large_file_without_ranges_is_an_error_that_says_so() {
    for chunked in [false, true] {
        let resource = OriginResource::new(content(70))
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::matching(move |_| chunked), faults::chunked);
        let origin = serve(resource).await;
        let error = open(&origin).await.unwrap_err();
        let expected = format!(
            "{} cannot be read at any offset: its origin has no ranges, and it has more than 64 MiB",
            origin.url("/f.bin")
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(origin.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_without_a_validator_one_response_has_to_bring_the_file() {
    for (mebibytes, requests) in [(0, 1), (4, 2)] {
        let origin = serve(OriginResource::without_validator(content(mebibytes))).await;
        let mut file = open(&origin).await.unwrap();
        assert!(read_all(&mut file).await.unwrap() == content(mebibytes).to_vec());
        assert_eq!(origin.requests().len(), requests, "{:?}", ranges(&origin));
    }
    let origin = serve(OriginResource::without_validator(content(70))).await;
    let error = open(&origin).await.unwrap_err();
    assert!(
        error.to_string().contains("neither ETag nor Last-Modified"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_encoded_file_is_an_error() {
    let resource = OriginResource::new(content(1)).rule(RequestMatcher::always(), faults::gzip);
    let origin = serve(resource).await;
    let error = open(&origin).await.unwrap_err();
    assert!(error.to_string().contains("gzip"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_bytes_beyond_the_range_are_not_used() {
    let resource =
        OriginResource::new(content(4)).rule(RequestMatcher::always(), |request, response| {
            faults::extra_bytes(100_000)(request, response);
            faults::chunked(request, response);
        });
    let origin = serve(resource).await;
    let mut file = open(&origin).await.unwrap();
    assert!(read_all(&mut file).await.unwrap() == content(4).to_vec());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_a_redirect_is_followed_once() {
    let redirect = OriginResource::new(content(4))
        .rule(RequestMatcher::always(), faults::redirect(302, "/f.bin"));
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content(4)))
        .resource("/start", redirect)
        .start()
        .await;
    let mut file = open_url(&JobCase::new(), &origin.url("/start"))
        .await
        .unwrap();
    assert!(read_all(&mut file).await.unwrap() == content(4).to_vec());
    let requests = origin.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path()).collect();
    assert_eq!(paths, ["/start", "/f.bin", "/f.bin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_refuses_the_file_is_the_error_of_open() {
    let origin = serve(OriginResource::new(content(0))).await;
    let error = open_url(&JobCase::new(), &origin.url("/missing"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, GetError::Origin { error: OriginError::Status { status, .. }, .. } if status.as_u16() == 404)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_dropped_or_left_closes_its_connection_and_reads_no_more() {
    let origin = serve(OriginResource::new(content(1000))).await;
    let mut file = open(&origin).await.unwrap();
    for number in 0..100 {
        read(&mut file, number * STEP as u64, STEP).await.unwrap();
    }
    // The open response is far too long to be read to its end.
    read(&mut file, 900 << 20, 1000).await.unwrap();
    drop(file);
    let all_closed = async {
        while origin.open_connections() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, all_closed).await;
    assert_eq!(origin.requests().len(), 3);
    assert!(origin.bytes_sent() < 100 << 20, "{}", origin.bytes_sent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_read_that_waits() {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let stop: CancellationToken = case.stop.clone();
    let resource =
        OriginResource::new(content(20)).rule(RequestMatcher::nth(1), faults::stall_after(1 << 20));
    let origin = serve(resource).await;
    let mut file = open_url(&case, &origin.url("/f.bin")).await.unwrap();
    let stop_when_sent = async {
        while origin.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (read, ()) = within(LIMIT, async {
        tokio::join!(read_all(&mut file), stop_when_sent)
    })
    .await;
    assert!(
        matches!(read, Err(GetError::Interrupted { .. })),
        "{read:?}"
    );
}

/// A caller that gives a read up, an `asyncio` task say, can go on with the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_was_dropped_loses_nothing() {
    let origin = serve(OriginResource::new(content(4))).await;
    let mut file = open(&origin).await.unwrap();
    let mut bytes = Vec::new();
    let mut polls = 1;
    while (bytes.len() as u64) < file.size() {
        // Most reads are dropped before they are done.
        let mut reading = Box::pin(file.read_at(bytes.len() as u64, STEP));
        let mut done = None;
        for _ in 0..polls {
            if let Poll::Ready(read) = futures_util::poll!(&mut reading) {
                done = Some(read.unwrap());
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(reading);
        polls = if done.is_some() { 1 } else { polls * 2 };
        bytes.extend_from_slice(&done.unwrap_or_default());
    }
    assert!(bytes == content(4).to_vec());
}

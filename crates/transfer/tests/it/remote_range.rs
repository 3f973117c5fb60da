//! Ranges of files that are not opened: one request each, for exactly what is wanted, and bytes of one version.

use std::ops::Range;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_net::Client;
use haul_transfer::{GetError, RemoteFile, RemoteFileMetadata, VerificationError};
use http::HeaderMap;

use crate::harness::{JobCase, LIMIT, serve};

const SIZE: u64 = 300_000;

fn content() -> ResourceContent {
    ResourceContent::random(5, SIZE)
}

async fn read(origin: &Origin, range: Range<u64>) -> Result<Vec<u8>, GetError> {
    let case = JobCase::new();
    let reading = Box::pin(RemoteFile::read_range(
        Client::new(case.client).unwrap(),
        origin.url("/f.bin").parse().unwrap(),
        HeaderMap::new(),
        case.options.retry,
        case.stop,
        range,
    ));
    Ok(within(LIMIT, reading).await?.to_vec())
}

async fn fetch_metadata(origin: &Origin) -> Result<RemoteFileMetadata, GetError> {
    let case = JobCase::new();
    let asking = Box::pin(RemoteFile::fetch_metadata(
        Client::new(case.client).unwrap(),
        origin.url("/f.bin").parse().unwrap(),
        HeaderMap::new(),
        case.options.retry,
        case.stop,
    ));
    within(LIMIT, asking).await
}

fn ranges(origin: &Origin) -> Vec<String> {
    let requests = origin.requests();
    let range =
        |request: &haul_lab::RecordedRequest| request.header("range").unwrap_or("none").to_owned();
    requests.iter().map(range).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_is_one_request_for_exactly_its_bytes() {
    let cases = [
        (10..20, "bytes=10-19"),
        (0..SIZE, "bytes=0-299999"),
        (100_000..250_001, "bytes=100000-250000"),
        (299_990..400_000, "bytes=299990-399999"),
        (250_000..u64::MAX, "bytes=250000-"),
    ];
    for has_version in [true, false] {
        for (range, request) in cases.clone() {
            let resource = if has_version {
                OriginResource::new(content())
            } else {
                OriginResource::without_validator(content())
            };
            let origin = serve(resource).await;
            let bytes = read(&origin, range.clone()).await.unwrap();
            assert!(bytes == content().slice(range.start..range.end.min(SIZE)));
            assert_eq!(ranges(&origin), [request]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_no_bytes_behind_the_end_and_in_an_empty_range() {
    let origin = serve(OriginResource::new(content())).await;
    for range in [5..5, SIZE..SIZE + 1, SIZE + 7..u64::MAX] {
        assert!(read(&origin, range).await.unwrap().is_empty());
    }
    assert_eq!(ranges(&origin), ["bytes=300000-300000", "bytes=300007-"]);
    let empty = serve(OriginResource::new(ResourceContent::random(5, 0))).await;
    assert!(read(&empty, 0..10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_range_that_breaks_is_continued_in_the_same_version() {
    let broken =
        OriginResource::new(content()).rule(RequestMatcher::first(1), faults::close_after(100_000));
    let origin = serve(broken).await;
    assert!(read(&origin, 50..SIZE).await.unwrap() == content().slice(50..SIZE));
    assert_eq!(origin.requests()[1].header("if-range"), Some("\"v1\""));

    let other = OriginResource::new(ResourceContent::random(6, SIZE)).etag("\"v2\"");
    let changed = OriginResource::new(content())
        .rule(RequestMatcher::first(1), faults::close_after(100_000))
        .rule(RequestMatcher::after_first(1), faults::serve_other(other));
    let origin = serve(changed).await;
    let bytes = read(&origin, 50..SIZE).await;
    assert!(matches!(
        bytes,
        Err(GetError::Verification {
            error: VerificationError::VersionChanged,
            ..
        })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_broken_range_without_a_version_is_read_anew() {
    let broken = OriginResource::without_validator(content())
        .rule(RequestMatcher::first(1), faults::close_after(100_000));
    let origin = serve(broken).await;
    assert!(read(&origin, 50..SIZE).await.unwrap() == content().slice(50..SIZE));
    assert_eq!(ranges(&origin), ["bytes=50-299999", "bytes=50-299999"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_without_ranges_the_file_is_read_whole() {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::ignore_range);
    let origin = serve(resource).await;
    assert!(read(&origin, 1000..2000).await.unwrap() == content().slice(1000..2000));
    assert_eq!(ranges(&origin), ["bytes=1000-1999", "none"]);
    assert!(read(&origin, 0..2000).await.unwrap() == content().slice(0..2000));
    assert_eq!(origin.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_costs_one_byte() {
    let origin = serve(OriginResource::new(content())).await;
    let metadata = fetch_metadata(&origin).await.unwrap();
    assert_eq!(metadata.size, Some(SIZE));
    assert_eq!(metadata.version.etag.unwrap().to_string(), "\"v1\"");
    assert_eq!(ranges(&origin), ["bytes=0-0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_metadata_of_a_file_without_ranges_has_its_size() {
    let large = OriginResource::new(ResourceContent::random(5, 70 << 20));
    let origin = serve(large.rule(RequestMatcher::always(), faults::ignore_range)).await;
    assert_eq!(fetch_metadata(&origin).await.unwrap().size, Some(70 << 20));
    let encoded = OriginResource::new(content()).rule(RequestMatcher::always(), faults::gzip);
    let origin = serve(encoded).await;
    let error = fetch_metadata(&origin).await;
    assert!(error.is_ok_and(|metadata| metadata.size.is_none()));
}

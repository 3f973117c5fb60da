//! One file from several origins: each delivers a part, and a bad one is dropped.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::Checksum;
use haul_transfer::{ConnectionCount, ErrorClass, GetError, JobOutput};

use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// The resource of a mirror: the same bytes and date as on other mirrors, with an ETag of its own.
pub(crate) fn mirror_resource(tag: &str) -> OriginResource {
    resource_without_date(tag).last_modified("Sat, 05 Nov 1994 08:49:37 GMT")
}

/// The same without `Last-Modified`.
pub(crate) fn resource_without_date(tag: &str) -> OriginResource {
    OriginResource::without_validator(content()).etag(tag)
}

/// An origin that needs half a second for the file over four connections.
pub(crate) async fn rate_limited(resource: OriginResource) -> Origin {
    Origin::builder()
        .resource("/f.bin", resource)
        .rate_per_connection(1 << 20)
        .start()
        .await
}

pub(crate) fn sha256() -> Checksum {
    format!("sha256:{}", content().sha256()).parse().unwrap()
}

/// Downloads from the first origin with the others as mirrors.
pub(crate) async fn get_from(case: &mut JobCase, origins: &[&Origin]) -> JobRun {
    let urls: Vec<String> = origins.iter().map(|origin| origin.url("/f.bin")).collect();
    case.mirrors = urls[1..].to_vec();
    case.get(&urls[0]).await
}

#[track_caller]
pub(crate) fn assert_dropped(run: &JobRun, origin: &Origin, reason: &str) {
    let url = origin.url("/f.bin");
    assert!(
        run.has_warning(&format!("haul no longer uses {url}: ")) && run.has_warning(reason),
        "not dropped for {reason:?}: {:?}",
        run.events
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_equal_mirrors_each_deliver_a_part() {
    let mut case = JobCase::new();
    let (a, b) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    let run = get_from(&mut case, &[&a, &b]).await;
    assert_eq!(run.outcome().fetched, content().length());
    assert_eq!(run.outcome().retries, 0);
    case.assert_file(&content());
    for origin in [&a, &b] {
        assert!(
            origin.bytes_sent() > content().length() / 4,
            "{}",
            origin.bytes_sent()
        );
        assert!(
            origin
                .requests()
                .iter()
                .all(|request| request.status == 206)
        );
    }
    // Later requests to each mirror carry its own tag.
    for (origin, tag) in [(&a, "\"a\""), (&b, "\"b\"")] {
        let tags: Vec<_> = origin
            .requests()
            .iter()
            .map(|request| request.header("if-range").map(str::to_owned))
            .collect();
        assert!(tags.iter().flatten().all(|sent| sent == tag), "{tags:?}");
        assert!(tags.iter().flatten().next().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requested_number_of_connections_applies_to_each_host() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(2);
    let (a, b) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    let run = get_from(&mut case, &[&a, &b]).await;
    assert_eq!(run.outcome().connections, 4);
    for origin in [&a, &b] {
        assert_eq!(
            origin
                .requests()
                .iter()
                .map(|request| request.open_connections)
                .max(),
            Some(2)
        );
    }
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_automatic_number_of_connections_is_at_least_one_for_each_mirror() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Auto { max: 16 };
    let mut origins = Vec::new();
    for tag in ["\"a\"", "\"b\"", "\"c\""] {
        origins.push(rate_limited(mirror_resource(tag)).await);
    }
    let run = get_from(&mut case, &origins.iter().collect::<Vec<_>>()).await;
    assert!(run.outcome().connections >= 3);
    assert!(origins.iter().all(|origin| origin.bytes_sent() > 0));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_mirror_does_not_fail_the_download() {
    for is_first in [true, false] {
        let mut case = JobCase::new();
        let (good, dead) = (
            rate_limited(mirror_resource("\"a\"")).await,
            serve(mirror_resource("\"a\"")).await,
        );
        let url = dead.url("/f.bin");
        dead.stop().await;
        let urls = [url, good.url("/f.bin")];
        let (one, other) = if is_first { (0, 1) } else { (1, 0) };
        case.mirrors = vec![urls[other].clone()];
        let run = case.get(&urls[one]).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_the_file_is_dropped_at_once() {
    for is_first in [true, false] {
        let mut case = JobCase::new();
        let good = rate_limited(mirror_resource("\"a\"")).await;
        let without =
            serve(mirror_resource("\"b\"").rule(RequestMatcher::always(), faults::status(404)))
                .await;
        let origins = if is_first {
            [&without, &good]
        } else {
            [&good, &without]
        };
        let run = get_from(&mut case, &origins).await;
        run.outcome();
        assert_dropped(&run, &without, "404");
        assert_eq!(without.requests().len(), 1);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_dies_is_dropped_and_the_other_delivers_the_rest() {
    for dying_index in [0, 1] {
        let mut case = JobCase::new();
        let dying_resource = mirror_resource("\"a\"")
            .rule(
                RequestMatcher::after_bytes_sent(300_000),
                faults::reset_connection,
            )
            .rule(RequestMatcher::always(), faults::reset_after(200_000));
        let (dying_origin, good) = (
            rate_limited(dying_resource).await,
            rate_limited(mirror_resource("\"b\"")).await,
        );
        let origins = if dying_index == 0 {
            [&dying_origin, &good]
        } else {
            [&good, &dying_origin]
        };
        let run = get_from(&mut case, &origins).await;
        run.outcome();
        assert!(dying_origin.bytes_sent() > 0);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_mirror_does_not_delay_the_download() {
    let mut case = JobCase::new();
    // Longer than the test may take: only another worker that takes the range over can end it.
    case.client.stall_timeout = LIMIT * 10;
    case.client.response_timeout = case.client.stall_timeout;
    (case.options.segment_size, case.options.min_segment_size) = (None, Some(64 << 10));
    let slow = mirror_resource("\"s\"").rule(RequestMatcher::always(), faults::body_rate(2000));
    let (good, slow) = (
        rate_limited(mirror_resource("\"a\"")).await,
        serve(slow).await,
    );
    let run = get_from(&mut case, &[&good, &slow]).await;
    assert!(run.outcome().elapsed < Duration::from_secs(8));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_stalls_does_not_fail_the_download() {
    let mut case = JobCase::new();
    let silent = mirror_resource("\"s\"").rule(RequestMatcher::always(), faults::stall_after(1000));
    let (good, silent) = (
        rate_limited(mirror_resource("\"a\"")).await,
        serve(silent).await,
    );
    let run = get_from(&mut case, &[&good, &silent]).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mirror_follows_its_own_redirects() {
    let mut case = JobCase::new();
    let (a, target) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    let redirect = faults::status_with_header(302, "Location", target.url("/f.bin"));
    let redirecting =
        serve(mirror_resource("\"b\"").rule(RequestMatcher::always(), redirect)).await;
    let run = get_from(&mut case, &[&a, &redirecting]).await;
    assert_eq!(run.outcome().final_url.as_str(), a.url("/f.bin"));
    assert_eq!(redirecting.requests().len(), 1);
    assert!(target.bytes_sent() > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_ranges_is_not_used_if_others_have_them() {
    for is_first in [true, false] {
        let mut case = JobCase::new();
        let without_ranges =
            mirror_resource("\"b\"").rule(RequestMatcher::always(), faults::ignore_range);
        let (good, without_ranges) = (
            rate_limited(mirror_resource("\"a\"")).await,
            serve(without_ranges).await,
        );
        let origins = if is_first {
            [&without_ranges, &good]
        } else {
            [&good, &without_ranges]
        };
        let run = get_from(&mut case, &origins).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_a_single_stream_keeps_breaking_the_next_source_delivers_the_file() {
    let mut case = JobCase::new();
    case.options.retry.retries = 1;
    let broken = mirror_resource("\"b\"")
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::reset_after(1000));
    let (broken, good) = (serve(broken).await, serve(mirror_resource("\"a\"")).await);
    let run = get_from(&mut case, &[&broken, &good]).await;
    run.outcome();
    assert!(run.has_warning("haul no longer uses"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_job_resumes_with_all_mirrors_and_fetches_nothing_twice() {
    let mut case = JobCase::new();
    let (a, b) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    let stop = case.stop.clone();
    let stop_half_way = async {
        while a.bytes_sent() + b.bytes_sent() < content().length() / 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let origins = [&a, &b];
    let (run, ()) = tokio::join!(get_from(&mut case, &origins), stop_half_way);
    assert!(run.hints_at_resuming());
    case.stop = Default::default();
    let before = (a.requests().len(), b.requests().len());
    let run = get_from(&mut case, &[&a, &b]).await;
    let outcome = run.outcome();
    assert!(outcome.resumed > 0);
    assert_eq!(outcome.resumed + outcome.fetched, content().length());
    assert!(a.requests().len() > before.0 && b.requests().len() > before.1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_killed_job_is_resumed_from_another_source_if_a_digest_identifies_the_file() {
    for has_checksum in [true, false] {
        let mut case = JobCase::new();
        if has_checksum {
            case.checksums = vec![sha256()];
        }
        let (a, b) = (
            rate_limited(mirror_resource("\"a\"")).await,
            rate_limited(mirror_resource("\"b\"")).await,
        );
        let stop = case.stop.clone();
        let stop_half_way = async {
            while a.bytes_sent() < content().length() / 3 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let origins = [&a];
        let (_, ()) = tokio::join!(get_from(&mut case, &origins), stop_half_way);
        let mut killed = case.copy_as_if_killed();
        killed.checksums = case.checksums.clone();
        // The first source is gone when the command is run again.
        a.replace(
            "/f.bin",
            mirror_resource("\"a\"").rule(RequestMatcher::always(), faults::status(404)),
        );
        let run = get_from(&mut killed, &[&a, &b]).await;
        assert_eq!(run.outcome().resumed > 0, has_checksum);
        killed.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_all_mirrors_are_dropped_the_error_names_each_with_its_reason() {
    let mut case = JobCase::new();
    let status =
        |code| mirror_resource("\"a\"").rule(RequestMatcher::always(), faults::status(code));
    let (a, b) = (serve(status(404)).await, serve(status(410)).await);
    let c = serve(OriginResource::new(ResourceContent::random(1, 7))).await;
    case.expected_size = Some(content().length());
    let run = get_from(&mut case, &[&a, &b, &c]).await;
    let text = run.error().to_string();
    let expected = format!(
        "none of 3 sources gave the file: {}: answered 404 Not Found; {}: answered 410 Gone; {}: it has 7 bytes, and {} were expected",
        a.url("/f.bin"),
        b.url("/f.bin"),
        c.url("/f.bin"),
        content().length()
    );
    assert_eq!(text, expected);
    assert_eq!(run.error().class(), ErrorClass::Verification);
    assert_eq!(case.listing(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_all_mirrors_fail_the_received_bytes_are_kept() {
    let mut case = JobCase::new();
    (case.options.retry.retries, case.options.connections) = (2, ConnectionCount::Fixed(2));
    let dying_resource = |tag| {
        mirror_resource(tag).rule(
            RequestMatcher::after_bytes_sent(400_000),
            faults::reset_connection,
        )
    };
    let (a, b) = (
        rate_limited(dying_resource("\"a\"")).await,
        rate_limited(dying_resource("\"b\"")).await,
    );
    let run = get_from(&mut case, &[&a, &b]).await;
    let error = run.error();
    assert!(
        matches!(error, GetError::AllSourcesFailed { dropped, .. } if dropped.len() == 2),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Network);
    assert!(run.hints_at_resuming());
    let good = rate_limited(mirror_resource("\"a\"")).await;
    a.replace("/f.bin", mirror_resource("\"a\""));
    let run = get_from(&mut case, &[&a, &good]).await;
    assert!(run.outcome().resumed > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_to_a_device_uses_the_next_source_when_the_first_has_no_file() {
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    case.output = Some(JobOutput::File("/dev/null".into()));
    let without =
        serve(mirror_resource("\"b\"").rule(RequestMatcher::always(), faults::status(404))).await;
    let good = serve(mirror_resource("\"a\"")).await;
    let run = get_from(&mut case, &[&without, &good]).await;
    assert_eq!(run.outcome().bytes, content().length());
}

/// The author of the document is not trusted: the user's credentials are for hosts that the user named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_a_metalink_document_get_credentials_only_if_the_user_named_them() {
    let mut case = JobCase::new();
    case.client.credentials.bearer = Some(haul_net::Secret::new("s3cret".into()));
    let token = http::HeaderValue::from_static("t0ken");
    case.client.headers.insert("x-api-key", token);
    let (a, b) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    case.credential_urls = Some(vec![b.url("/other")]);
    let origins = [&a, &b];
    get_from(&mut case, &origins).await.outcome();
    case.assert_file(&content());
    for (origin, is_named) in [(&a, false), (&b, true)] {
        assert!(origin.bytes_sent() > 0);
        for request in origin.requests() {
            assert_eq!(request.header("x-api-key").is_some(), is_named);
            assert_eq!(request.header("authorization").is_some(), is_named);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_in_a_metalink_url_is_sent_to_its_host_only() {
    let mut case = JobCase::new();
    case.credential_urls = Some(Vec::new());
    let (a, b) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    case.mirrors = vec![b.url("/f.bin")];
    let url = a.url("/f.bin").replace("http://", "http://me:s3cret@");
    case.get(&url).await.outcome();
    assert!(
        a.requests()
            .iter()
            .all(|request| request.header("authorization").is_some())
    );
    assert!(b.bytes_sent() > 0);
    assert!(
        b.requests()
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}

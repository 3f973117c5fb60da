//! One file from several origins: all share the work, and a bad one is dropped without harm.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::Checksum;
use haul_transfer::{ConnectionCount, ErrorClass, GetError, JobOutput};

use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// A mirror's resource: the same bytes of the same date, a tag of its own, as different hosts have it.
pub(crate) fn copy(tag: &str) -> OriginResource {
    dateless(tag).last_modified("Sat, 05 Nov 1994 08:49:37 GMT")
}

/// One that says no date.
pub(crate) fn dateless(tag: &str) -> OriginResource {
    OriginResource::without_validator(content()).etag(tag)
}

/// A mirror that takes a while to give the file: half a second over four connections.
pub(crate) async fn paced(resource: OriginResource) -> Origin {
    Origin::builder()
        .resource("/f.bin", resource)
        .rate_per_connection(1 << 20)
        .start()
        .await
}

pub(crate) fn sha256() -> Checksum {
    format!("sha256:{}", content().sha256()).parse().unwrap()
}

/// Downloads from the first with the others as mirrors.
pub(crate) async fn from(case: &mut JobCase, origins: &[&Origin]) -> JobRun {
    let urls: Vec<String> = origins.iter().map(|origin| origin.url("/f.bin")).collect();
    case.mirrors = urls[1..].to_vec();
    case.get(&urls[0]).await
}

#[track_caller]
pub(crate) fn assert_dropped(ran: &JobRun, origin: &Origin, why: &str) {
    let url = origin.url("/f.bin");
    assert!(
        ran.warned(&format!("{url} is used no more: ")) && ran.warned(why),
        "not dropped for {why:?}: {:?}",
        ran.events
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_equal_mirrors_share_the_work() {
    let mut case = JobCase::new();
    let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let ran = from(&mut case, &[&a, &b]).await;
    assert_eq!(ran.outcome().fetched, content().length());
    assert_eq!(ran.outcome().retries, 0);
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
    let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let ran = from(&mut case, &[&a, &b]).await;
    assert_eq!(ran.outcome().connections, 4);
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
        origins.push(paced(copy(tag)).await);
    }
    let ran = from(&mut case, &origins.iter().collect::<Vec<_>>()).await;
    assert!(ran.outcome().connections >= 3);
    assert!(origins.iter().all(|origin| origin.bytes_sent() > 0));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_was_always_dead_costs_one_request() {
    for first in [true, false] {
        let mut case = JobCase::new();
        let (good, dead) = (paced(copy("\"a\"")).await, serve(copy("\"a\"")).await);
        let url = dead.url("/f.bin");
        dead.stop().await;
        let urls = [url, good.url("/f.bin")];
        let (one, other) = if first { (0, 1) } else { (1, 0) };
        case.mirrors = vec![urls[other].clone()];
        let ran = case.get(&urls[one]).await;
        ran.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_the_file_is_dropped_at_once() {
    for first in [true, false] {
        let mut case = JobCase::new();
        let good = paced(copy("\"a\"")).await;
        let without =
            serve(copy("\"b\"").rule(RequestMatcher::always(), faults::status(404))).await;
        let origins = if first {
            [&without, &good]
        } else {
            [&good, &without]
        };
        let ran = from(&mut case, &origins).await;
        ran.outcome();
        assert_dropped(&ran, &without, "404");
        assert_eq!(without.requests().len(), 1);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_dies_is_dropped_and_the_other_delivers_the_rest() {
    for dying in [0, 1] {
        let mut case = JobCase::new();
        let dies = copy("\"a\"")
            .rule(
                RequestMatcher::after_bytes_sent(300_000),
                faults::reset_connection,
            )
            .rule(RequestMatcher::always(), faults::reset_after(200_000));
        let (ill, good) = (paced(dies).await, paced(copy("\"b\"")).await);
        let origins = if dying == 0 {
            [&ill, &good]
        } else {
            [&good, &ill]
        };
        let ran = from(&mut case, &origins).await;
        ran.outcome();
        assert!(ill.bytes_sent() > 0);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_mirror_delays_nothing() {
    let mut case = JobCase::new();
    // Longer than the test may last: only a take-over can end its claims.
    case.client.stall_timeout = LIMIT * 10;
    (case.options.segment_size, case.options.min_segment_size) = (None, Some(64 << 10));
    let slow = copy("\"s\"").rule(RequestMatcher::always(), faults::body_rate(2000));
    let (good, slow) = (paced(copy("\"a\"")).await, serve(slow).await);
    let ran = from(&mut case, &[&good, &slow]).await;
    assert!(ran.outcome().elapsed < Duration::from_secs(8));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_falls_silent_delays_nothing() {
    let mut case = JobCase::new();
    let silent = copy("\"s\"").rule(RequestMatcher::always(), faults::stall_after(1000));
    let (good, silent) = (paced(copy("\"a\"")).await, serve(silent).await);
    let ran = from(&mut case, &[&good, &silent]).await;
    ran.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mirror_follows_its_own_redirects() {
    let mut case = JobCase::new();
    let (a, far) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let away = faults::status_with_header(302, "Location", far.url("/f.bin"));
    let near = serve(copy("\"b\"").rule(RequestMatcher::always(), away)).await;
    let ran = from(&mut case, &[&a, &near]).await;
    assert_eq!(ran.outcome().final_url.as_str(), a.url("/f.bin"));
    assert_eq!(near.requests().len(), 1);
    assert!(far.bytes_sent() > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_ranges_is_not_used_if_others_have_them() {
    for first in [true, false] {
        let mut case = JobCase::new();
        let rangeless = copy("\"b\"").rule(RequestMatcher::always(), faults::ignore_range);
        let (good, rangeless) = (paced(copy("\"a\"")).await, serve(rangeless).await);
        let origins = if first {
            [&rangeless, &good]
        } else {
            [&good, &rangeless]
        };
        let ran = from(&mut case, &origins).await;
        ran.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_a_stream_stays_broken_the_next_source_delivers_everything() {
    let mut case = JobCase::new();
    case.options.retry.retries = 1;
    let broken = copy("\"b\"")
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::reset_after(1000));
    let (broken, good) = (serve(broken).await, serve(copy("\"a\"")).await);
    let ran = from(&mut case, &[&broken, &good]).await;
    ran.outcome();
    assert!(ran.warned("is used no more"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_job_resumes_with_all_mirrors_and_fetches_nothing_twice() {
    let mut case = JobCase::new();
    let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let stop = case.stop.clone();
    let watch = async {
        while a.bytes_sent() + b.bytes_sent() < content().length() / 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let origins = [&a, &b];
    let (ran, ()) = tokio::join!(from(&mut case, &origins), watch);
    assert!(ran.hints_at_resuming());
    case.stop = Default::default();
    let before = (a.requests().len(), b.requests().len());
    let ran = from(&mut case, &[&a, &b]).await;
    let outcome = ran.outcome();
    assert!(outcome.resumed > 0);
    assert_eq!(outcome.resumed + outcome.fetched, content().length());
    assert!(a.requests().len() > before.0 && b.requests().len() > before.1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_killed_job_is_resumed_from_another_source_if_a_digest_identifies_the_file() {
    for verified in [true, false] {
        let mut case = JobCase::new();
        if verified {
            case.checksums = vec![sha256()];
        }
        let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
        let stop = case.stop.clone();
        let watch = async {
            while a.bytes_sent() < content().length() / 3 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let origins = [&a];
        let (_, ()) = tokio::join!(from(&mut case, &origins), watch);
        let mut killed = case.as_if_killed();
        killed.checksums = case.checksums.clone();
        // The source of the bytes is gone when the command is run again.
        a.replace(
            "/f.bin",
            copy("\"a\"").rule(RequestMatcher::always(), faults::status(404)),
        );
        let ran = from(&mut killed, &[&a, &b]).await;
        assert_eq!(ran.outcome().resumed > 0, verified);
        killed.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_all_mirrors_are_dropped_the_error_names_each_with_its_reason() {
    let mut case = JobCase::new();
    let status = |code| copy("\"a\"").rule(RequestMatcher::always(), faults::status(code));
    let (a, b) = (serve(status(404)).await, serve(status(410)).await);
    let c = serve(OriginResource::new(ResourceContent::random(1, 7))).await;
    case.size = Some(content().length());
    let ran = from(&mut case, &[&a, &b, &c]).await;
    let text = ran.error().to_string();
    let expected = format!(
        "none of 3 sources gave the file: {}: answered 404 Not Found; {}: answered 410 Gone; {}: it has 7 bytes, and {} were expected",
        a.url("/f.bin"),
        b.url("/f.bin"),
        c.url("/f.bin"),
        content().length()
    );
    assert_eq!(text, expected);
    assert_eq!(ran.error().class(), ErrorClass::Verification);
    assert_eq!(case.listing(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_all_mirrors_die_the_received_bytes_are_kept() {
    let mut case = JobCase::new();
    (case.options.retry.retries, case.options.connections) = (2, ConnectionCount::Fixed(2));
    let dies = |tag| {
        copy(tag).rule(
            RequestMatcher::after_bytes_sent(400_000),
            faults::reset_connection,
        )
    };
    let (a, b) = (paced(dies("\"a\"")).await, paced(dies("\"b\"")).await);
    let ran = from(&mut case, &[&a, &b]).await;
    let error = ran.error();
    assert!(
        matches!(error, GetError::AllSourcesFailed { dropped, .. } if dropped.len() == 2),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Network);
    assert!(ran.hints_at_resuming());
    let good = paced(copy("\"a\"")).await;
    a.replace("/f.bin", copy("\"a\""));
    let ran = from(&mut case, &[&a, &good]).await;
    assert!(ran.outcome().resumed > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_uses_the_next_source_when_the_first_does_not_respond() {
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    case.output = Some(JobOutput::File("/dev/null".into()));
    let without = serve(copy("\"b\"").rule(RequestMatcher::always(), faults::status(404))).await;
    let good = serve(copy("\"a\"")).await;
    let ran = from(&mut case, &[&without, &good]).await;
    assert_eq!(ran.outcome().bytes, content().length());
}

/// Whoever wrote a document is not who runs this: what the user gave is for hosts that the user named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_a_metalink_document_get_credentials_only_if_the_user_named_them() {
    let mut case = JobCase::new();
    case.client.credentials.bearer = Some(haul_net::Secret::new("s3cret".into()));
    let token = http::HeaderValue::from_static("t0ken");
    case.client.headers.insert("x-api-key", token);
    let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    case.named = Some(vec![b.url("/other")]);
    let origins = [&a, &b];
    from(&mut case, &origins).await.outcome();
    case.assert_file(&content());
    for (origin, named) in [(&a, false), (&b, true)] {
        assert!(origin.bytes_sent() > 0);
        for request in origin.requests() {
            assert_eq!(request.header("x-api-key").is_some(), named);
            assert_eq!(request.header("authorization").is_some(), named);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_in_a_metalink_url_is_for_its_host_only() {
    let mut case = JobCase::new();
    case.named = Some(Vec::new());
    let (a, b) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
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

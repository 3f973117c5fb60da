//! Row A48: origins that send a little now and then, for ever.

use std::time::Duration;

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_plan::{Remedy, TransferTimeLimit};
use haul_transfer::{
    ConnectionCount, ExceededLimit, GetError, JobOutput, MinRate, NetworkError, body_channel,
};
use tokio::time::{Instant, sleep};

use crate::batch::{BatchCase, origin_with_files, small_content};
use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// The lowest rate here.
const MIN: MinRate = MinRate {
    bytes_per_second: 40_000,
    window: Duration::from_millis(400),
};

/// What a connection that drips brings, in bytes a second.
const DRIP: u64 = 2000;

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.options.limits.min_rate = Some(MIN);
    case.client.response_timeout = LIMIT;
    case
}

fn dripping(content: ResourceContent) -> OriginResource {
    OriginResource::new(content).rule(RequestMatcher::always(), faults::body_rate(DRIP))
}

/// A stream without a length and without an end.
fn endless() -> OriginResource {
    dripping(ResourceContent::random(9, 1 << 40))
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::chunked)
}

#[track_caller]
fn assert_too_slow(run: &JobRun) {
    let error = run.error();
    let is_right = matches!(
        error,
        GetError::Network { error: NetworkError::LimitExceeded { limit: ExceededLimit::MinRate { limit, received }, .. }, .. }
            if *limit == MIN && *received < 16_000
    );
    assert!(is_right, "{error:?}");
    let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::MinRate);
    assert!(error.remedies().contains(&limit), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_download_that_drips_is_ended_and_the_same_command_resumes_it() {
    for connections in [1, 4] {
        let mut case = case();
        case.options.connections = ConnectionCount::Fixed(connections);
        // The first part comes fast.
        let resource = OriginResource::new(content())
            .rule(RequestMatcher::after_first(1), faults::body_rate(DRIP));
        let (run, origin) = case.run(resource).await;
        assert_too_slow(&run);
        assert!(run.hints_at_resuming(), "{:?}", run.error());
        let text = run.error().to_string();
        let expected = format!("{} is too slow: ", origin.url("/f.bin"));
        assert!(text.starts_with(&expected), "{text}");
        origin.replace("/f.bin", OriginResource::new(content()));
        let again = case.get(&origin.url("/f.bin")).await;
        assert!(again.outcome().resumed >= 256 << 10);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_stream_without_an_end_is_ended_and_nothing_says_that_it_can_be_resumed() {
    let (run, _origin) = case().run(endless()).await;
    assert_too_slow(&run);
    assert!(!run.hints_at_resuming());
}

/// Each of these bodies brings a byte, so each is followed by the next request at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_bodies_of_a_byte_each_are_a_drip_too() {
    let resource = OriginResource::new(content())
        .rule(
            RequestMatcher::always(),
            faults::delay_response(Duration::from_millis(40)),
        )
        .rule(RequestMatcher::always(), faults::close_after(1));
    let (run, _origin) = case().run(resource).await;
    assert_too_slow(&run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_what_is_fast_enough_goes_on_and_so_does_everything_without_a_limit() {
    let none = MinRate {
        bytes_per_second: 0,
        ..MIN
    };
    let fast = ResourceContent::random(2, 300_000);
    let slow = ResourceContent::random(2, 2000);
    for (min_rate, rate, content) in [
        (Some(MIN), 250_000, fast),
        (Some(none), DRIP, slow.clone()),
        (None, DRIP, slow),
    ] {
        let mut case = case();
        case.options.limits.min_rate = min_rate;
        let resource = OriginResource::new(content.clone())
            .rule(RequestMatcher::always(), faults::body_rate(rate));
        let (run, _origin) = case.run(resource).await;
        assert!(run.outcome().elapsed > MIN.window * 2);
        case.assert_file(&content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_pauses_that_the_host_asks_for_and_long_work_on_a_response_do_not_count() {
    let paused = OriginResource::new(content()).rule(
        RequestMatcher::first(1),
        faults::status_with_header(503, "Retry-After", "1".into()),
    );
    let working = OriginResource::new(content()).rule(
        RequestMatcher::first(1),
        faults::delay_response(Duration::from_secs(1)),
    );
    for resource in [paused, working] {
        let case = case();
        let (run, _origin) = case.run(resource).await;
        assert!(run.outcome().elapsed >= MIN.window * 2);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_the_users_own_rate_limit_ends_no_download_and_still_a_drip_is_ended() {
    let small = ResourceContent::random(3, 10_000);
    let mut case = case();
    case.client.connector.rate_limit = Some(8000);
    let (run, _origin) = case.run(OriginResource::new(small.clone())).await;
    assert!(run.outcome().elapsed > MIN.window * 2);
    case.assert_file(&small);
    std::fs::remove_file(case.path()).unwrap();
    case.client.connector.rate_limit = Some(1 << 20);
    let (run, _origin) = case.run(endless()).await;
    assert_too_slow(&run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_reader_that_takes_its_time_is_not_an_origin_that_drips() {
    let mut case = case();
    let (sender, mut receiver) = body_channel();
    case.output = Some(JobOutput::Channel(sender));
    let origin = serve(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let download = async move {
        let run = Box::pin(case.get(&url)).await;
        // The case holds a sender.
        drop(case);
        run
    };
    let read = async move {
        let mut bytes = 0;
        while let Some(chunk) = receiver.recv().await {
            if bytes == 0 {
                sleep(MIN.window * 3).await;
            }
            bytes += chunk.len() as u64;
        }
        bytes
    };
    let (run, bytes) = within(LIMIT, async { tokio::join!(download, read) }).await;
    run.outcome();
    assert_eq!(bytes, content().length());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_download_ends_when_its_time_is_over_whatever_it_does_and_can_be_resumed() {
    let limit = Duration::from_millis(500);
    let slow = OriginResource::new(content())
        .rule(RequestMatcher::after_first(1), faults::body_rate(100_000));
    let paused = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::status_with_header(503, "Retry-After", "60".into()),
    );
    let silent = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::delay_response(LIMIT));
    for (resource, is_resumable) in [(slow, true), (paused, false), (silent, false)] {
        let mut case = case();
        (case.options.limits.min_rate, case.options.limits.max_time) = (None, Some(limit));
        let began = Instant::now();
        let (run, origin) = case.run(resource).await;
        assert!((limit..LIMIT / 3).contains(&began.elapsed()));
        let error = run.error();
        let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::MaxTime);
        assert!(error.remedies().contains(&limit), "{error:?}");
        assert_eq!(run.hints_at_resuming(), is_resumable);
        origin.replace("/f.bin", OriginResource::new(content()));
        case.options.limits.max_time = Some(LIMIT);
        let again = case.get(&origin.url("/f.bin")).await;
        assert_eq!(again.outcome().resumed > 0, is_resumable);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_batch_ends_although_files_drip_and_each_of_them_is_a_failed_row() {
    const FILES: u64 = 20;
    let target = origin_with_files(0)
        .resource("/endless", endless())
        .start()
        .await;
    let to = faults::redirect(302, target.url("/endless"));
    let large = ResourceContent::random(7, 2 << 20);
    let origin = origin_with_files(FILES)
        .resource("/small", dripping(ResourceContent::random(5, 9000)))
        .resource("/medium", dripping(ResourceContent::random(6, 400_000)))
        .resource("/large", dripping(large.clone()))
        .resource("/stream", endless())
        .resource(
            "/moved",
            OriginResource::new(small_content(0)).rule(RequestMatcher::always(), to),
        )
        .start()
        .await;
    let mut case = BatchCase::new();
    case.get.limits.min_rate = Some(MIN);
    let drips = ["/small", "/medium", "/large", "/stream", "/moved"];
    let urls = || {
        let drips = drips.map(|path| origin.url(path));
        let files = (0..FILES).map(|number| origin.url(&format!("/{number}")));
        drips.into_iter().chain(files)
    };
    let run = case.download(urls()).await;
    assert_eq!(
        run.counts(),
        (FILES, 0, 5),
        "{:?}",
        run.summary.failure_groups
    );
    for path in drips {
        let (row, error) = (run.row(path), run.error(path));
        let expected = format!("{} is too slow: ", origin.url(path));
        assert!(error.starts_with(&expected), "{error}");
        let error = row.error.as_ref().unwrap();
        let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::MinRate);
        assert!(error.remedies.contains(&limit), "{error:?}");
        assert!(error.is_transient);
    }
    assert_eq!(run.summary.failure_groups[0].cause, "too slow");
    // The next run goes on with what is there.
    origin.replace("/large", OriginResource::new(large.clone()));
    assert!(case.path("large.haul-part").exists());
    let again = case.download([origin.url("/large")]).await;
    assert_eq!(again.counts(), (1, 0, 0));
    case.assert_file("large", &large);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_each_file_of_a_batch_has_its_own_time() {
    let silent = OriginResource::new(small_content(1))
        .rule(RequestMatcher::always(), faults::delay_response(LIMIT));
    let busy = OriginResource::new(small_content(1)).rule(
        RequestMatcher::always(),
        faults::status_with_header(503, "Retry-After", "1".into()),
    );
    let origin = origin_with_files(20)
        .resource("/silent", silent)
        .resource("/busy", busy)
        .resource("/large", dripping(ResourceContent::random(7, 2 << 20)))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.client.response_timeout = LIMIT;
    case.get.limits.max_time = Some(Duration::from_millis(1500));
    let slow = ["/silent", "/busy", "/large"];
    let urls = (0..20).map(|number| origin.url(&format!("/{number}")));
    let urls = slow.iter().map(|path| origin.url(path)).chain(urls);
    let run = case.download(urls).await;
    assert_eq!(run.counts(), (20, 0, 3), "{:?}", run.summary.failure_groups);
    for path in slow {
        let error = run.error(path);
        assert!(error.ends_with("is not complete after 1.5 s"), "{error}");
    }
}

//! Rows B1 and B4: which bytes an interrupted job keeps, and whether it hints at resuming only then.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{
    CheckpointOptions, ConnectionCount, ErrorClass, GetError, JobOutput, LocalError,
};
use tokio::time::Instant;

use crate::harness::{JobCase, LIMIT, content, serve, small_disk};

/// Waits until the journal records received bytes.
async fn wait_for_journal_record(case: &JobCase) {
    let journal = case.dir.path().join("f.bin.haul-journal");
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"done\"")) {
        tokio::task::yield_now().await;
    }
}

/// Runs a job until its journal records received bytes, and asserts that a new job resumes from a copy of its files as after a kill.
/// Returns the time until that record.
async fn assert_resumes_after_kill(
    case: &JobCase,
    resource: OriginResource,
    content: &ResourceContent,
) -> Duration {
    let origin = serve(resource).await;
    let (url, started) = (origin.url("/f.bin"), Instant::now());
    tokio::select! {
        run = case.get(&url) => panic!("it ended: {:?}", run.result),
        () = haul_lab::within(LIMIT, wait_for_journal_record(case)) => {}
    }
    let elapsed = started.elapsed();
    let killed = case.copy_as_if_killed();
    origin.replace("/f.bin", OriginResource::new(content.clone()));
    let run = killed.get(&url).await;
    assert!(run.outcome().resumed > 0);
    killed.assert_file(content);
    elapsed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_the_first_checkpoint_is_written_within_a_second() {
    let mut case = JobCase::new();
    case.options.checkpoint = CheckpointOptions::default();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::stall_after(200_000));
    let elapsed = assert_resumes_after_kill(&case, resource, &content()).await;
    assert!(elapsed < Duration::from_millis(950), "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_checkpoint_is_written_early_after_many_bytes() {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    case.options.segment_size = Some(4 << 20);
    case.options.checkpoint = CheckpointOptions {
        first_after: LIMIT,
        interval: LIMIT,
        unrecorded_bytes: 8 << 20,
        ..CheckpointOptions::default()
    };
    let content = ResourceContent::random(5, 32 << 20);
    let stalls = faults::stall_after(3 << 20);
    let resource =
        OriginResource::new(content.clone()).rule(RequestMatcher::after_first(4), stalls);
    assert_resumes_after_kill(&case, resource, &content).await;
}

/// The first responses stall after this many bytes, and later ones before the first byte.
fn stalls_after(bytes: u64) -> OriginResource {
    OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::stall_after(0))
        .rule(RequestMatcher::first(4), faults::stall_after(bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_failed_job_hints_at_resuming_only_if_bytes_were_kept() {
    for (bytes, kept) in [(100_000, true), (0, false)] {
        let mut case = JobCase::new();
        case.options.retry.retries = 1;
        let (run, _origin) = case.run(stalls_after(bytes)).await;
        assert_eq!(run.error().class(), ErrorClass::Network);
        assert_eq!(run.hints_at_resuming(), kept, "{:?}", run.error());
        assert_eq!(case.listing().is_empty(), !kept, "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_with_no_resume_nothing_is_kept_and_no_hint_at_resuming_appears() {
    let mut case = JobCase::new();
    case.options.resume = false;
    case.options.retry.retries = 1;
    let (run, _origin) = case.run(stalls_after(100_000)).await;
    assert!(!run.hints_at_resuming(), "{:?}", run.error());
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_a_single_stream_that_always_breaks_leaves_no_files_and_no_hint_at_resuming() {
    let cuts: [fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse); 3] = [
        |request, reply| {
            faults::chunked(request, reply);
            faults::close_after(50_000)(request, reply);
        },
        |request, reply| faults::close_after(50_000)(request, reply),
        |_, reply| reply.stall_after = Some(50_000),
    ];
    for cut in cuts {
        let mut case = JobCase::new();
        case.options.retry.retries = 2;
        let resource = OriginResource::new(content())
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::always(), cut);
        let (run, origin) = case.run(resource).await;
        assert_eq!(run.error().class(), ErrorClass::Network);
        assert!(!run.hints_at_resuming(), "{:?}", run.error());
        // If the length is known, the rest is requested first, at once since bytes arrived, with and without If-Range.
        assert!((3..=5).contains(&origin.requests().len()));
        assert!((2..=4).contains(&run.retries()));
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_stopped_single_stream_leaves_no_files_and_no_hint_at_resuming() {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::stall_after(50_000));
    let origin = serve(resource).await;
    let stop = case.stop.clone();
    let stop_after_50_kb = async {
        while origin.bytes_sent() < 50_000 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let url = origin.url("/f.bin");
    let (run, ()) = tokio::join!(case.get(&url), stop_after_50_kb);
    assert!(matches!(
        run.error(),
        GetError::Interrupted { resumable: false }
    ));
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_full_device_gives_no_hint_at_resuming() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/full".into()));
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.error().class(), ErrorClass::LocalIo);
    assert!(run.error().to_string().contains("/dev/full"));
    assert!(format!("{:?}", run.error().remedies()).contains("space"));
    assert!(!run.hints_at_resuming(), "{:?}", run.error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_single_stream_on_a_full_disk_leaves_no_files_and_no_hint_at_resuming() {
    for into_directory in [false, true] {
        let mut case = JobCase::new();
        let Some(_mounted) = small_disk(case.dir.path()) else {
            return;
        };
        if into_directory {
            case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
        }
        let resource = OriginResource::new(content())
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::always(), faults::chunked);
        let (run, _origin) = case.run(resource).await;
        assert_eq!(
            run.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            run.error()
        );
        assert!(!run.hints_at_resuming(), "{:?}", run.error());
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_download_to_a_full_disk_leaves_no_files() {
    let mut case = JobCase::new();
    let Some(_mounted) = small_disk(case.dir.path()) else {
        return;
    };
    case.write_file("ballast", vec![1; 1 << 20]);
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    for length in [1000, 3 << 20] {
        let (run, _origin) = case
            .run(OriginResource::new(ResourceContent::random(1, length)))
            .await;
        assert_eq!(
            run.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            run.error()
        );
        assert!(!run.hints_at_resuming());
        assert_eq!(case.listing(), ["ballast"], "{length}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_segmented_job_on_a_disk_that_fills_hints_at_resuming_only_if_bytes_were_kept() {
    let mut case = JobCase::new();
    let Some(_mounted) = small_disk(case.dir.path()) else {
        return;
    };
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.segment_size = Some(64 << 10);
    let origin = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(8, 900 << 10)),
        )
        .rate_per_connection(400 << 10)
        .start()
        .await;
    let ballast = case.dir.path().join("ballast");
    let fill_disk = async {
        wait_for_journal_record(&case).await;
        let _ = std::fs::write(&ballast, vec![1; 1 << 20]);
    };
    let url = origin.url("/f.bin");
    let (run, ()) = tokio::join!(case.get(&url), fill_disk);
    assert_eq!(
        run.error().class(),
        ErrorClass::LocalIo,
        "{:?}",
        run.error()
    );
    assert!(run.hints_at_resuming(), "{:?}", run.error());
    std::fs::remove_file(&ballast).unwrap();
    let again = case.get(&url).await;
    assert!(
        again.outcome().resumed > 0,
        "the hint at resuming was wrong"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a15_bytes_of_an_earlier_run_are_not_requested_again() {
    let case = JobCase::new();
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content()))
        .rate_per_connection(2 << 20)
        .start()
        .await;
    let url = origin.url("/f.bin");
    // A file that appears under the final name is kept, and so are the received bytes.
    let take_name = async {
        wait_for_journal_record(&case).await;
        std::fs::write(case.path(), "mine").unwrap();
    };
    let (run, ()) = tokio::join!(case.get(&url), take_name);
    assert!(matches!(
        run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
    assert_eq!(std::fs::read(case.path()).unwrap(), b"mine");
    std::fs::remove_file(case.path()).unwrap();
    let request_count = origin.requests().len();
    let run = case.get(&url).await;
    assert_eq!(
        (run.outcome().resumed, run.outcome().fetched),
        (content().length(), 0)
    );
    assert_eq!(origin.requests().len(), request_count);
    case.assert_file(&content());
}

//! Rows A15 and B1 to B9, as far as the engine covers them. Tests of the binary are in `tests/` of the workspace.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{
    ConnectionCount, ErrorClass, ExistingFilePolicy, GetError, JobOutput, LocalError,
    VerificationError,
};

use crate::harness::{JobCase, content, small_disk};

/// An origin slow enough that a job can be stopped halfway.
async fn slow_origin(content: &ResourceContent) -> Origin {
    Origin::builder()
        .resource("/f.bin", OriginResource::new(content.clone()))
        .rate_per_connection(2 << 20)
        .start()
        .await
}

/// Runs a job until a third of the file has arrived, and stops it.
async fn interrupt_download(case: &mut JobCase, origin: &Origin, content: &ResourceContent) {
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let stop_after_a_third = async {
        while origin.bytes_sent() < content.length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (run, ()) = tokio::join!(case.get(&url), stop_after_a_third);
    assert!(matches!(
        run.error(),
        GetError::Interrupted { resumable: true }
    ));
    case.stop = tokio_util::sync::CancellationToken::new();
    assert_eq!(case.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_an_interrupted_job_resumes_and_fetches_nothing_twice() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    interrupt_download(&mut case, &origin, &content).await;
    let run = case.get(&origin.url("/f.bin")).await;
    let outcome = run.outcome();
    assert!(outcome.resumed > 0);
    assert_eq!(outcome.resumed + outcome.fetched, content.length());
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_changed_resource_is_not_resumed() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    interrupt_download(&mut case, &origin, &content).await;
    let newer = ResourceContent::random(4, content.length());
    origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v2\""));
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a15_a_resource_that_became_shorter_starts_again() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    interrupt_download(&mut case, &origin, &content).await;
    let shorter = ResourceContent::random(4, 1000);
    origin.replace(
        "/f.bin",
        OriginResource::new(shorter.clone())
            .etag("\"v2\"")
            .rule(RequestMatcher::mid_file(), faults::status(416)),
    );
    let run = case.get(&origin.url("/f.bin")).await;
    run.outcome();
    case.assert_file(&shorter);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_damaged_partial_file_or_journal_is_not_used() {
    type Damage = fn(&std::path::Path);
    let damages: [(Damage, &str); 5] = [
        (
            |dir| damage(&dir.join("f.bin.haul-part"), |bytes| bytes[10] ^= 1),
            "not those that were written",
        ),
        (
            |dir| damage(&dir.join("f.bin.haul-part"), |bytes| bytes.truncate(10)),
            "not those that were written",
        ),
        (
            |dir| damage(&dir.join("f.bin.haul-journal"), |bytes| bytes[30] ^= 1),
            "damaged",
        ),
        (
            |dir| {
                damage(&dir.join("f.bin.haul-journal"), |bytes| {
                    bytes.splice(0..0, *b"junk\n").for_each(drop)
                })
            },
            "damaged",
        ),
        (
            |dir| {
                std::fs::write(
                    dir.join("f.bin.haul-journal"),
                    "00000000 {\"header\":{\"format\":99}}\n",
                )
                .unwrap()
            },
            "format 99",
        ),
    ];
    for (number, (damage_state, warning)) in damages.into_iter().enumerate() {
        let (mut case, content) = (JobCase::new(), content());
        let origin = slow_origin(&content).await;
        interrupt_download(&mut case, &origin, &content).await;
        damage_state(case.dir.path());
        let run = case.get(&origin.url("/f.bin")).await;
        assert_eq!(run.outcome().resumed, 0, "damage {number}");
        assert!(
            run.has_warning(warning),
            "damage {number}: {:?}",
            run.events
        );
        case.assert_file(&content);
    }
}

fn damage(path: &std::path::Path, damage_state: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    damage_state(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_the_partial_file_of_another_url_is_not_used() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    interrupt_download(&mut case, &origin, &content).await;
    let run = case.get(&origin.url("/f.bin?other")).await;
    assert_eq!(run.outcome().resumed, 0);
    assert!(run.has_warning("another URL"));
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_an_incomplete_last_journal_line_is_ignored() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    interrupt_download(&mut case, &origin, &content).await;
    damage(&case.dir.path().join("f.bin.haul-journal"), |bytes| {
        bytes.extend(b"0123abcd {\"done\":{\"sta")
    });
    let run = case.get(&origin.url("/f.bin")).await;
    assert!(run.outcome().resumed > 0);
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_directory_with_the_name_and_a_missing_directory_are_errors() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File(case.dir.path().to_owned()));
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(
        run.error(),
        GetError::Local {
            error: LocalError::IsDirectory,
            ..
        }
    ));
    case.output = Some(JobOutput::File(case.dir.path().join("none/f")));
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.error().class(), ErrorClass::LocalIo);
    assert!(!run.error().remedies().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_devices_are_written_in_place() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/null".into()));
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.outcome().bytes, content().length());
    case.output = Some(JobOutput::File("/dev/full".into()));
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.error().class(), ErrorClass::LocalIo);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_a_second_download_to_the_same_file_is_a_locked_error() {
    let (case, content) = (JobCase::new(), content());
    let origin = slow_origin(&content).await;
    let url = origin.url("/f.bin");
    let second = async {
        while origin.bytes_sent() == 0 {
            tokio::task::yield_now().await;
        }
        case.get(&url).await
    };
    let (first, second) = tokio::join!(case.get(&url), second);
    assert!(matches!(
        second.error(),
        GetError::Local {
            error: LocalError::Locked,
            ..
        }
    ));
    first.outcome();
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_an_existing_file_is_kept_by_default() {
    let mut case = JobCase::new();
    std::fs::write(case.path(), "mine").unwrap();
    let (run, origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(
        run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
    assert!(
        origin.requests().is_empty(),
        "an existing file needs no request"
    );
    assert_eq!(std::fs::read(case.path()).unwrap(), b"mine");
    case.options.existing_file = ExistingFilePolicy::Overwrite;
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_update_sends_a_conditional_request() {
    let mut case = JobCase::new();
    case.options.existing_file = ExistingFilePolicy::Update;
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content()).last_modified(date))
        .start()
        .await;
    let first = case.get(&origin.url("/f.bin")).await;
    assert!(!first.outcome().not_modified);
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(again.outcome().not_modified);
    case.assert_file(&content());
    let requests = origin.requests();
    let last = requests.last().unwrap();
    assert_eq!(
        (last.status, last.header("if-modified-since")),
        (304, Some(date))
    );
    let newer = ResourceContent::random(6, 5000);
    origin.replace(
        "/f.bin",
        OriginResource::new(newer.clone())
            .etag("\"v2\"")
            .last_modified("Mon, 07 Nov 1994 08:49:37 GMT"),
    );
    case.get(&origin.url("/f.bin")).await.outcome();
    case.assert_file(&newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b8_repeated_resets_do_not_end_a_job_that_makes_progress() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(2);
    let content = ResourceContent::random(11, 40 << 20);
    case.options.segment_size = Some(8 << 20);
    let resource = OriginResource::new(content.clone())
        .rule(RequestMatcher::always(), faults::reset_after(5 << 20));
    let (run, origin) = case.run(resource).await;
    assert!(run.outcome().retries > 4 || origin.requests().len() > 8);
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_file_with_a_wrong_checksum_is_renamed() {
    let mut case = JobCase::new();
    case.checksums = vec!["md5:00000000000000000000000000000000".parse().unwrap()];
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(
        run.error(),
        GetError::Verification {
            error: VerificationError::Checksum {
                expected_by: "the given checksum",
                moved_to: Some(_),
                ..
            },
            ..
        }
    ));
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_correct_checksums_of_all_algorithms_are_accepted() {
    let mut case = JobCase::new();
    case.checksums = ["sha256", "sha512", "sha1", "md5", "blake3", "crc32c"]
        .iter()
        .map(|a| a.parse().unwrap())
        .collect();
    let (run, origin) = case.run(OriginResource::new(content())).await;
    let given = run
        .outcome()
        .checksums
        .iter()
        .map(|(algorithm, hex)| format!("{algorithm}:{hex}").parse().unwrap())
        .collect();
    let mut again = JobCase::new();
    again.checksums = given;
    again.get(&origin.url("/f.bin")).await.outcome();
    again.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_before_any_data_leaves_no_file() {
    let case = JobCase::new();
    case.stop.cancel();
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.error().class(), ErrorClass::Interrupted);
    assert!(!case.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_full_disk_is_reported_before_anything_is_fetched() {
    let case = JobCase::new();
    let Some(_mounted) = small_disk(case.dir.path()) else {
        return;
    };
    let (run, origin) = case.run(OriginResource::new(content())).await;
    assert!(
        matches!(
            run.error(),
            GetError::Local {
                error: LocalError::NoSpace { .. },
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    assert!(!run.error().remedies().is_empty());
    assert_eq!(origin.requests().len(), 1);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_after_a_disk_became_full_the_same_command_resumes() {
    let case = JobCase::new();
    let Some(_mounted) = small_disk(case.dir.path()) else {
        return;
    };
    let content = ResourceContent::random(8, 900 << 10);
    let ballast = case.dir.path().join("ballast");
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content.clone()))
        .rate_per_connection(400 << 10)
        .start()
        .await;
    let fill_disk = async {
        while origin.bytes_sent() < 300 << 10 {
            tokio::task::yield_now().await;
        }
        // Fills the disk after the check of free space. This write fails when the disk is full, as it should.
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
    assert!(!case.path().exists());
    std::fs::remove_file(&ballast).unwrap();
    let again = case.get(&url).await;
    assert_eq!(again.outcome().bytes, content.length());
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_holds_with_segments_and_with_a_single_stream() {
    for whole in [false, true] {
        let mut case = JobCase::new();
        case.client.connector.rate_limit = Some(4 << 20);
        let all = RequestMatcher::matching(move |_| whole);
        let (run, _origin) = case
            .run(OriginResource::new(content()).rule(all, faults::ignore_range))
            .await;
        // Half a second at this rate, less a burst at the start.
        assert!(
            run.outcome().elapsed > Duration::from_millis(400),
            "{:?}",
            run.outcome().elapsed
        );
        case.assert_file(&content());
    }
}

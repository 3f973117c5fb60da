//! Rows A15 and B1 to B9, as far as the engine alone can show them; the binary's share is in the project's own `tests/`.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ConnectionCount, ErrorClass, ExistingFilePolicy, GetError, JobOutput};

use crate::harness::{JobCase, content, small_disk};

/// An origin slow enough that a job can be stopped in its middle.
async fn slow(content: &ResourceContent) -> Origin {
    Origin::builder()
        .resource("/f.bin", OriginResource::new(content.clone()))
        .rate_per_connection(2 << 20)
        .start()
        .await
}

/// Runs a job until a third of the file has arrived, and stops it.
async fn stopped_half_way(case: &mut JobCase, origin: &Origin, content: &ResourceContent) {
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let watch = async {
        while origin.bytes_sent() < content.length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(case.get(&url), watch);
    assert!(matches!(
        ran.error(),
        GetError::Interrupted { resumable: true }
    ));
    case.stop = tokio_util::sync::CancellationToken::new();
    assert_eq!(case.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_an_interrupted_job_resumes_and_fetches_nothing_twice() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    stopped_half_way(&mut case, &origin, &content).await;
    let ran = case.get(&origin.url("/f.bin")).await;
    let outcome = ran.outcome();
    assert!(outcome.resumed > 0);
    assert_eq!(outcome.resumed + outcome.fetched, content.length());
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_changed_resource_is_not_resumed() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    stopped_half_way(&mut case, &origin, &content).await;
    let newer = ResourceContent::random(4, content.length());
    origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v2\""));
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, 0);
    case.assert_file(&newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a15_a_resource_that_became_shorter_starts_again() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    stopped_half_way(&mut case, &origin, &content).await;
    let shorter = ResourceContent::random(4, 1000);
    origin.replace(
        "/f.bin",
        OriginResource::new(shorter.clone())
            .etag("\"v2\"")
            .rule(RequestMatcher::mid_file(), faults::status(416)),
    );
    let ran = case.get(&origin.url("/f.bin")).await;
    ran.outcome();
    case.assert_file(&shorter);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_damaged_state_is_noticed_and_not_used() {
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
    for (number, (harm, words)) in damages.into_iter().enumerate() {
        let (mut case, content) = (JobCase::new(), content());
        let origin = slow(&content).await;
        stopped_half_way(&mut case, &origin, &content).await;
        harm(case.dir.path());
        let ran = case.get(&origin.url("/f.bin")).await;
        assert_eq!(ran.outcome().resumed, 0, "damage {number}");
        assert!(ran.warned(words), "damage {number}: {:?}", ran.events);
        case.assert_file(&content);
    }
}

fn damage(path: &std::path::Path, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    harm(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_state_of_another_url_is_not_used() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    stopped_half_way(&mut case, &origin, &content).await;
    let ran = case.get(&origin.url("/f.bin?other")).await;
    assert_eq!(ran.outcome().resumed, 0);
    assert!(ran.warned("another URL"));
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_torn_last_line_loses_that_line_only() {
    let (mut case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    stopped_half_way(&mut case, &origin, &content).await;
    damage(&case.dir.path().join("f.bin.haul-journal"), |bytes| {
        bytes.extend(b"0123abcd {\"done\":{\"sta")
    });
    let ran = case.get(&origin.url("/f.bin")).await;
    assert!(ran.outcome().resumed > 0);
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_directory_and_a_missing_directory_are_clear_errors() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File(case.dir.path().to_owned()));
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(ran.error(), GetError::IsDirectory { .. }));
    case.output = Some(JobOutput::File(case.dir.path().join("none/f")));
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(ran.error().class(), ErrorClass::LocalIo);
    assert!(ran.error().hint().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_devices_are_written_in_place() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/null".into()));
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(ran.outcome().bytes, content().length());
    case.output = Some(JobOutput::File("/dev/full".into()));
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(ran.error().class(), ErrorClass::LocalIo);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_the_second_of_two_says_that_the_first_holds_the_file() {
    let (case, content) = (JobCase::new(), content());
    let origin = slow(&content).await;
    let url = origin.url("/f.bin");
    let second = async {
        while origin.bytes_sent() == 0 {
            tokio::task::yield_now().await;
        }
        case.get(&url).await
    };
    let (first, second) = tokio::join!(case.get(&url), second);
    assert!(matches!(second.error(), GetError::Locked { .. }));
    first.outcome();
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_an_existing_file_is_kept_by_default() {
    let mut case = JobCase::new();
    std::fs::write(case.path(), "mine").unwrap();
    let (ran, origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(ran.error(), GetError::AlreadyExists { .. }));
    assert!(
        origin.requests().is_empty(),
        "nothing need be request to know that"
    );
    assert_eq!(std::fs::read(case.path()).unwrap(), b"mine");
    case.options.existing_file = ExistingFilePolicy::Overwrite;
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    ran.outcome();
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
async fn b8_repeated_breaks_do_not_end_a_job_that_makes_progress() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(2);
    let content = ResourceContent::random(11, 40 << 20);
    case.options.segment_size = Some(8 << 20);
    let resource = OriginResource::new(content.clone())
        .rule(RequestMatcher::always(), faults::reset_after(5 << 20));
    let (ran, origin) = case.run(resource).await;
    assert!(ran.outcome().retries > 4 || origin.requests().len() > 8);
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_wrong_checksum_sets_the_file_aside() {
    let mut case = JobCase::new();
    case.checksums = vec!["md5:00000000000000000000000000000000".parse().unwrap()];
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert!(matches!(
        ran.error(),
        GetError::Checksum {
            expected_by: "the given checksum",
            moved_to: Some(_),
            ..
        }
    ));
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_right_checksums_of_all_kinds_pass() {
    let mut case = JobCase::new();
    case.checksums = ["sha256", "sha512", "sha1", "md5", "blake3", "crc32c"]
        .iter()
        .map(|a| a.parse().unwrap())
        .collect();
    let (ran, origin) = case.run(OriginResource::new(content())).await;
    let given = ran
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
async fn stopping_before_any_data_leaves_nothing() {
    let case = JobCase::new();
    case.stop.cancel();
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(ran.error().class(), ErrorClass::Interrupted);
    assert!(!case.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_full_disk_is_reported_before_anything_is_fetched() {
    let case = JobCase::new();
    let Some(_mounted) = small_disk(case.dir.path()) else {
        return;
    };
    let (ran, origin) = case.run(OriginResource::new(content())).await;
    assert!(
        matches!(ran.error(), GetError::NoSpace { .. }),
        "{:?}",
        ran.error()
    );
    assert!(ran.error().hint().is_some());
    assert_eq!(origin.requests().len(), 1);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_disk_that_fills_keeps_the_state_and_the_same_command_resumes() {
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
    let fill = async {
        while origin.bytes_sent() < 300 << 10 {
            tokio::task::yield_now().await;
        }
        // What is still free when the look at the disk was fine; the write fails when it is full, as it should.
        let _ = std::fs::write(&ballast, vec![1; 1 << 20]);
    };
    let url = origin.url("/f.bin");
    let (ran, ()) = tokio::join!(case.get(&url), fill);
    assert_eq!(
        ran.error().class(),
        ErrorClass::LocalIo,
        "{:?}",
        ran.error()
    );
    assert!(!case.path().exists());
    std::fs::remove_file(&ballast).unwrap();
    let again = case.get(&url).await;
    assert_eq!(again.outcome().bytes, content.length());
    case.assert_file(&content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_kept_and_loses_no_byte_with_either_strategy() {
    for whole in [false, true] {
        let mut case = JobCase::new();
        case.client.connector.rate_limit = Some(4 << 20);
        let all = RequestMatcher::matching(move |_| whole);
        let (ran, _origin) = case
            .run(OriginResource::new(content()).rule(all, faults::ignore_range))
            .await;
        // Half a second's worth, and a burst may be missing at its beginning.
        assert!(
            ran.outcome().elapsed > Duration::from_millis(400),
            "{:?}",
            ran.outcome().elapsed
        );
        case.assert_file(&content());
    }
}

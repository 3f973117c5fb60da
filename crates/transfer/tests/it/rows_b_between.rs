//! The seams between runs: what an earlier one left is used only where it is right today.

use haul_lab::faults::DigestHeader;
use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ExistingFilePolicy, GetError, JobOutput, TransferEvent};
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, content};

async fn slow(resource: OriginResource) -> Origin {
    Origin::builder()
        .resource("/f.bin", resource)
        .rate_per_connection(2 << 20)
        .start()
        .await
}

/// Stops a job when a third of it has come, and checks that something was kept.
async fn stopped(case: &mut JobCase, origin: &Origin) {
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let watch = async {
        while origin.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(case.get(&url), watch);
    assert!(ran.hints_at_resuming(), "{:?}", ran.error());
    case.stop = CancellationToken::new();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_bytes_without_a_validator_are_not_kept_for_the_next_run() {
    let mut case = JobCase::new();
    let origin = slow(OriginResource::without_validator(content())).await;
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let watch = async {
        while origin.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(case.get(&url), watch);
    assert!(!ran.hints_at_resuming(), "{:?}", ran.error());
    assert!(case.listing().is_empty(), "{:?}", case.listing());
    // With a digest any mix would be found out, so they are.
    case.stop = CancellationToken::new();
    let origin = slow(OriginResource::without_validator(content())).await;
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    stopped(&mut case, &origin).await;
    let ran = case.get(&origin.url("/f.bin")).await;
    assert!(ran.outcome().resumed > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_everything_is_requested_if_the_origin_no_longer_sends_its_validator() {
    let mut case = JobCase::new();
    let origin = slow(OriginResource::new(content())).await;
    stopped(&mut case, &origin).await;
    origin.replace("/f.bin", OriginResource::without_validator(content()));
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, 0);
    case.assert_file(&content());
}

/// A whole partial file whose name somebody took meanwhile.
async fn whole_but_taken(case: &JobCase, origin: &Origin) {
    let path = case.path();
    let appear = async {
        while origin.bytes_sent() == 0 {
            tokio::task::yield_now().await;
        }
        std::fs::write(&path, "theirs").unwrap();
    };
    let url = origin.url("/f.bin");
    let (ran, ()) = tokio::join!(case.get(&url), appear);
    assert!(
        matches!(ran.error(), GetError::AlreadyExists { .. }),
        "{:?}",
        ran.error()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_file_is_replaced_only_by_the_origins_present_version() {
    for existing in [ExistingFilePolicy::Update, ExistingFilePolicy::Overwrite] {
        let mut case = JobCase::new();
        let origin = slow(OriginResource::new(content())).await;
        whole_but_taken(&case, &origin).await;
        let newer = ResourceContent::random(99, 5000);
        origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v2\""));
        case.options.existing_file = existing;
        case.get(&origin.url("/f.bin")).await.outcome();
        case.assert_file(&newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_whole_partial_file_of_the_present_version_costs_a_byte() {
    let mut case = JobCase::new();
    let origin = slow(OriginResource::new(content())).await;
    whole_but_taken(&case, &origin).await;
    let before = origin.bytes_sent();
    case.options.existing_file = ExistingFilePolicy::Overwrite;
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, content().length());
    assert!(
        origin.bytes_sent() - before <= 1,
        "{}",
        origin.bytes_sent() - before
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_a_run_that_only_finishes_checks_the_announced_digest() {
    let case = JobCase::new();
    let announces = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::right_digest(DigestHeader::Repr),
    );
    let origin = slow(announces).await;
    whole_but_taken(&case, &origin).await;
    std::fs::remove_file(case.path()).unwrap();
    let before = origin.requests().len();
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, content().length());
    assert_eq!(origin.requests().len(), before, "nothing had to be request");
    let verified = |event: &TransferEvent| matches!(event, TransferEvent::Verifying { .. });
    assert!(ran.events.iter().any(verified), "{:?}", ran.events);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_whole_partial_file_that_somebody_made_longer_is_not_published() {
    let case = JobCase::new();
    let origin = slow(OriginResource::new(content())).await;
    whole_but_taken(&case, &origin).await;
    std::fs::remove_file(case.path()).unwrap();
    let part = case.dir.path().join("f.bin.haul-part");
    let mut file = std::fs::OpenOptions::new().append(true).open(part).unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_a_file_of_another_url_under_a_guessed_name_stays() {
    let mut case = JobCase::new();
    let named = OriginResource::new(ResourceContent::random(5, 1000))
        .header("Content-Disposition", "attachment; filename=one.zip");
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content()))
        .resource("/g/f.bin", named)
        .rate_per_connection(2 << 20)
        .start()
        .await;
    stopped(&mut case, &origin).await;
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    case.get(&origin.url("/g/f.bin")).await.outcome();
    assert_eq!(
        case.listing(),
        ["f.bin.haul-journal", "f.bin.haul-part", "one.zip"]
    );
    case.output = None;
    assert!(case.get(&origin.url("/f.bin")).await.outcome().resumed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_file_that_is_not_newer_at_the_origin_is_verified_as_one_that_is_fetched() {
    let mut case = JobCase::new();
    let origin = slow(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    case.get(&url).await.outcome();
    case.options.existing_file = ExistingFilePolicy::Update;
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    let ran = case.get(&url).await;
    assert!(ran.outcome().not_modified);
    assert_eq!(ran.outcome().checksums[0].1, content().sha256());
    case.checksums = vec!["md5:00000000000000000000000000000000".parse().unwrap()];
    let ran = case.get(&url).await;
    assert!(
        matches!(ran.error(), GetError::Checksum { .. }),
        "{:?}",
        ran.error()
    );
    // It is the user's, whatever it holds.
    case.assert_file(&content());
}

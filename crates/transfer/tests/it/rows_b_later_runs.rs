//! Partial files of an earlier run: they are used only if they still match the origin's file.

use haul_lab::faults::DigestHeader;
use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{
    ExistingFilePolicy, GetError, JobOutput, LocalError, TransferEvent, VerificationError,
};
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, content};

async fn slow_origin(resource: OriginResource) -> Origin {
    Origin::builder()
        .resource("/f.bin", resource)
        .rate_per_connection(2 << 20)
        .start()
        .await
}

/// Stops a job when a third of the file has arrived, and asserts that it can be resumed.
async fn interrupt_download(case: &mut JobCase, origin: &Origin) {
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let stop_after_a_third = async {
        while origin.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (run, ()) = tokio::join!(case.get(&url), stop_after_a_third);
    assert!(run.hints_at_resuming(), "{:?}", run.error());
    case.stop = CancellationToken::new();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_bytes_without_a_validator_are_not_kept_for_the_next_run() {
    let mut case = JobCase::new();
    let origin = slow_origin(OriginResource::without_validator(content())).await;
    let stop = case.stop.clone();
    let url = origin.url("/f.bin");
    let stop_after_a_third = async {
        while origin.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (run, ()) = tokio::join!(case.get(&url), stop_after_a_third);
    assert!(!run.hints_at_resuming(), "{:?}", run.error());
    assert!(case.listing().is_empty(), "{:?}", case.listing());
    // A checksum would detect a mixture of versions, so with one the bytes are kept.
    case.stop = CancellationToken::new();
    let origin = slow_origin(OriginResource::without_validator(content())).await;
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    interrupt_download(&mut case, &origin).await;
    let run = case.get(&origin.url("/f.bin")).await;
    assert!(run.outcome().resumed > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_nothing_is_resumed_if_the_origin_no_longer_sends_its_validator() {
    let mut case = JobCase::new();
    let origin = slow_origin(OriginResource::new(content())).await;
    interrupt_download(&mut case, &origin).await;
    origin.replace("/f.bin", OriginResource::without_validator(content()));
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_another_length_or_digest_under_the_same_tag_is_another_version() {
    let with_digest = |content: &ResourceContent| {
        let digest = faults::right_digest(DigestHeader::Repr);
        let resource = OriginResource::new(content.clone()).etag("\"same\"");
        resource.rule(RequestMatcher::always(), digest)
    };
    let without_digest =
        |content: &ResourceContent| OriginResource::new(content.clone()).etag("\"same\"");
    let length = content().length();
    for (resource, newer_length) in [
        (
            &with_digest as &dyn Fn(&ResourceContent) -> OriginResource,
            length,
        ),
        (&without_digest, length - 1),
        (&without_digest, length + 1),
    ] {
        let mut case = JobCase::new();
        let origin = slow_origin(resource(&content())).await;
        interrupt_download(&mut case, &origin).await;
        let newer = ResourceContent::random(99, newer_length);
        origin.replace("/f.bin", resource(&newer));
        let run = case.get(&origin.url("/f.bin")).await;
        assert_eq!(run.outcome().resumed, 0);
        assert!(run.has_warning("another version"), "{:?}", run.events);
        case.assert_file(&newer);
    }
}

/// Downloads while another file appears under the final name. This leaves a complete partial file.
async fn download_with_name_taken(case: &JobCase, origin: &Origin) {
    let path = case.path();
    let take_name = async {
        while origin.bytes_sent() == 0 {
            tokio::task::yield_now().await;
        }
        std::fs::write(&path, "theirs").unwrap();
    };
    let url = origin.url("/f.bin");
    let (run, ()) = tokio::join!(case.get(&url), take_name);
    assert!(
        matches!(
            run.error(),
            GetError::Local {
                error: LocalError::AlreadyExists,
                ..
            }
        ),
        "{:?}",
        run.error()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_complete_partial_file_of_an_old_version_is_not_used() {
    for existing in [ExistingFilePolicy::Update, ExistingFilePolicy::Overwrite] {
        let mut case = JobCase::new();
        let origin = slow_origin(OriginResource::new(content())).await;
        download_with_name_taken(&case, &origin).await;
        let newer = ResourceContent::random(99, 5000);
        origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v2\""));
        case.options.existing_file = existing;
        case.get(&origin.url("/f.bin")).await.outcome();
        case.assert_file(&newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_complete_partial_file_of_the_current_version_is_used_after_a_request_for_one_byte() {
    let mut case = JobCase::new();
    let origin = slow_origin(OriginResource::new(content())).await;
    download_with_name_taken(&case, &origin).await;
    let before = origin.bytes_sent();
    case.options.existing_file = ExistingFilePolicy::Overwrite;
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, content().length());
    assert!(
        origin.bytes_sent() - before <= 1,
        "{}",
        origin.bytes_sent() - before
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_the_origins_digest_is_checked_also_if_the_partial_file_is_complete() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::right_digest(DigestHeader::Repr),
    );
    let origin = slow_origin(resource).await;
    download_with_name_taken(&case, &origin).await;
    std::fs::remove_file(case.path()).unwrap();
    let before = origin.requests().len();
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, content().length());
    assert_eq!(
        origin.requests().len(),
        before,
        "the complete partial file needs no request"
    );
    let verified = |event: &TransferEvent| matches!(event, TransferEvent::Verifying { .. });
    assert!(run.events.iter().any(verified), "{:?}", run.events);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_complete_partial_file_that_was_extended_is_not_used() {
    let case = JobCase::new();
    let origin = slow_origin(OriginResource::new(content())).await;
    download_with_name_taken(&case, &origin).await;
    std::fs::remove_file(case.path()).unwrap();
    let part = case.dir.path().join("f.bin.haul-part");
    let mut file = std::fs::OpenOptions::new().append(true).open(part).unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_the_partial_file_of_another_url_with_the_same_name_is_kept() {
    let mut case = JobCase::new();
    let named = OriginResource::new(ResourceContent::random(5, 1000))
        .header("Content-Disposition", "attachment; filename=one.zip");
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content()))
        .resource("/g/f.bin", named)
        .rate_per_connection(2 << 20)
        .start()
        .await;
    interrupt_download(&mut case, &origin).await;
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
async fn b6_update_verifies_the_checksum_of_an_unchanged_file() {
    let mut case = JobCase::new();
    let origin = slow_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    case.get(&url).await.outcome();
    case.options.existing_file = ExistingFilePolicy::Update;
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    let run = case.get(&url).await;
    assert!(run.outcome().not_modified);
    assert_eq!(run.outcome().checksums[0].1, content().sha256());
    case.checksums = vec!["md5:00000000000000000000000000000000".parse().unwrap()];
    let run = case.get(&url).await;
    assert!(
        matches!(
            run.error(),
            GetError::Verification {
                error: VerificationError::Checksum { .. },
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    // The existing file is kept although its checksum is wrong.
    case.assert_file(&content());
}

//! Row A44: a redirect names the digest of the file, which identifies the version and is compared at the end.

use haul_lab::{
    Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, ResourceContent,
    faults,
};
use haul_transfer::{GetError, VerificationError};

use crate::batch::BatchCase;
use crate::harness::{JobCase, content};

/// `/f.bin` redirects to `/cdn` and names the SHA-256 of [`content`]. `/cdn` has these bytes, and a tag for each response.
async fn origin_with(bytes: ResourceContent) -> Origin {
    let link = |request: &RecordedRequest, reply: &mut OriginResponse| {
        faults::redirect(302, "/cdn")(request, reply);
        reply.set_header("X-Linked-Etag", &format!("\"{}\"", content().sha256()));
    };
    let tags = |request: &RecordedRequest, reply: &mut OriginResponse| {
        reply.set_header("ETag", &format!("\"{}\"", request.number_for_path));
    };
    let from = OriginResource::new(content()).rule(RequestMatcher::always(), link);
    let cdn = OriginResource::new(bytes).rule(RequestMatcher::always(), tags);
    Origin::builder()
        .resource("/f.bin", from)
        .resource("/cdn", cdn)
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a44_the_digest_on_a_redirect_identifies_the_version_whatever_nodes_say() {
    let origin = origin_with(content()).await;
    let case = JobCase::new();
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(
        (run.outcome().retries, run.outcome().etag.is_some()),
        (0, true)
    );
    case.assert_file(&content());
    assert!(
        origin.bytes_sent() < content().length() + 100_000,
        "nothing was fetched again"
    );
    assert!(origin.connection_count() > 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a44_other_bytes_than_the_redirect_names_are_no_file() {
    for length in [content().length(), 5000] {
        let origin = origin_with(ResourceContent::random(9, length)).await;
        let case = JobCase::new();
        let run = case.get(&origin.url("/f.bin")).await;
        let GetError::Verification {
            error: VerificationError::Checksum { expected_by, .. },
            ..
        } = run.error()
        else {
            panic!("{:?}", run.error());
        };
        assert_eq!(*expected_by, "X-Linked-Etag");
        assert!(!case.path().exists());
        let batch = BatchCase::new();
        let run = batch.download([origin.url("/f.bin")]).await;
        assert_eq!(run.counts(), (0, 0, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a44_a_later_run_goes_on_where_the_redirect_names_the_same_digest() {
    let case = JobCase::new();
    let origin = origin_with(content()).await;
    let url = origin.url("/f.bin");
    let stop = case.stop.clone();
    // Slow enough that bytes are on disk when the job is stopped, on any machine.
    let stopped = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::body_rate(1 << 20))
        .rule(
            RequestMatcher::after_bytes_sent(content().length() / 3),
            move |request, reply| {
                stop.cancel();
                faults::stall_after(0)(request, reply);
            },
        );
    origin.replace("/cdn", stopped);
    case.get(&url).await.error();
    let case = JobCase {
        stop: Default::default(),
        ..case
    };
    // Another node, which has other tags.
    origin.replace("/cdn", OriginResource::new(content()).etag("\"other\""));
    let run = case.get(&url).await;
    assert!(run.outcome().resumed > 100_000);
    case.assert_file(&content());
}

//! Which bytes of several hosts a later run may resume: none that were accepted because of digests that it does not have.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::{DigestAlgorithm, PieceDigests};
use haul_transfer::GetError;
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, content};
use crate::mirrors::{from, paced, sha256};

/// Other bytes, as many, under another tag: only a digest tells.
async fn hostile_mirror() -> Origin {
    let other = ResourceContent::random(9, content().length());
    paced(OriginResource::without_validator(other).etag("\"evil\"")).await
}

/// One piece that is the whole file: nobody looks at it before all of it is there.
fn one_piece() -> PieceDigests {
    let digest = Sha256::digest(content().to_vec());
    PieceDigests::new(DigestAlgorithm::Sha256, content().length(), [digest]).unwrap()
}

/// Ends the job when this origin has sent some of the file.
async fn stop_after(case: &JobCase, origin: &Origin) {
    while origin.bytes_sent() < content().length() / 3 {
        tokio::task::yield_now().await;
    }
    case.stop.cancel();
}

/// An origin whose document names a mirror, and has this digest.
async fn describing(mirror: &Origin, digests: &str) -> Origin {
    let link = "</f.meta4>; rel=describedby; type=\"application/metalink4+xml\"";
    let document = format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f.bin\"><size>{}</size>\
         {digests}<url>{}</url></file></metalink>",
        content().length(),
        mirror.url("/f.bin")
    );
    Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(content()).header("Link", link),
        )
        .resource(
            "/f.meta4",
            OriginResource::new(ResourceContent::fixed(document)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await
}

/// A run that finds the document and is stopped, and the origin as it is when that cannot be read any more.
async fn stopped(case: &mut JobCase, digests: &str) -> Origin {
    case.options.mirror_links = true;
    let mirror = hostile_mirror().await;
    let origin = describing(&mirror, digests).await;
    let url = origin.url("/f.bin");
    let (ran, ()) = tokio::join!(case.get(&url), stop_after(case, &mirror));
    assert!(ran.hints_at_resuming());
    case.stop = Default::default();
    let gone = OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(503));
    origin.replace("/f.meta4", gone);
    origin
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_bytes_accepted_because_of_a_metalink_document_are_not_resumed_without_it() {
    let mut case = JobCase::new();
    let pieces = format!(
        "<pieces length=\"{}\" type=\"sha-256\"><hash>{}</hash></pieces>",
        content().length(),
        content().sha256()
    );
    let origin = stopped(&mut case, &pieces).await;
    let ran = case.get(&origin.url("/f.bin")).await;
    assert_eq!(ran.outcome().resumed, 0);
    assert!(ran.warned("bytes of several hosts"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_digest_of_a_document_that_cannot_be_read_any_more_is_compared_all_the_same() {
    let mut case = JobCase::new();
    let digest = format!("<hash type=\"sha-256\">{}</hash>", content().sha256());
    let origin = stopped(&mut case, &digest).await;
    let ran = case.get(&origin.url("/f.bin")).await;
    let error = ran.error();
    assert!(matches!(error, GetError::Checksum { .. }), "{error}");
    assert!(!case.path().exists());
}

/// Run by a Metalink file or with a checksum first, and then by the bare URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_bytes_accepted_because_of_digests_are_not_resumed_without_them() {
    for pieces in [true, false] {
        let mut case = JobCase::new();
        match pieces {
            true => case.pieces = Some(one_piece()),
            false => case.checksums = vec![sha256()],
        }
        let (good, evil) = (
            paced(OriginResource::new(content())).await,
            hostile_mirror().await,
        );
        let (stop, origins) = (case.stop.clone(), [&good, &evil]);
        let watch = async {
            while evil.bytes_sent() < content().length() / 3 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(from(&mut case, &origins), watch);
        assert!(ran.hints_at_resuming());
        case.stop = Default::default();
        (case.pieces, case.checksums) = (None, Vec::new());
        let ran = from(&mut case, &[&good]).await;
        assert_eq!(ran.outcome().resumed, 0);
        assert!(ran.warned("bytes of several hosts"));
        case.assert_file(&content());
    }
}

/// The run that joins bytes on digests need not be the first: what an earlier one left was the origin's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_run_that_resumes_with_digests_records_that_in_the_journal() {
    let mut case = JobCase::new();
    let (good, evil) = (
        paced(OriginResource::new(content())).await,
        hostile_mirror().await,
    );
    let url = good.url("/f.bin");
    let (ran, ()) = tokio::join!(case.get(&url), stop_after(&case, &good));
    assert!(ran.hints_at_resuming());
    (case.stop, case.pieces) = (Default::default(), Some(one_piece()));
    let (stop, origins) = (case.stop.clone(), [&good, &evil]);
    let watch = async {
        while evil.bytes_sent() < content().length() / 8 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(from(&mut case, &origins), watch);
    assert!(ran.hints_at_resuming());
    (case.stop, case.pieces) = (Default::default(), None);
    let ran = from(&mut case, &[&good]).await;
    assert_eq!(ran.outcome().resumed, 0);
    case.assert_file(&content());
}

/// With digests of whatever kind nothing has to be fetched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_digest_of_the_whole_file_replaces_digests_of_pieces() {
    let mut case = JobCase::new();
    case.pieces = Some(one_piece());
    let (a, b) = (
        paced(OriginResource::without_validator(content()).etag("\"a\"")).await,
        paced(OriginResource::without_validator(content()).etag("\"b\"")).await,
    );
    let (stop, origins) = (case.stop.clone(), [&a, &b]);
    let watch = async {
        while b.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (_, ()) = tokio::join!(from(&mut case, &origins), watch);
    (case.stop, case.pieces, case.checksums) = (Default::default(), None, vec![sha256()]);
    let ran = from(&mut case, &[&a]).await;
    assert!(ran.outcome().resumed > 0);
    case.assert_file(&content());
}

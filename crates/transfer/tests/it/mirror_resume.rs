//! Resuming bytes of several hosts: bytes that were accepted because of digests are resumed only with digests.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::DigestAlgorithm;
use haul_transfer::{GetError, PieceDigests, VerificationError};
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, content};
use crate::mirrors::{get_from, rate_limited, sha256};

/// A mirror with other bytes of the same length and another ETag. Only a digest can detect it.
async fn hostile_mirror() -> Origin {
    let other = ResourceContent::random(9, content().length());
    rate_limited(OriginResource::without_validator(other).etag("\"hostile\"")).await
}

/// The digest of one piece that is the whole file, so that nothing is verified before the file is complete.
fn one_piece() -> PieceDigests {
    let digest = Sha256::digest(content().to_vec());
    PieceDigests::new(DigestAlgorithm::Sha256, content().length(), [digest]).unwrap()
}

/// Stops the job when this origin has sent a third of the file.
async fn stop_after(case: &JobCase, origin: &Origin) {
    while origin.bytes_sent() < content().length() / 3 {
        tokio::task::yield_now().await;
    }
    case.stop.cancel();
}

/// An origin that links to a Metalink document with this mirror and these digests.
async fn origin_with_metalink(mirror: &Origin, digests: &str) -> Origin {
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

/// Runs a job that uses the document, and stops it. Returns the origin, whose document is unavailable from then on.
async fn interrupt_download(case: &mut JobCase, digests: &str) -> Origin {
    case.options.mirror_links = true;
    let mirror = hostile_mirror().await;
    let origin = origin_with_metalink(&mirror, digests).await;
    let url = origin.url("/f.bin");
    let (run, ()) = tokio::join!(case.get(&url), stop_after(case, &mirror));
    assert!(run.hints_at_resuming());
    case.stop = Default::default();
    let unavailable =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(503));
    origin.replace("/f.meta4", unavailable);
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
    let origin = interrupt_download(&mut case, &pieces).await;
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().resumed, 0);
    assert!(run.has_warning("bytes of several hosts"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_the_digest_of_a_metalink_document_is_compared_even_if_the_document_is_gone() {
    let mut case = JobCase::new();
    let digest = format!("<hash type=\"sha-256\">{}</hash>", content().sha256());
    let origin = interrupt_download(&mut case, &digest).await;
    let run = case.get(&origin.url("/f.bin")).await;
    let error = run.error();
    assert!(
        matches!(
            error,
            GetError::Verification {
                error: VerificationError::Checksum { .. },
                ..
            }
        ),
        "{error}"
    );
    assert!(!case.path().exists());
}

/// The first run has a Metalink file or a checksum, and the second run only has the URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_bytes_accepted_because_of_digests_are_not_resumed_without_them() {
    for with_pieces in [true, false] {
        let mut case = JobCase::new();
        if with_pieces {
            case.piece_digests = Some(one_piece())
        } else {
            case.checksums = vec![sha256()]
        }
        let (good, hostile) = (
            rate_limited(OriginResource::new(content())).await,
            hostile_mirror().await,
        );
        let (stop, origins) = (case.stop.clone(), [&good, &hostile]);
        let interrupt = async {
            while hostile.bytes_sent() < content().length() / 3 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let (run, ()) = tokio::join!(get_from(&mut case, &origins), interrupt);
        assert!(run.hints_at_resuming());
        case.stop = Default::default();
        (case.piece_digests, case.checksums) = (None, Vec::new());
        let run = get_from(&mut case, &[&good]).await;
        assert_eq!(run.outcome().resumed, 0);
        assert!(run.has_warning("bytes of several hosts"));
        case.assert_file(&content());
    }
}

/// The first run has bytes of one origin only; the second run adds bytes that it accepts because of the digests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_run_that_resumes_with_digests_records_that_in_the_journal() {
    let mut case = JobCase::new();
    let (good, hostile) = (
        rate_limited(OriginResource::new(content())).await,
        hostile_mirror().await,
    );
    let url = good.url("/f.bin");
    let (run, ()) = tokio::join!(case.get(&url), stop_after(&case, &good));
    assert!(run.hints_at_resuming());
    (case.stop, case.piece_digests) = (Default::default(), Some(one_piece()));
    let (stop, origins) = (case.stop.clone(), [&good, &hostile]);
    let interrupt = async {
        while hostile.bytes_sent() < content().length() / 8 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (run, ()) = tokio::join!(get_from(&mut case, &origins), interrupt);
    assert!(run.hints_at_resuming());
    (case.stop, case.piece_digests) = (Default::default(), None);
    let run = get_from(&mut case, &[&good]).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&content());
}

/// A checksum of the file verifies the bytes as well as digests of pieces do, so nothing is fetched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_bytes_accepted_because_of_piece_digests_are_resumed_with_a_checksum() {
    let mut case = JobCase::new();
    case.piece_digests = Some(one_piece());
    let (a, b) = (
        rate_limited(OriginResource::without_validator(content()).etag("\"a\"")).await,
        rate_limited(OriginResource::without_validator(content()).etag("\"b\"")).await,
    );
    let (stop, origins) = (case.stop.clone(), [&a, &b]);
    let interrupt = async {
        while b.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (_, ()) = tokio::join!(get_from(&mut case, &origins), interrupt);
    (case.stop, case.piece_digests, case.checksums) = (Default::default(), None, vec![sha256()]);
    let run = get_from(&mut case, &[&a]).await;
    assert!(run.outcome().resumed > 0);
    case.assert_file(&content());
}

//! Digests of pieces: a corrupt piece is fetched again, from another source if there is one, and never gets the final name.

use haul_lab::{
    OriginResource, OriginResponse, OriginResponseBody, RecordedRequest, RequestMatcher,
    ResourceContent, faults,
};
use haul_plan::DigestAlgorithm;
use haul_transfer::{ErrorClass, GetError, LocalError, PieceDigests, VerificationError};
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, JobRun, content, serve};
use crate::mirrors::{assert_dropped, get_from, rate_limited};

const PIECE: u64 = 100_000;

/// The digests of the pieces of [`content`].
fn piece_digests() -> PieceDigests {
    let bytes = content().to_vec();
    let digests = bytes.chunks(PIECE.try_into().unwrap()).map(Sha256::digest);
    PieceDigests::new(DigestAlgorithm::Sha256, PIECE, digests).unwrap()
}

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.piece_digests = Some(piece_digests());
    case
}

/// The file with one changed byte in the middle.
fn content_with_flipped_bit() -> ResourceContent {
    let mut bytes = content().to_vec();
    bytes[1_200_100] ^= 1;
    ResourceContent::fixed(bytes)
}

fn resource_with_etag(content: ResourceContent, tag: &str) -> OriginResource {
    OriginResource::without_validator(content).etag(tag)
}

/// A rule that flips one bit, in responses that contain its byte.
fn flip_bit(request: &RecordedRequest, reply: &mut OriginResponse) {
    let (start, mut bytes) = (request.range_start(), reply.body.to_vec());
    let at = usize::try_from(1_200_100 - start.min(1_200_100)).unwrap();
    if start <= 1_200_100 && at < bytes.len() {
        bytes[at] ^= 1;
    }
    reply.body = OriginResponseBody::Bytes(bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correct_file_is_verified_while_it_arrives() {
    let case = case();
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.outcome().fetched, content().length());
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_piece_is_fetched_again_from_another_mirror() {
    for bad_first in [true, false] {
        let mut case = case();
        let good = rate_limited(resource_with_etag(content(), "\"a\"")).await;
        let bad = rate_limited(resource_with_etag(content_with_flipped_bit(), "\"b\"")).await;
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let run = get_from(&mut case, &origins).await;
        run.outcome();
        case.assert_file(&content());
    }
}

/// All pieces of one mirror are wrong. The first piece that it delivered alone proves that, and the mirror is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_equal_length_is_detected_and_dropped() {
    for bad_first in [true, false] {
        let mut case = case();
        let other = ResourceContent::random(9, content().length());
        let good = rate_limited(resource_with_etag(content(), "\"a\"")).await;
        let bad = rate_limited(resource_with_etag(other, "\"b\"")).await;
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let run = get_from(&mut case, &origins).await;
        run.outcome();
        assert_dropped(&run, &bad, "does not match its digest");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_piece_is_requested_again_from_the_only_source() {
    let case = case();
    let corrupt_at_first = OriginResource::new(content()).rule(RequestMatcher::first(9), flip_bit);
    let (run, origin) = case.run(corrupt_at_first).await;
    assert!(run.outcome().fetched > content().length());
    assert!(run.has_warning("fetching them again"));
    let requests = origin.requests();
    let again = requests.last().unwrap().range(content().length()).unwrap();
    assert!(
        again.contains(&1_200_100) && again.end - again.start <= PIECE,
        "{again:?}"
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_always_delivers_a_corrupt_piece_fails_the_job() {
    let case = case();
    let (run, origin) = case
        .run(OriginResource::new(content_with_flipped_bit()))
        .await;
    let error = run.error();
    assert!(
        matches!(error, GetError::Verification { error: VerificationError::PieceDigest { range, .. }, .. } if *range == (1_200_000..1_300_000)),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    let again = origin.requests().len();
    assert!(again < 9 + 6, "{again}");
    // The correct pieces are kept, and the journal does not record the corrupt one.
    assert_journal_voids_the_corrupt_piece(&case);
}

#[track_caller]
fn assert_journal_voids_the_corrupt_piece(case: &JobCase) {
    let journal = std::fs::read_to_string(case.dir.path().join("f.bin.haul-journal")).unwrap();
    let last = |what: &str| journal.rfind(what);
    assert!(
        last("\"void\"") > last("\"start\":1200000,\"end\":1300000,\"crc\""),
        "{journal}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_every_source_has_a_corrupt_piece_the_error_names_each_source() {
    let mut case = case();
    let (a, b) = (
        rate_limited(resource_with_etag(content_with_flipped_bit(), "\"a\"")).await,
        rate_limited(resource_with_etag(content_with_flipped_bit(), "\"b\"")).await,
    );
    let run = get_from(&mut case, &[&a, &b]).await;
    let error = run.error();
    assert!(
        matches!(error, GetError::AllSourcesFailed { dropped, .. } if dropped.len() == 2),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    assert!(!case.path().exists());
}

/// The bytes of an earlier run are verified, too. That run had no digests. It was stopped halfway, or it ended with a complete
/// partial file because the final name was taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_corrupt_pieces_of_an_earlier_run_are_fetched_again() {
    for name_taken in [false, true] {
        let mut case = JobCase::new();
        // The last segment is slow, so that the job still fetches it when all others are complete.
        let last = |request: &RecordedRequest| request.range_start() >= 8 * (256 << 10);
        let bad = resource_with_etag(content_with_flipped_bit(), "\"a\"")
            .rule(RequestMatcher::matching(last), faults::body_rate(100_000));
        let origin = rate_limited(bad).await;
        let (stop, url, path) = (case.stop.clone(), origin.url("/f.bin"), case.path());
        let interrupt = async {
            while origin.bytes_sent() < 2_095_000 {
                tokio::task::yield_now().await;
            }
            if name_taken {
                std::fs::write(&path, "somebody else's").unwrap();
            } else {
                stop.cancel();
            }
        };
        let (run, ()) = tokio::join!(case.get(&url), interrupt);
        assert_eq!(
            matches!(
                run.error(),
                GetError::Local {
                    error: LocalError::AlreadyExists,
                    ..
                }
            ),
            name_taken
        );
        if name_taken {
            std::fs::remove_file(&path).unwrap();
        }
        (case.stop, case.piece_digests) = (Default::default(), Some(piece_digests()));
        origin.replace("/f.bin", resource_with_etag(content(), "\"a\""));
        let run = case.get(&url).await;
        assert!(run.outcome().resumed > 0);
        assert!(run.outcome().fetched < content().length());
        assert!(run.has_warning("fetching them again"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_stream_is_verified_at_its_end_and_repeated_from_the_next_source() {
    let without_ranges = |content: ResourceContent| {
        OriginResource::new(content).rule(RequestMatcher::always(), faults::ignore_range)
    };
    let mut case_without_ranges = case();
    let (run, _origin) = case_without_ranges
        .run(without_ranges(content_with_flipped_bit()))
        .await;
    assert!(matches!(
        run.error(),
        GetError::Verification {
            error: VerificationError::PieceDigest { .. },
            ..
        }
    ));
    assert_eq!(case_without_ranges.listing(), Vec::<String>::new());
    let (bad, good) = (
        serve(without_ranges(content_with_flipped_bit())).await,
        serve(without_ranges(content())).await,
    );
    let run = get_from(&mut case_without_ranges, &[&bad, &good]).await;
    run.outcome();
    case_without_ranges.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_size_contradicts_the_piece_digests_is_refused_at_once() {
    let case = case();
    let (run, origin) = case
        .run(OriginResource::new(ResourceContent::random(1, 5_000_000)))
        .await;
    assert!(matches!(
        run.error(),
        GetError::Verification {
            error: VerificationError::WrongFile { .. },
            ..
        }
    ));
    assert_eq!(origin.requests().len(), 1);
}

/// The digest of the whole file must not include bytes that were replaced later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_digest_of_the_whole_file_is_computed_after_pieces_were_replaced() {
    let mut case = case();
    case.checksums = vec![crate::mirrors::sha256()];
    let corrupt_at_first = OriginResource::new(content()).rule(RequestMatcher::first(9), flip_bit);
    let origin = rate_limited(corrupt_at_first).await;
    let run: JobRun = get_from(&mut case, &[&origin]).await;
    assert!(run.has_warning("fetching them again"));
    assert_eq!(run.outcome().checksums[0].1, content().sha256());
    case.assert_file(&content());
}

/// There are more mirrors than are used at once, and most are slow. The ones with the corrupt piece are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_piece_is_fetched_again_with_twenty_sources() {
    let mut case = case();
    case.options.segment_size = Some(175_000);
    let mut bytes = content().to_vec();
    bytes[150_000] ^= 1;
    let bad = ResourceContent::fixed(bytes);
    let mut origins = vec![
        rate_limited(resource_with_etag(bad.clone(), "\"a\"")).await,
        rate_limited(resource_with_etag(bad, "\"b\"")).await,
    ];
    for number in 0..18 {
        let resource = resource_with_etag(content(), &format!("\"{number}\""));
        let slow = haul_lab::Origin::builder().resource("/f.bin", resource);
        origins.push(
            slow.latency(std::time::Duration::from_secs(1))
                .start()
                .await,
        );
    }
    case.client.stall_timeout = std::time::Duration::from_secs(5);
    case.client.response_timeout = case.client.stall_timeout;
    let origins: Vec<&haul_lab::Origin> = origins.iter().collect();
    let run = get_from(&mut case, &origins).await;
    run.outcome();
    case.assert_file(&content());
}

//! Digests of pieces: a bad one is fetched again, from another source if there is one, and never reaches the final name.

use haul_lab::{
    OriginResource, OriginResponse, OriginResponseBody, RecordedRequest, RequestMatcher,
    ResourceContent, faults,
};
use haul_plan::{DigestAlgorithm, PieceDigests};
use haul_transfer::{ErrorClass, GetError};
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, JobRun, content, serve};
use crate::mirrors::{assert_dropped, from, paced};

const PIECE: u64 = 100_000;

/// The digests of the right file's pieces.
fn pieces() -> PieceDigests {
    let bytes = content().to_vec();
    let digests = bytes.chunks(PIECE.try_into().unwrap()).map(Sha256::digest);
    PieceDigests::new(DigestAlgorithm::Sha256, PIECE, digests).unwrap()
}

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.pieces = Some(pieces());
    case
}

/// The file with a byte in its middle that is another.
fn flipped() -> ResourceContent {
    let mut bytes = content().to_vec();
    bytes[1_200_100] ^= 1;
    ResourceContent::fixed(bytes)
}

fn tagged(content: ResourceContent, tag: &str) -> OriginResource {
    OriginResource::without_validator(content).etag(tag)
}

/// A rule that flips one byte in responses that contain it.
fn flip(request: &RecordedRequest, reply: &mut OriginResponse) {
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
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(ran.outcome().fetched, content().length());
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_piece_is_fetched_again_from_another_mirror() {
    for bad_first in [true, false] {
        let mut case = case();
        let good = paced(tagged(content(), "\"a\"")).await;
        let bad = paced(tagged(flipped(), "\"b\"")).await;
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let ran = from(&mut case, &origins).await;
        ran.outcome();
        case.assert_file(&content());
    }
}

/// All pieces of one mirror are bad: the first that it delivered alone proves that, and the mirror is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_equal_length_is_detected_and_dropped() {
    for bad_first in [true, false] {
        let mut case = case();
        let other = ResourceContent::random(9, content().length());
        let good = paced(tagged(content(), "\"a\"")).await;
        let bad = paced(tagged(other, "\"b\"")).await;
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let ran = from(&mut case, &origins).await;
        ran.outcome();
        assert_dropped(&ran, &bad, "does not match its digest");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_piece_is_requested_again_from_the_only_source() {
    let case = case();
    let once = OriginResource::new(content()).rule(RequestMatcher::first(9), flip);
    let (ran, origin) = case.run(once).await;
    assert!(ran.outcome().fetched > content().length());
    assert!(ran.warned("fetching them again"));
    let requests = origin.requests();
    let again = requests.last().unwrap().range(content().length()).unwrap();
    assert!(
        again.contains(&1_200_100) && again.end - again.start <= PIECE,
        "{again:?}"
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_always_delivers_a_bad_piece_ends_the_job() {
    let case = case();
    let (ran, origin) = case.run(OriginResource::new(flipped())).await;
    let error = ran.error();
    assert!(
        matches!(error, GetError::PieceDigest { range, .. } if *range == (1_200_000..1_300_000)),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    let again = origin.requests().len();
    assert!(again < 9 + 6, "{again}");
    // What is right is kept; the bad piece is not claimed.
    assert_kept_without_the_bad_piece(&case);
}

#[track_caller]
fn assert_kept_without_the_bad_piece(case: &JobCase) {
    let journal = std::fs::read_to_string(case.dir.path().join("f.bin.haul-journal")).unwrap();
    let last = |what: &str| journal.rfind(what);
    assert!(
        last("\"void\"") > last("\"start\":1200000,\"end\":1300000,\"crc\""),
        "{journal}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_every_source_is_bad_the_error_names_each() {
    let mut case = case();
    let (a, b) = (
        paced(tagged(flipped(), "\"a\"")).await,
        paced(tagged(flipped(), "\"b\"")).await,
    );
    let ran = from(&mut case, &[&a, &b]).await;
    let error = ran.error();
    assert!(
        matches!(error, GetError::AllSourcesFailed { dropped, .. } if dropped.len() == 2),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    assert!(!case.path().exists());
}

/// What an earlier run left is verified, too: it ran without the digests, and was stopped in its middle, or when all was there and
/// only the name was taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_bad_pieces_that_an_earlier_run_left_are_fetched_again() {
    for whole in [false, true] {
        let mut case = JobCase::new();
        // The last segment takes its time, so that the job is still at it when all the others have come.
        let last = |request: &RecordedRequest| request.range_start() >= 8 * (256 << 10);
        let bad = tagged(flipped(), "\"a\"")
            .rule(RequestMatcher::matching(last), faults::body_rate(100_000));
        let origin = paced(bad).await;
        let (stop, url, path) = (case.stop.clone(), origin.url("/f.bin"), case.path());
        let watch = async {
            while origin.bytes_sent() < 2_095_000 {
                tokio::task::yield_now().await;
            }
            if whole {
                std::fs::write(&path, "somebody else's").unwrap();
            } else {
                stop.cancel();
            }
        };
        let (ran, ()) = tokio::join!(case.get(&url), watch);
        assert_eq!(matches!(ran.error(), GetError::AlreadyExists { .. }), whole);
        if whole {
            std::fs::remove_file(&path).unwrap();
        }
        (case.stop, case.pieces) = (Default::default(), Some(pieces()));
        origin.replace("/f.bin", tagged(content(), "\"a\""));
        let ran = case.get(&url).await;
        assert!(ran.outcome().resumed > 0);
        assert!(ran.outcome().fetched < content().length());
        assert!(ran.warned("fetching them again"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_verified_at_its_end_and_fetched_whole_from_the_next_source() {
    let rangeless = |content: ResourceContent| {
        OriginResource::new(content).rule(RequestMatcher::always(), faults::ignore_range)
    };
    let mut alone = case();
    let (ran, _origin) = alone.run(rangeless(flipped())).await;
    assert!(matches!(ran.error(), GetError::PieceDigest { .. }));
    assert_eq!(alone.listing(), Vec::<String>::new());
    let (bad, good) = (
        serve(rangeless(flipped())).await,
        serve(rangeless(content())).await,
    );
    let ran = from(&mut alone, &[&bad, &good]).await;
    ran.outcome();
    alone.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digests_of_a_file_of_another_size_refuse_it_at_once() {
    let case = case();
    let (ran, origin) = case
        .run(OriginResource::new(ResourceContent::random(1, 5_000_000)))
        .await;
    assert!(matches!(ran.error(), GetError::WrongFile { .. }));
    assert_eq!(origin.requests().len(), 1);
}

/// The whole file's digest follows only what is right by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_digest_of_the_whole_file_is_computed_after_pieces_were_replaced() {
    let mut case = case();
    case.checksums = vec![crate::mirrors::sha256()];
    let once = OriginResource::new(content()).rule(RequestMatcher::first(9), flip);
    let origin = paced(once).await;
    let ran: JobRun = from(&mut case, &[&origin]).await;
    assert!(ran.warned("fetching them again"));
    assert_eq!(ran.outcome().checksums[0].1, content().sha256());
    case.assert_file(&content());
}

/// More mirrors than are used at a time, and most of them slow: the one with the bad piece is among those used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_piece_is_fetched_again_with_any_number_of_sources() {
    let mut case = case();
    case.options.segment_size = Some(175_000);
    let mut bytes = content().to_vec();
    bytes[150_000] ^= 1;
    let bad = ResourceContent::fixed(bytes);
    let mut origins = vec![
        paced(tagged(bad.clone(), "\"a\"")).await,
        paced(tagged(bad, "\"b\"")).await,
    ];
    for number in 0..18 {
        let resource = tagged(content(), &format!("\"{number}\""));
        let slow = haul_lab::Origin::builder().resource("/f.bin", resource);
        origins.push(
            slow.latency(std::time::Duration::from_secs(1))
                .start()
                .await,
        );
    }
    case.client.stall_timeout = std::time::Duration::from_secs(5);
    let origins: Vec<&haul_lab::Origin> = origins.iter().collect();
    let ran = from(&mut case, &origins).await;
    ran.outcome();
    case.assert_file(&content());
}

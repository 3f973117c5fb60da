//! Bytes that do not match a digest: which source is dropped for it, and which one fetches them again.

use std::time::Duration;

use haul_plan::{DigestAlgorithm, ExpectedDigest, ResourceVersion};
use http::StatusCode;
use proptest::prelude::*;

use super::super::*;
use super::many_sources::*;
use crate::response::RequestFailure;
use crate::sources::{IntegrityEvidence, NextSource, SourceContent, SourceMismatch};

#[test]
fn the_only_sender_of_a_bad_piece_is_dropped_and_of_several_one_sends_it_again() {
    let mut policy = begun(3, true, VERIFIED);
    let mut bad = |senders: &[usize], times| policy.on_bad_piece(senders, times, SECOND);
    assert_eq!(bad(&[0, 1], 1), PieceRetry::FromOne(2));
    assert_eq!(bad(&[2], 2), PieceRetry::FromAny);
    assert_eq!(bad(&[0, 1], 3), PieceRetry::FromOne(0));
    assert_eq!(bad(&[0], 4), PieceRetry::FromAny);
    assert_eq!(bad(&[1], 5), PieceRetry::FromAny);
    assert_eq!(bad(&[1], 6), PieceRetry::GiveUp);
    assert_eq!(live(&policy), [1]);
    // For bytes that an earlier run left, no source is to blame.
    assert_eq!(
        begun(2, true, VERIFIED).on_bad_piece(&[], 1, SECOND),
        PieceRetry::FromAny
    );
}

#[test]
fn a_bad_piece_is_never_left_to_a_source_that_is_not_used() {
    // More sources than are used at a time: nothing is requested from the last ones.
    let mut policy = begun(20, true, VERIFIED);
    admit(&mut policy, 1);
    assert_eq!(
        policy.on_bad_piece(&[0, 1], 1, SECOND),
        PieceRetry::FromOne(2)
    );
    // Nor to one that requested a pause of minutes.
    fail(&mut policy, 2, &busy(Some(60 * SECOND)), SECOND);
    assert_eq!(
        policy.on_bad_piece(&[0, 1], 2, SECOND),
        PieceRetry::FromOne(3)
    );
}

#[test]
fn a_bad_piece_is_sent_again_by_a_source_that_the_user_named() {
    let mut policy = begun(1, true, VERIFIED);
    policy.add_source(false);
    policy.add_source(false);
    assert_eq!(
        policy.on_bad_piece(&[0, 1], 1, SECOND),
        PieceRetry::FromOne(0)
    );
}

proptest! {
    /// Whichever sources rest or were dropped: some active source, one that may begin at once unless all rest, may send a bad piece
    /// again.
    #[test]
    fn after_a_bad_piece_some_source_may_send_it_again(
        count in 1usize..24, rests in prop::collection::vec((0usize..24, 0u64..120), 0..24),
        dropped in prop::collection::vec(0usize..24, 0..23), senders in prop::collection::btree_set(0usize..24, 0..5),
        known in prop::collection::vec(0usize..24, 0..24),
    ) {
        let mut policy = begun(count, true, VERIFIED);
        for (source, seconds) in rests.into_iter().filter(|(source, _)| *source < count) {
            fail(&mut policy, source, &busy(Some(SECOND * u32::try_from(seconds).unwrap())), 40 * SECOND);
        }
        for source in known.into_iter().filter(|source| *source < count) {
            admit(&mut policy, source);
        }
        for source in dropped.into_iter().take(count - 1) {
            if policy.sources().live_count() > 1 {
                policy.sources_mut().drop_source(source, "gone");
            }
        }
        let senders: Vec<usize> = senders.into_iter().filter(|source| *source < count).collect();
        let now = 100 * SECOND;
        let retry = policy.on_bad_piece(&senders, 1, now);
        let open = policy.sources().candidates(now);
        // When no source rests any more, all active ones are there.
        let later = policy.sources().candidates(1000 * SECOND);
        match retry {
            PieceRetry::FromOne(one) => {
                prop_assert!(later.contains(&one));
                prop_assert!(open.is_empty() || open.contains(&one));
            }
            PieceRetry::FromAny => prop_assert!(!later.is_empty() || policy.sources().live_count() == 0),
            PieceRetry::GiveUp => prop_assert!(false, "too soon"),
        }
    }
}

/// A beginning by `first`, and the sources of its bytes.
fn round(policy: &mut RecoveryPolicy, first: usize, senders: &[usize]) {
    let content = SourceContent {
        version: &version(None),
        digests: &[],
    };
    policy.sources_mut().begin(first, &content, VERIFIED);
    senders
        .iter()
        .for_each(|source| policy.on_bytes(*source, 5));
}

fn live(policy: &RecoveryPolicy) -> Vec<usize> {
    (0..policy.sources().count())
        .filter(|source| policy.sources().is_live(*source))
        .collect()
}

#[test]
fn after_a_wrong_digest_each_source_fetches_the_file_alone_once_in_their_order() {
    let mut policy = begun(3, true, VERIFIED);
    round(&mut policy, 0, &[0, 2]);
    for source in [0, 1, 2] {
        assert_eq!(policy.on_wrong_digest(source, false, "wrong"), Some(source));
        assert_eq!(live(&policy), [source]);
        let wait = Duration::ZERO;
        assert_eq!(
            policy.next_source(SECOND),
            Some(NextSource { source, wait })
        );
        round(&mut policy, source, &[source]);
        // It is the only one that lives: its failures are those of an only source.
        assert!(matches!(
            fail(&mut policy, source, &REFUSED, Duration::ZERO),
            RecoveryAction::Retry(_)
        ));
    }
    assert_eq!(policy.on_wrong_digest(2, false, "wrong"), None);
    let dropped: Vec<_> = policy.sources().dropped().collect();
    assert_eq!(dropped, [(0, "wrong"), (1, "wrong"), (2, "wrong")]);
}

#[test]
fn a_source_that_sent_the_whole_wrong_file_is_dropped_but_not_for_bytes_of_an_earlier_run() {
    let mut policy = begun(2, true, VERIFIED);
    round(&mut policy, 0, &[0]);
    assert_eq!(policy.on_wrong_digest(0, true, "wrong"), Some(0));
    // In one response, whose bytes nobody counts.
    assert_eq!(policy.on_wrong_digest(0, false, "wrong"), Some(1));
    assert_eq!(policy.on_wrong_digest(1, false, "wrong"), None);
}

#[test]
fn no_source_is_tried_alone_that_was_found_or_failed_or_where_pieces_are_right() {
    let mut policy = begun(2, true, VERIFIED);
    assert_eq!(policy.add_source(false), 2);
    policy.sources_mut().drop_source(1, "answered 404");
    round(&mut policy, 0, &[0, 2]);
    assert_eq!(policy.on_wrong_digest(0, false, "wrong"), Some(0));
    assert!(!policy.sources().is_live(2));
    assert_eq!(policy.add_source(false), 3);
    assert!(
        !policy.sources().is_live(3),
        "it is found while another is tried alone"
    );
    assert_eq!(policy.on_wrong_digest(0, false, "wrong"), None);

    let pieces = IntegrityEvidence {
        piece_digests: true,
        ..VERIFIED
    };
    assert_eq!(
        begun(2, true, pieces).on_wrong_digest(0, false, "wrong"),
        None
    );
    assert_eq!(
        begun(1, true, VERIFIED).on_wrong_digest(0, true, "wrong"),
        None
    );
}

#[test]
fn a_source_whose_date_and_tag_differ_is_on_standby_until_it_is_needed() {
    let dated = |day: u8, tag| ResourceVersion {
        last_modified: Some(format!("Sun, {day:02} Nov 1994 08:49:37 GMT")),
        ..version(Some(tag))
    };
    let digest = [ExpectedDigest {
        algorithm: DigestAlgorithm::Md5,
        digest: vec![1; 16],
        field: "Digest",
    }];
    let begin = |evidence| {
        let mut policy = begun(2, true, evidence);
        let first = dated(6, "\"v\"");
        let content = SourceContent {
            version: &first,
            digests: &digest,
        };
        policy.sources_mut().begin(0, &content, evidence);
        policy
    };
    let admit = |policy: &mut RecoveryPolicy, version: &ResourceVersion, digests| {
        let content = SourceContent { version, digests };
        policy.sources_mut().admit(1, &content)
    };
    let mut policy = begin(VERIFIED);
    let other = dated(13, "\"w\"");
    assert_eq!(
        admit(&mut policy, &other, &[]),
        Err(SourceMismatch::Version)
    );
    assert_eq!(
        fail(&mut policy, 1, &RequestFailure::WrongFile, SECOND),
        RecoveryAction::DropSource
    );
    assert_eq!(live(&policy), [0]);
    assert_eq!(policy.sources().dropped().count(), 0);
    // The first fails for good: the other has its turn.
    let gone = RequestFailure::Denied {
        status: StatusCode::GONE,
    };
    assert_eq!(fail(&mut policy, 0, &gone, SECOND), RecoveryAction::GiveUp);
    let next = policy.fail_over(0, "gone", SECOND);
    assert_eq!(next.map(|next| next.source), Some(1));
    assert_eq!(live(&policy), [1]);
    assert_eq!(policy.fail_over(1, "gone", SECOND), None);

    let pieces = IntegrityEvidence {
        piece_digests: true,
        ..VERIFIED
    };
    for (evidence, version, digests) in [
        (pieces, &other, &[][..]),
        (VERIFIED, &other, &digest),
        (VERIFIED, &dated(6, "\"w\""), &[]),
        (VERIFIED, &dated(13, "\"v\""), &[]),
        (VERIFIED, &dated(13, "W/\"w\""), &[]),
    ] {
        assert_eq!(admit(&mut begin(evidence), version, digests), Ok(()));
    }
}

//! What a wrong digest of the whole leads to.

use super::alone::breaks_enough;
use super::tests::*;
use super::*;

/// A beginning by `first`, and what these brought of it.
fn round(mirrors: &mut SourceSet, first: usize, by: &[usize]) {
    let version = version(10, None);
    let found = SourceContent {
        version: &version,
        digests: &[],
    };
    mirrors.begin(first, &found, VERIFIED);
    by.iter().for_each(|source| mirrors.on_bytes(*source, 5));
}

fn living(mirrors: &SourceSet) -> Vec<usize> {
    (0..mirrors.sources.len())
        .filter(|source| mirrors.is_living(*source))
        .collect()
}

#[test]
fn each_is_tried_alone_once_in_their_order() {
    let mut mirrors = begun(3, true, VERIFIED);
    round(&mut mirrors, 0, &[0, 2]);
    for source in [0, 1, 2] {
        assert_eq!(mirrors.on_wrong_whole(source, false, "wrong"), Some(source));
        assert_eq!(living(&mirrors), [source]);
        assert_eq!(mirrors.first(SECOND), Some((source, Duration::ZERO)));
        round(&mut mirrors, source, &[source]);
        // The only one that lives: its failures are for the course.
        assert_eq!(
            trouble(&mut mirrors, source, TRANSPORT, SECOND),
            SourceRecovery::Course
        );
    }
    assert_eq!(mirrors.on_wrong_whole(2, false, "wrong"), None);
    let dropped: Vec<_> = mirrors.dropped().collect();
    assert_eq!(dropped, [(0, "wrong"), (1, "wrong"), (2, "wrong")]);
}

#[test]
fn one_that_brought_everything_was_tried_and_what_an_earlier_run_left_is_nobodys() {
    let mut mirrors = begun(2, true, VERIFIED);
    round(&mut mirrors, 0, &[0]);
    assert_eq!(mirrors.on_wrong_whole(0, true, "wrong"), Some(0));
    // In one answer, which is counted by nobody.
    assert_eq!(mirrors.on_wrong_whole(0, false, "wrong"), Some(1));
    assert_eq!(mirrors.on_wrong_whole(1, false, "wrong"), None);
}

#[test]
fn nobody_is_tried_that_was_found_or_failed_or_where_pieces_are_right() {
    let mut mirrors = begun(2, true, VERIFIED);
    assert_eq!(mirrors.add(false), 2);
    mirrors.drop_source(1, "answered 404");
    round(&mut mirrors, 0, &[0, 2]);
    assert_eq!(mirrors.on_wrong_whole(0, false, "wrong"), Some(0));
    assert!(!mirrors.is_living(mirrors.sources.len() - 1));
    assert_eq!(mirrors.add(false), 3);
    assert!(
        !mirrors.is_living(3),
        "it is found while one is tried alone"
    );
    assert_eq!(mirrors.on_wrong_whole(0, false, "wrong"), None);

    let pieces = IntegrityEvidence {
        pieces: true,
        ..VERIFIED
    };
    assert_eq!(
        begun(2, true, pieces).on_wrong_whole(0, false, "wrong"),
        None
    );
    assert_eq!(
        begun(1, true, VERIFIED).on_wrong_whole(0, true, "wrong"),
        None
    );
}

#[test]
fn one_whose_date_and_tag_differ_waits_until_it_is_needed() {
    let dated = |day: u8, tag| ResourceVersion {
        last_modified: Some(format!("Sun, {day:02} Nov 1994 08:49:37 GMT")),
        ..version(10, Some(tag))
    };
    let begin = |evidence| {
        let mut mirrors = begun(2, true, evidence);
        let mine = dated(6, "\"v\"");
        let found = SourceContent {
            version: &mine,
            digests: &digest(1),
        };
        mirrors.begin(0, &found, evidence);
        mirrors
    };
    let mut mirrors = begin(VERIFIED);
    let other = dated(13, "\"w\"");
    assert_eq!(
        admit(&mut mirrors, &other, &[]),
        Err(SourceMismatch::Version)
    );
    mirrors.drop_source(1, "unlike the first");
    assert_eq!((living(&mirrors), mirrors.dropped().count()), (vec![0], 0));
    // The first fails: it is the other's turn.
    mirrors.drop_source(0, "gone");
    assert_eq!((mirrors.recall(), mirrors.recall()), (Some(1), None));
    assert_eq!(living(&mirrors), [1]);

    let pieces = IntegrityEvidence {
        pieces: true,
        ..VERIFIED
    };
    for (evidence, version, digests) in [
        (pieces, &other, vec![]),
        (VERIFIED, &other, digest(1)),
        (VERIFIED, &dated(6, "\"w\""), vec![]),
        (VERIFIED, &dated(13, "\"v\""), vec![]),
        (VERIFIED, &dated(13, "W/\"w\""), vec![]),
    ] {
        assert_eq!(admit(&mut begin(evidence), version, &digests), Ok(()));
    }
}

#[test]
fn two_breaks_are_enough_and_no_answer_is_a_break() {
    let busy = RequestFailure::Busy { retry_after: None };
    assert!(!breaks_enough(TRANSPORT, 1) && breaks_enough(TRANSPORT, 2));
    assert!(breaks_enough(RequestFailure::Garbled, 2) && !breaks_enough(busy, 9));
}

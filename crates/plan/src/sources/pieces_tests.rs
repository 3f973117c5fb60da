//! A piece whose digest is wrong: who is dropped for it, and who brings it again.

use super::tests::*;
use super::*;

#[test]
fn who_brought_all_of_a_bad_piece_is_dropped_and_of_several_one_brings_it_again() {
    let mut mirrors = begun(3, true, VERIFIED);
    assert_eq!(
        mirrors.on_bad_piece(&[0, 1], 1, SECOND),
        PieceRetry::FromOne(2)
    );
    assert_eq!(mirrors.on_bad_piece(&[2], 2, SECOND), PieceRetry::FromAny);
    assert!(!mirrors.is_living(2));
    assert_eq!(
        mirrors.on_bad_piece(&[0, 1], 3, SECOND),
        PieceRetry::FromOne(0)
    );
    assert_eq!(mirrors.on_bad_piece(&[0], 4, SECOND), PieceRetry::FromAny);
    assert!(mirrors.is_last(1));
    assert_eq!(mirrors.on_bad_piece(&[1], 5, SECOND), PieceRetry::FromAny);
    assert!(mirrors.is_last(1));
    assert_eq!(mirrors.on_bad_piece(&[1], 6, SECOND), PieceRetry::GiveUp);
    // Bytes that an earlier run left are nobody's fault.
    assert_eq!(
        begun(2, true, VERIFIED).on_bad_piece(&[], 1, SECOND),
        PieceRetry::FromAny
    );
}

#[test]
fn a_bad_piece_is_never_left_to_one_that_is_not_asked() {
    // More than are used at a time: the last ones are asked nothing.
    let mut mirrors = begun(20, true, VERIFIED);
    admit(&mut mirrors, &version(10, Some("\"w\"")), &[]).unwrap();
    assert_eq!(
        mirrors.on_bad_piece(&[0, 1], 1, SECOND),
        PieceRetry::FromOne(2)
    );
    // Nor to one that was told to wait for minutes.
    let busy = RequestFailure::Busy {
        retry_after: Some(60 * SECOND),
    };
    trouble(&mut mirrors, 2, busy, SECOND);
    assert_eq!(
        mirrors.on_bad_piece(&[0, 1], 2, SECOND),
        PieceRetry::FromOne(3)
    );
}

#[test]
fn a_bad_piece_is_brought_again_by_one_that_the_user_named() {
    let mut mirrors = begun(1, true, VERIFIED);
    mirrors.add(false);
    mirrors.add(false);
    assert_eq!(
        mirrors.on_bad_piece(&[0, 1], 1, SECOND),
        PieceRetry::FromOne(0)
    );
}

//! Who is asked, believed and dropped; what that does to a download is in `tests/it/mirrors.rs`.

use proptest::prelude::*;

use super::*;
use crate::checksum::DigestAlgorithm;
use crate::response_digests::ExpectedDigest;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn version(length: u64, etag: Option<&str>) -> ResourceVersion {
    ResourceVersion {
        length: Some(length),
        etag: etag.map(|tag| tag.parse().unwrap()),
        ..ResourceVersion::default()
    }
}

pub(super) fn digest(byte: u8) -> Vec<ExpectedDigest> {
    vec![ExpectedDigest {
        algorithm: DigestAlgorithm::Md5,
        digest: vec![byte; 16],
        field: "Digest",
    }]
}

/// So many sources, the first of which has begun with a file of ten bytes.
pub(super) fn begun(count: usize, named: bool, evidence: IntegrityEvidence) -> SourceSet {
    let mut mirrors = SourceSet::new(SourceSetOptions::default());
    for _ in 0..count {
        mirrors.add(named);
    }
    let (version, digests) = (version(10, Some("\"v\"")), digest(1));
    let found = SourceContent {
        version: &version,
        digests: &digests,
    };
    mirrors.begin(0, &found, evidence);
    mirrors
}

pub(super) fn admit(
    mirrors: &mut SourceSet,
    version: &ResourceVersion,
    digests: &[ExpectedDigest],
) -> Result<(), SourceMismatch> {
    mirrors.admit(1, &SourceContent { version, digests })
}

pub(super) fn trouble(
    mirrors: &mut SourceSet,
    source: usize,
    trouble: RequestFailure,
    now: Duration,
) -> SourceRecovery {
    let place = SourceFailure {
        source,
        now,
        flowing: mirrors.sources[source.min(3)].connections,
        redirected: false,
        why: "it failed",
        jitter: 1.0,
    };
    mirrors.on_trouble(trouble, &place)
}

pub(super) const TRANSPORT: RequestFailure = RequestFailure::Transport {
    transient: true,
    answered: false,
};

pub(super) const VERIFIED: IntegrityEvidence = IntegrityEvidence {
    verified: true,
    pieces: false,
    told: false,
};

#[test]
fn a_source_of_another_size_is_never_believed() {
    for evidence in [IntegrityEvidence::default(), VERIFIED] {
        let mut mirrors = begun(2, true, evidence);
        let wrong = admit(&mut mirrors, &version(11, Some("\"v\"")), &[]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "it has 11 bytes where the others have 10"
        );
        assert_eq!(mirrors.pinned(1), None);
    }
}

#[test]
fn something_has_to_tell_that_it_is_the_same() {
    let (same, other) = (version(10, Some("\"v\"")), version(10, Some("\"w\"")));
    let weak = version(10, Some("W/\"v\""));
    let of = |named, evidence, version: &ResourceVersion, digests: &[ExpectedDigest]| {
        admit(&mut begun(2, named, evidence), version, digests)
    };
    let nothing = IntegrityEvidence::default();
    assert_eq!(of(false, nothing, &same, &[]), Ok(()));
    assert_eq!(of(false, nothing, &other, &digest(1)), Ok(()));
    assert_eq!(of(false, VERIFIED, &other, &[]), Ok(()));
    assert_eq!(
        of(true, nothing, &other, &[]),
        Err(SourceMismatch::Unproven)
    );
    assert_eq!(
        of(false, nothing, &other, &[]),
        Err(SourceMismatch::Unproven)
    );
    assert_eq!(
        of(false, nothing, &weak, &[]),
        Err(SourceMismatch::Unproven)
    );
    // One that says itself that it is another file is one, whoever vouches for it.
    assert_eq!(
        of(true, VERIFIED, &same, &digest(2)),
        Err(SourceMismatch::Digest(DigestAlgorithm::Md5))
    );
    // Without validators a change under way would show nowhere.
    let bare = version(10, None);
    assert_eq!(of(true, nothing, &bare, &[]), Err(SourceMismatch::Unpinned));
    assert_eq!(of(true, VERIFIED, &bare, &[]), Ok(()));
    let told = IntegrityEvidence {
        told: true,
        ..nothing
    };
    assert_eq!(of(true, told, &bare, &digest(1)), Ok(()));
    assert_eq!(of(true, told, &bare, &[]), Err(SourceMismatch::Unproven));
}

#[test]
fn each_is_pinned_to_its_own_version_until_a_new_beginning() {
    let mut mirrors = begun(2, true, IntegrityEvidence::default());
    let (first, own) = (version(10, Some("\"v\"")), version(10, Some("\"w\"")));
    admit(&mut mirrors, &own, &digest(1)).unwrap();
    assert_eq!(mirrors.pinned(0), Some(&first));
    assert_eq!(mirrors.pinned(1), Some(&own));
    let found = SourceContent {
        version: &own,
        digests: &[],
    };
    mirrors.begin(1, &found, IntegrityEvidence::default());
    assert_eq!(mirrors.pinned(0), None);
    assert_eq!(mirrors.pinned(1), Some(&own));
}

#[test]
fn what_will_not_heal_drops_at_once_and_what_may_after_three() {
    let final_ones = [
        RequestFailure::Denied { status: 404 },
        RequestFailure::Unauthorized,
        RequestFailure::Changed,
        RequestFailure::PastEnd,
        RequestFailure::Transport {
            transient: false,
            answered: false,
        },
    ];
    for what in final_ones {
        let mut mirrors = begun(2, true, VERIFIED);
        assert_eq!(
            trouble(&mut mirrors, 1, what, SECOND),
            SourceRecovery::Dropped,
            "{what:?}"
        );
        assert_eq!(mirrors.dropped().collect::<Vec<_>>(), [(1, "it failed")]);
    }
    let passing = [
        TRANSPORT,
        RequestFailure::Garbled,
        RequestFailure::RangeIgnored,
        RequestFailure::Refused,
        RequestFailure::Busy { retry_after: None },
    ];
    for what in passing {
        let mut mirrors = begun(2, true, VERIFIED);
        let waits: Vec<SourceRecovery> = (0..3)
            .map(|_| trouble(&mut mirrors, 1, what, SECOND))
            .collect();
        let ms = Duration::from_millis;
        assert_eq!(
            waits[..2],
            [
                SourceRecovery::Rests(ms(250)),
                SourceRecovery::Rests(ms(500))
            ]
        );
        assert_eq!(waits[2], SourceRecovery::Dropped, "{what:?}");
    }
}

/// Two that answered, and then a network that is down for both.
#[test]
fn what_all_suffer_from_is_nobodys_fault_for_a_while() {
    let mut mirrors = begun(3, true, VERIFIED);
    admit(&mut mirrors, &version(10, None), &[]).unwrap();
    let mut fates = Vec::new();
    for round in 0..9 {
        for source in [0, 1] {
            fates.push(trouble(&mut mirrors, source, TRANSPORT, SECOND * round));
        }
    }
    assert!(
        fates
            .iter()
            .all(|fate| matches!(fate, SourceRecovery::Rests(_))),
        "{fates:?}"
    );
    // One that never answered is not worth waiting for.
    let never = (0..3).map(|_| trouble(&mut mirrors, 2, TRANSPORT, SECOND * 9));
    assert_eq!(never.last(), Some(SourceRecovery::Dropped));
    // The network is back for one: what the other does is its own again.
    mirrors.on_bytes(0, 1 << 20);
    assert_eq!(
        trouble(&mut mirrors, 1, TRANSPORT, SECOND * 9),
        SourceRecovery::Dropped
    );
}

#[test]
fn the_last_one_is_for_the_course() {
    let mut mirrors = begun(2, true, VERIFIED);
    trouble(&mut mirrors, 0, RequestFailure::Changed, SECOND);
    assert!(mirrors.is_last(1) && !mirrors.is_living(0));
    for what in [
        TRANSPORT,
        RequestFailure::Changed,
        RequestFailure::Denied { status: 404 },
    ] {
        assert_eq!(
            trouble(&mut mirrors, 1, what, SECOND),
            SourceRecovery::Course
        );
    }
    // What comes late of one that was dropped changes nothing.
    assert_eq!(
        trouble(&mut mirrors, 0, TRANSPORT, SECOND),
        SourceRecovery::Dropped
    );
    assert!(mirrors.is_last(1));
}

#[test]
fn bytes_redeem_and_a_trickle_does_not() {
    let mut mirrors = begun(2, true, VERIFIED);
    for _ in 0..20 {
        assert_ne!(
            trouble(&mut mirrors, 1, TRANSPORT, SECOND),
            SourceRecovery::Dropped
        );
        mirrors.on_bytes(1, 256 << 10);
    }
    let trickled = (0..3).map(|_| {
        mirrors.on_bytes(1, 1000);
        trouble(&mut mirrors, 1, TRANSPORT, SECOND)
    });
    assert_eq!(trickled.last(), Some(SourceRecovery::Dropped));
}

#[test]
fn a_refused_connection_beside_others_is_a_limit_that_time_lifts() {
    let busy = RequestFailure::Busy {
        retry_after: Some(SECOND * 5),
    };
    for what in [TRANSPORT, RequestFailure::Denied { status: 403 }, busy] {
        let mut mirrors = begun(2, true, VERIFIED);
        mirrors.opens(0);
        mirrors.opens(0);
        assert_eq!(
            trouble(&mut mirrors, 0, what, SECOND),
            SourceRecovery::Fewer,
            "{what:?}"
        );
        assert_eq!(mirrors.order(SECOND * 7), [1]);
        mirrors.closes(0);
        let rests = what == busy;
        assert_eq!(mirrors.order(SECOND * 2).contains(&0), !rests);
        mirrors.opens(0);
        assert_eq!(mirrors.order(SECOND * 40), [1, 0]);
    }
}

#[test]
fn a_redirect_that_expired_is_followed_again_once() {
    let mut mirrors = begun(2, true, VERIFIED);
    let place = SourceFailure {
        source: 1,
        now: SECOND,
        flowing: 0,
        redirected: true,
        why: "it failed",
        jitter: 0.0,
    };
    let denied = RequestFailure::Denied { status: 403 };
    assert_eq!(
        mirrors.on_trouble(denied, &place),
        SourceRecovery::ResolveAgain
    );
    mirrors.on_bytes(1, 1 << 20);
    assert_eq!(
        mirrors.on_trouble(denied, &place),
        SourceRecovery::ResolveAgain
    );
    assert_eq!(mirrors.on_trouble(denied, &place), SourceRecovery::Dropped);
}

#[test]
fn the_users_word_is_believed_with_an_equal_date_and_never_with_a_length_alone() {
    let dated = |tag, day: Option<u8>| ResourceVersion {
        last_modified: day.map(|day| format!("Sun, {day:02} Nov 1994 08:49:37 GMT")),
        ..version(10, Some(tag))
    };
    for (evidence, digests) in [
        (IntegrityEvidence::default(), vec![]),
        (IntegrityEvidence::default(), digest(1)),
        (VERIFIED, vec![]),
    ] {
        let proven = evidence.verified || !digests.is_empty();
        let begin = |mine: Option<u8>, theirs: Option<u8>| {
            let mut mirrors = begun(2, true, evidence);
            let (mine, known) = (dated("\"v\"", mine), digest(1));
            let found = SourceContent {
                version: &mine,
                digests: &known,
            };
            mirrors.begin(0, &found, evidence);
            admit(&mut mirrors, &dated("\"w\"", theirs), &digests)
        };
        let unless_proven = |mismatch| if proven { Ok(()) } else { Err(mismatch) };
        let other = match evidence.verified {
            true => Err(SourceMismatch::Version),
            false => unless_proven(SourceMismatch::Date),
        };
        assert_eq!(begin(Some(6), Some(13)), other);
        assert_eq!(begin(Some(6), Some(6)), Ok(()));
        assert_eq!(
            begin(Some(6), None),
            unless_proven(SourceMismatch::Unproven)
        );
        assert_eq!(begin(None, None), unless_proven(SourceMismatch::Unproven));
    }
}

proptest! {
    /// Whoever rests or was dropped: some source that is asked, at once unless all rest, may bring a bad piece again.
    #[test]
    fn after_a_bad_piece_somebody_may_bring_it(
        count in 1usize..24, rests in prop::collection::vec((0usize..24, 0u64..200), 0..24),
        dropped in prop::collection::vec(0usize..24, 0..23), by in prop::collection::btree_set(0usize..24, 0..5),
        known in prop::collection::vec(0usize..24, 0..24),
    ) {
        let mut mirrors = begun(count, true, VERIFIED);
        for (source, seconds) in rests.into_iter().filter(|(source, _)| *source < count) {
            mirrors.sources[source].rests = SECOND * u32::try_from(seconds).unwrap();
        }
        for source in known.into_iter().filter(|source| *source < count) {
            mirrors.sources[source].pinned = Some(version(10, None));
        }
        for source in dropped.into_iter().take(count - 1) {
            mirrors.drop_source(source, "gone");
        }
        let by: Vec<usize> = by.into_iter().filter(|source| *source < count).collect();
        let now = 100 * SECOND;
        let again = mirrors.on_bad_piece(&by, 1, now);
        let open = mirrors.order(now);
        // When nobody rests any more, all in play are.
        let later = mirrors.order(1000 * SECOND);
        match again {
            PieceRetry::FromOne(one) => {
                prop_assert!(later.contains(&one));
                prop_assert!(open.is_empty() || open.contains(&one));
            }
            PieceRetry::FromAny => prop_assert!(!later.is_empty() || mirrors.living() == 0),
            PieceRetry::GiveUp => prop_assert!(false, "too soon"),
        }
    }
}

#[derive(Debug, Clone)]
enum SourceSetStep {
    Opens(usize),
    Closes(usize),
    Bytes(usize, u64),
    Trouble(usize, RequestFailure),
    Bad(Vec<usize>, u32),
    Sample,
}

fn step() -> impl Strategy<Value = SourceSetStep> {
    let source = 0usize..5;
    let trouble = prop::sample::select(vec![
        TRANSPORT,
        RequestFailure::Garbled,
        RequestFailure::Refused,
        RequestFailure::Changed,
        RequestFailure::IfRangeMisread,
        RequestFailure::Denied { status: 403 },
        RequestFailure::Busy {
            retry_after: Some(Duration::MAX),
        },
    ]);
    prop_oneof![
        source.clone().prop_map(SourceSetStep::Opens),
        source.clone().prop_map(SourceSetStep::Closes),
        (source.clone(), 0u64..1 << 20).prop_map(|(s, b)| SourceSetStep::Bytes(s, b)),
        (source.clone(), trouble).prop_map(|(s, t)| SourceSetStep::Trouble(s, t)),
        (prop::collection::vec(source, 0..3), 0u32..9).prop_map(|(s, t)| SourceSetStep::Bad(s, t)),
        Just(SourceSetStep::Sample),
    ]
}

proptest! {
    /// Whatever happens in whatever order: one always lives, and none that was dropped is named again for anything.
    #[test]
    fn one_always_lives_and_the_dropped_stay_dropped(steps in prop::collection::vec(step(), 0..120)) {
        let mut mirrors = begun(4, true, VERIFIED);
        let (mut now, mut gone) = (Duration::ZERO, Vec::new());
        for step in steps {
            now += Duration::from_millis(50);
            match step {
                SourceSetStep::Opens(source) => mirrors.opens(source),
                SourceSetStep::Closes(source) => mirrors.closes(source),
                SourceSetStep::Bytes(source, bytes) => mirrors.on_bytes(source, bytes),
                SourceSetStep::Trouble(source, what) => {
                    let was_last = mirrors.is_last(source);
                    let fate = trouble(&mut mirrors, source, what, now);
                    prop_assert_eq!(fate == SourceRecovery::Course, was_last);
                    prop_assert!(fate != SourceRecovery::Dropped || !mirrors.is_living(source));
                }
                SourceSetStep::Bad(by, times) => {
                    if let PieceRetry::FromOne(source) = mirrors.on_bad_piece(&by, times, now) {
                        prop_assert!(mirrors.is_living(source));
                    }
                }
                SourceSetStep::Sample => mirrors.on_sample(now),
            }
            let dropped: Vec<usize> = mirrors.dropped().map(|(source, _)| source).collect();
            prop_assert!(gone.iter().all(|source| dropped.contains(source)));
            gone = dropped;
            prop_assert!(mirrors.living() >= 1);
            prop_assert!(mirrors.first(now).is_some());
            prop_assert!(mirrors.order(now).iter().all(|source| mirrors.is_living(*source)));
            prop_assert!(gone.iter().all(|source| !mirrors.stays(*source, now)));
        }
    }
}

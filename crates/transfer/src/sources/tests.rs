//! Which sources are believed, and which one gets the next connection.

use haul_plan::{DigestAlgorithm, ExpectedDigest};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const VERIFIED: IntegrityEvidence = IntegrityEvidence {
    verified: true,
    piece_digests: false,
    user_allows_joining: false,
};

fn version(length: u64, etag: Option<&str>) -> ResourceVersion {
    ResourceVersion {
        length: Some(length),
        etag: etag.map(|tag| tag.parse().unwrap()),
        ..ResourceVersion::default()
    }
}

fn digest(byte: u8) -> Vec<ExpectedDigest> {
    vec![ExpectedDigest {
        algorithm: DigestAlgorithm::Md5,
        digest: vec![byte; 16],
        field: "Digest",
    }]
}

/// This number of sources. The first one has begun to send a file of ten bytes.
fn begun(count: usize, user_named: bool, evidence: IntegrityEvidence) -> SourceSet {
    let mut sources = SourceSet::default();
    for _ in 0..count {
        sources.add(user_named);
    }
    let (version, digests) = (version(10, Some("\"v\"")), digest(1));
    let content = SourceContent {
        version: &version,
        digests: &digests,
    };
    sources.begin(0, &content, evidence);
    sources
}

fn admit(
    sources: &mut SourceSet,
    version: &ResourceVersion,
    digests: &[ExpectedDigest],
) -> Result<(), SourceMismatch> {
    sources.admit(1, &SourceContent { version, digests })
}

#[test]
fn a_source_of_another_size_is_never_believed() {
    for evidence in [IntegrityEvidence::default(), VERIFIED] {
        let mut sources = begun(2, true, evidence);
        let wrong = admit(&mut sources, &version(11, Some("\"v\"")), &[]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "it has 11 bytes where the others have 10"
        );
        assert_eq!(sources.pinned_version(1), None);
    }
}

#[test]
fn something_must_show_that_a_source_has_the_same_file() {
    let (same, other) = (version(10, Some("\"v\"")), version(10, Some("\"w\"")));
    let weak = version(10, Some("W/\"v\""));
    let admitted = |named, evidence, version: &ResourceVersion, digests: &[ExpectedDigest]| {
        admit(&mut begun(2, named, evidence), version, digests)
    };
    let nothing = IntegrityEvidence::default();
    assert_eq!(admitted(false, nothing, &same, &[]), Ok(()));
    assert_eq!(admitted(false, nothing, &other, &digest(1)), Ok(()));
    assert_eq!(admitted(false, VERIFIED, &other, &[]), Ok(()));
    for (named, version) in [(true, &other), (false, &other), (false, &weak)] {
        assert_eq!(
            admitted(named, nothing, version, &[]),
            Err(SourceMismatch::Unproven)
        );
    }
    // A source that itself announces another file has one, whatever else agrees with it.
    assert_eq!(
        admitted(true, VERIFIED, &same, &digest(2)),
        Err(SourceMismatch::Digest(DigestAlgorithm::Md5))
    );
    // Without validators a change in the middle of the download would show nowhere.
    let bare = version(10, None);
    assert_eq!(
        admitted(true, nothing, &bare, &[]),
        Err(SourceMismatch::NoValidator)
    );
    assert_eq!(admitted(true, VERIFIED, &bare, &[]), Ok(()));
    let allowed = IntegrityEvidence {
        user_allows_joining: true,
        ..nothing
    };
    assert_eq!(admitted(true, allowed, &bare, &digest(1)), Ok(()));
    assert_eq!(
        admitted(true, allowed, &bare, &[]),
        Err(SourceMismatch::Unproven)
    );
}

#[test]
fn each_source_is_pinned_to_its_own_version_until_a_new_beginning() {
    let mut sources = begun(2, true, IntegrityEvidence::default());
    let (first, own) = (version(10, Some("\"v\"")), version(10, Some("\"w\"")));
    admit(&mut sources, &own, &digest(1)).unwrap();
    assert_eq!(sources.pinned_version(0), Some(&first));
    assert_eq!(sources.pinned_version(1), Some(&own));
    let content = SourceContent {
        version: &own,
        digests: &[],
    };
    sources.begin(1, &content, IntegrityEvidence::default());
    assert_eq!(sources.pinned_version(0), None);
    assert_eq!(sources.pinned_version(1), Some(&own));
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
        let begin = |first: Option<u8>, second: Option<u8>| {
            let mut sources = begun(2, true, evidence);
            let (first, known) = (dated("\"v\"", first), digest(1));
            let content = SourceContent {
                version: &first,
                digests: &known,
            };
            sources.begin(0, &content, evidence);
            admit(&mut sources, &dated("\"w\"", second), &digests)
        };
        let unless_proven = |mismatch| if proven { Ok(()) } else { Err(mismatch) };
        let other = if evidence.verified {
            Err(SourceMismatch::Version)
        } else {
            unless_proven(SourceMismatch::Date)
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

/// Three sources that all answered, with rates and connections.
fn measured(rates: [u64; 3], connections: [usize; 3]) -> SourceSet {
    let mut sources = begun(3, true, VERIFIED);
    for (source, count) in connections.into_iter().enumerate() {
        if source > 0 {
            let version = version(10, Some("\"w\""));
            let content = SourceContent {
                version: &version,
                digests: &[],
            };
            sources.admit(source, &content).unwrap();
        }
        (0..count).for_each(|_| sources.connection_opened(source));
    }
    for (source, rate) in rates.into_iter().enumerate() {
        sources.on_bytes(source, rate);
    }
    sources.on_sample(SECOND);
    sources
}

#[test]
fn each_source_has_one_connection_before_any_has_two_and_then_the_fastest_gets_more() {
    let sources = measured([100, 900, 0], [1, 1, 0]);
    assert_eq!(sources.candidates(SECOND), [2, 1, 0]);
    let sources = measured([100, 900, 100], [1, 8, 2]);
    assert_eq!(sources.candidates(SECOND), [1, 0, 2]);
    // A source that has not answered yet gets no second connection.
    let mut fresh = begun(2, true, VERIFIED);
    fresh.connection_opened(1);
    fresh.connection_opened(0);
    assert_eq!(fresh.candidates(SECOND), [0]);
}

#[test]
fn a_connection_moves_to_where_it_would_bring_twice_as_much() {
    let sources = measured([100, 900, 1], [2, 2, 1]);
    assert!(!sources.should_stay(0, SECOND) && sources.should_stay(1, SECOND));
    let even = measured([300, 400, 1], [2, 2, 1]);
    assert!(even.should_stay(0, SECOND) && even.should_stay(1, SECOND));
    // The only one of a source stays: it shows when a slow source becomes fast.
    assert!(measured([1, 900, 0], [1, 2, 0]).should_stay(0, SECOND));
    // Where a source has none at all, the slowest gives up one of several.
    let rested = measured([300, 400, 0], [2, 2, 0]);
    assert!(!rested.should_stay(0, SECOND) && rested.should_stay(1, SECOND));
    let mut dropped = measured([900, 1, 0], [2, 2, 0]);
    dropped.drop_source(0, "gone");
    assert!(!dropped.should_stay(0, SECOND));
}

#[test]
fn the_slowest_source_releases_a_connection_but_none_is_left_without() {
    let sources = measured([100, 900, 50], [2, 2, 1]);
    let release = |sources: &SourceSet| [0, 1, 2].map(|source| sources.should_release(source));
    assert_eq!(release(&sources), [true, false, false]);
    let sources = measured([100, 900, 50], [1, 1, 1]);
    assert_eq!(release(&sources), [false, false, true]);
}

#[test]
fn further_sources_replace_those_that_are_dropped() {
    let mut sources = begun(20, true, VERIFIED);
    assert_eq!(sources.active_count(), 16);
    assert_eq!(sources.candidates(SECOND), (0..16).collect::<Vec<_>>());
    sources.drop_source(3, "gone");
    assert_eq!(sources.candidates(SECOND).last(), Some(&16));
}

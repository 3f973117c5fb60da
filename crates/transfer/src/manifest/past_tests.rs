//! What a later run takes from a manifest: which jobs are done, and where in which archive.

use super::fixtures::{append, row, rows};
use super::tests::BOTH;
use super::*;
use crate::archive::ShardEntryLocation;
use crate::error::ErrorClass;

pub(super) fn jobs_done(past: &PreviousRuns, jobs: u64) -> Vec<u64> {
    let done = |n: &u64| past.is_done(&format!("http://h.test/{n}"), Some(&format!("d/{n}")));
    (0..jobs).filter(done).collect()
}

#[test]
fn c6_done_rows_are_not_asked_for_again_and_failed_ones_are() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        // Interrupted at half: of ten jobs every third failed, and five have no row.
        let first: Vec<ManifestRow> = (0..5).map(|n| row(n, n % 3 != 0)).collect();
        let past = append(&path, &first);
        assert_eq!((past.done_count(), past.failed_count()), (0, 0));
        drop(past);
        let again: Vec<ManifestRow> = [0, 5, 6, 7, 8, 9].map(|n| row(n, true)).to_vec();
        let past = append(&path, &again);
        assert_eq!(jobs_done(&past, 10), [1, 2, 4]);
        assert_eq!((past.done_count(), past.failed_count()), (3, 2));
        drop(past);
        let (_, past) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&past, 10), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert!(past.warnings().is_empty(), "{:?}", past.warnings());
        // Both halves of what a job is known by.
        assert!(!past.is_done("http://h.test/1", Some("d/2")));
        assert!(!past.is_done("http://h.test/1", None));
    }
}

#[test]
fn c6_the_last_row_of_a_job_rules_and_skips_are_passed_over() {
    let skipped = |n, status| ManifestRow {
        state: RowState::Skipped,
        status,
        etag: Some("\"of the 304\"".into()),
        ..row(n, true)
    };
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let written = [
            row(0, true),
            row(0, false),
            row(1, true),
            skipped(1, None),
            row(2, false),
            skipped(2, Some(200)),
            row(3, true),
            skipped(3, Some(304)),
            skipped(4, Some(304)),
            skipped(5, None),
        ];
        drop(append(&path, &written));
        let (_manifest, past) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&past, 6), [1, 3, 4]);
        let etag = |n: u64| {
            past.done_row(&format!("http://h.test/{n}"), Some(&format!("d/{n}")))?
                .etag
        };
        assert_eq!(etag(0), None, "what failed is fetched whole");
        assert_eq!(etag(1).as_deref(), Some("\"v1\""));
        assert_eq!(etag(3).as_deref(), Some("\"of the 304\""));
        assert_eq!(etag(9), None);
    }
}

/// A row of a file that is in an archive.
fn placed(n: u64, shard: &str, end: u64) -> ManifestRow {
    ManifestRow {
        shard: Some(ShardEntryLocation {
            shard: shard.into(),
            offset: end - 512,
            end,
        }),
        ..row(n, true)
    }
}

#[test]
fn shards_are_remembered_with_the_end_of_their_last_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.csv");
    let failed = ManifestRow {
        state: RowState::Failed,
        ..placed(3, "t-000001.tar", 9999)
    };
    drop(append(
        &path,
        &[
            placed(0, "t-000000.tar", 1024),
            placed(1, "t-000000.tar", 2048),
            placed(2, "t-000001.tar", 512),
            failed,
        ],
    ));
    let (_manifest, past) = Manifest::open(&path).unwrap();
    let shards: Vec<(&str, u64)> = past.shard_ends().collect();
    assert_eq!(shards, [("t-000000.tar", 2048), ("t-000001.tar", 512)]);
}

#[test]
fn rows_of_lines_that_named_no_job_are_read_back_and_are_no_jobs() {
    let bad = ManifestRow {
        url: String::new(),
        path: None,
        status: None,
        bytes: 0,
        error: Some(RowError {
            class: ErrorClass::Usage,
            text: "line 2: no URL".into(),
        }),
        ..row(1, false)
    };
    let mut skipped = bad.clone();
    skipped.state = RowState::Skipped;
    let mut done = bad.clone();
    done.state = RowState::Done;
    for name in ["m.jsonl", "m.csv"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        // One may be all that a run came to.
        drop(append(&path, std::slice::from_ref(&bad)));
        drop(append(&path, &[row(0, true), skipped.clone()]));
        assert_eq!(rows(&path), [bad.clone(), row(0, true), skipped.clone()]);
        let (_manifest, past) = Manifest::open(&path).unwrap();
        assert_eq!((past.done_count(), past.failed_count()), (1, 0));
        assert_eq!(past.warnings(), []);
        drop((_manifest, past));
        // What nobody writes: a job that was done and is none.
        drop(append(&path, std::slice::from_ref(&done)));
        let (_manifest, past) = Manifest::open(&path).unwrap();
        assert!(matches!(
            past.warnings(),
            [ManifestWarning::Damaged { count: 1, .. }]
        ));
    }
}

#[test]
fn what_was_handed_to_a_reader_is_not_done_for_a_later_run() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let rows = [
            placed(0, "-", 512),
            placed(1, "-", 1024),
            placed(2, "t.tar", 512),
            // Fetched again, into a file.
            row(1, true),
        ];
        drop(append(&path, &rows));
        let (_manifest, mut past) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&past, 3), [1, 2]);
        assert_eq!(past.shard_ends().collect::<Vec<_>>(), [("t.tar", 512)]);
        assert_eq!(
            past.warnings(),
            [ManifestWarning::StreamedRows { count: 2 }]
        );
        past.forget_all();
        assert_eq!(
            (jobs_done(&past, 3), past.shard_ends().count()),
            (vec![], 0)
        );
    }
}

#[test]
fn a_manifest_is_of_files_or_of_an_archive() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let kind = |n: u64, row: ManifestRow| {
            let path = dir.path().join(format!("{n}{name}"));
            drop(append(&path, &[row]));
            let (manifest, past) = Manifest::open(&path).unwrap();
            [false, true].map(|archive| manifest.check_destination(&past, archive).is_ok())
        };
        assert_eq!(kind(0, row(0, true)), [true, false]);
        assert_eq!(kind(1, placed(0, "t.tar", 512)), [false, true]);
        // What a reader got, and what nobody did, is in neither.
        assert_eq!(kind(2, placed(0, "-", 512)), [true, true]);
        assert_eq!(kind(3, row(0, false)), [true, true]);
    }
}

#[test]
fn whose_job_was_the_last_to_be_done_under_a_path_is_known() {
    let under = |n: u64, done| ManifestRow {
        path: Some("d/f".into()),
        ..row(n, done)
    };
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let rows = [under(0, true), under(1, true), under(2, false)];
        drop(append(&path, &rows));
        let (_manifest, past) = Manifest::open(&path).unwrap();
        let other = |n: u64| past.other_url_done_at(&format!("http://h.test/{n}"), "d/f");
        for n in [0, 2, 3] {
            assert_eq!(other(n).as_deref(), Some("http://h.test/1"));
        }
        assert_eq!(other(1), None);
        assert_eq!(past.other_url_done_at("http://h.test/0", "d/g"), None);
    }
}

//! What a later run takes from a manifest: which jobs are done, and where in an archive their files are.

use super::BOTH;
use super::fixtures::{append, row, rows};
use crate::archive::ShardEntryLocation;
use crate::error::ErrorClass;
use crate::manifest::*;

pub(super) fn jobs_done(previous_runs: &PreviousRuns, jobs: u64) -> Vec<u64> {
    let done =
        |n: &u64| previous_runs.is_done(&format!("http://h.test/{n}"), Some(&format!("d/{n}")));
    (0..jobs).filter(done).collect()
}

#[test]
fn c6_done_jobs_are_skipped_and_failed_jobs_run_again() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        // A run that was interrupted half way: every third of the first five jobs failed, and five jobs have no row.
        let first: Vec<ManifestRow> = (0..5).map(|n| row(n, n % 3 != 0)).collect();
        let previous_runs = append(&path, &first);
        assert_eq!(previous_runs.done_count(), 0);
        drop(previous_runs);
        let again: Vec<ManifestRow> = [0, 5, 6, 7, 8, 9].map(|n| row(n, true)).to_vec();
        let previous_runs = append(&path, &again);
        assert_eq!(jobs_done(&previous_runs, 10), [1, 2, 4]);
        assert_eq!(previous_runs.done_count(), 3);
        drop(previous_runs);
        let (_, previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&previous_runs, 10), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert!(
            previous_runs.warnings().is_empty(),
            "{:?}",
            previous_runs.warnings()
        );
        // A job's key has both a URL and a path.
        assert!(!previous_runs.is_done("http://h.test/1", Some("d/2")));
        assert!(!previous_runs.is_done("http://h.test/1", None));
    }
}

#[test]
fn c6_the_last_row_of_a_job_counts_unless_it_was_skipped() {
    let skipped = |n, status| ManifestRow {
        state: JobRowState::Skipped,
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
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&previous_runs, 6), [1, 3, 4]);
        let etag = |n: u64| {
            previous_runs
                .done_row(&format!("http://h.test/{n}"), Some(&format!("d/{n}")))?
                .etag
        };
        assert_eq!(etag(0), None, "a failed file is fetched completely");
        assert_eq!(etag(1).as_deref(), Some("\"v1\""));
        assert_eq!(etag(3).as_deref(), Some("\"of the 304\""));
        assert_eq!(etag(9), None);
    }
}

/// A row of a file that is in an archive.
fn archived_row(n: u64, shard: &str, end: u64) -> ManifestRow {
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
fn the_last_end_of_each_shard_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.csv");
    let failed = ManifestRow {
        state: JobRowState::Failed,
        ..archived_row(3, "t-000001.tar", 9999)
    };
    drop(append(
        &path,
        &[
            archived_row(0, "t-000000.tar", 1024),
            archived_row(1, "t-000000.tar", 2048),
            archived_row(2, "t-000001.tar", 512),
            failed,
        ],
    ));
    let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
    let shards: Vec<(&str, u64)> = previous_runs.shard_ends().collect();
    assert_eq!(shards, [("t-000000.tar", 2048), ("t-000001.tar", 512)]);
}

#[test]
fn rows_of_unreadable_lines_are_not_jobs() {
    let bad = ManifestRow {
        url: String::new(),
        path: None,
        status: None,
        bytes: 0,
        error: Some(ManifestRowError::new(
            ErrorClass::Usage,
            "line 2: no URL".into(),
        )),
        ..row(1, false)
    };
    let mut skipped = bad.clone();
    skipped.state = JobRowState::Skipped;
    let mut done = bad.clone();
    done.state = JobRowState::Done;
    for name in ["m.jsonl", "m.csv"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        // Such a row may be the only one of a run.
        drop(append(&path, std::slice::from_ref(&bad)));
        drop(append(&path, &[row(0, true), skipped.clone()]));
        assert_eq!(rows(&path), [bad.clone(), row(0, true), skipped.clone()]);
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(previous_runs.done_count(), 1);
        assert_eq!(previous_runs.warnings(), []);
        drop((_manifest, previous_runs));
        // A row that haul never writes: done, but without a URL.
        drop(append(&path, std::slice::from_ref(&done)));
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        assert!(matches!(
            previous_runs.warnings(),
            [ManifestWarning::Damaged { count: 1, .. }]
        ));
    }
}

#[test]
fn streamed_files_are_not_done_for_a_later_run() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let rows = [
            archived_row(0, "-", 512),
            archived_row(1, "-", 1024),
            archived_row(2, "t.tar", 512),
            // Fetched again, into a file.
            row(1, true),
        ];
        drop(append(&path, &rows));
        let (_manifest, mut previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&previous_runs, 3), [1, 2]);
        assert_eq!(
            previous_runs.shard_ends().collect::<Vec<_>>(),
            [("t.tar", 512)]
        );
        assert_eq!(
            previous_runs.warnings(),
            [ManifestWarning::StreamedRows { count: 2 }]
        );
        previous_runs.forget_all();
        assert_eq!(
            (
                jobs_done(&previous_runs, 3),
                previous_runs.shard_ends().count()
            ),
            (vec![], 0)
        );
    }
}

#[test]
fn a_manifest_describes_files_or_an_archive() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let kind = |n: u64, row: ManifestRow| {
            let path = dir.path().join(format!("{n}{name}"));
            drop(append(&path, &[row]));
            let (manifest, previous_runs) = Manifest::open(&path).unwrap();
            [false, true].map(|archive| manifest.check_destination(&previous_runs, archive).is_ok())
        };
        assert_eq!(kind(0, row(0, true)), [true, false]);
        assert_eq!(kind(1, archived_row(0, "t.tar", 512)), [false, true]);
        // Rows of a stream and of failed jobs fit both.
        assert_eq!(kind(2, archived_row(0, "-", 512)), [true, true]);
        assert_eq!(kind(3, row(0, false)), [true, true]);
    }
}

#[test]
fn the_last_url_done_under_a_path_is_known() {
    let under = |n: u64, done| ManifestRow {
        path: Some("d/f".into()),
        ..row(n, done)
    };
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let rows = [under(0, true), under(1, true), under(2, false)];
        drop(append(&path, &rows));
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        let other = |n: u64| previous_runs.other_url_done_at(&format!("http://h.test/{n}"), "d/f");
        for n in [0, 2, 3] {
            assert_eq!(other(n).as_deref(), Some("http://h.test/1"));
        }
        assert_eq!(other(1), None);
        assert_eq!(
            previous_runs.other_url_done_at("http://h.test/0", "d/g"),
            None
        );
    }
}

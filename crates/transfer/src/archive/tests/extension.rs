//! Finished archives that are reopened for more entries. Wherever a run is killed, the next run continues, and an
//! archive that the manifest does not know is left alone.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use super::{TestEntry, append, entry, open, options, read, shards_in};
use crate::archive::*;

/// A directory with a finished archive of a few entries.
struct FinishedArchive {
    dir: tempfile::TempDir,
    /// The archive's final name.
    path: PathBuf,
    /// Its temporary name.
    temporary: PathBuf,
    entries: Vec<TestEntry>,
    /// End of the last entry.
    end: u64,
}

impl FinishedArchive {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, temporary) = (dir.path().join("t.tar"), dir.path().join("t.tar.haul-part"));
        let entries = vec![entry(0, 700), entry(1, 0), entry(2, 512)];
        let mut shards = open(&path, None);
        let mut end = 0;
        for entry in &entries {
            end = append(&mut shards, entry).unwrap().end;
        }
        shards.finish().unwrap();
        Self {
            dir,
            path,
            temporary,
            entries,
            end,
        }
    }

    fn open(&self, end: u64) -> Result<ShardWriter, ArchiveError> {
        ShardWriter::open(options(&self.path, None), [("t.tar", end)])
    }

    /// Plays the next run: opens the archive at `end`, the offset that the manifest's rows give, appends an entry and
    /// finishes.
    fn append_in_next_run(&self, end: u64, more: &TestEntry) {
        let mut shards = self.open(end).unwrap();
        assert_eq!(append(&mut shards, more).unwrap().offset, end);
        shards.finish().unwrap();
    }

    fn metadata(&self) -> Metadata {
        self.path.symlink_metadata().unwrap()
    }
}

fn cut(path: &Path, length: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

/// A second run up to the point where it is killed. Returns the end that the manifest's rows give afterwards, and
/// whether one of those rows is that of the new entry.
type SecondRun = fn(&FinishedArchive, &TestEntry) -> (u64, bool);

/// One kill after each step: reopening, appending, syncing, recording, writing the end, renaming.
const KILLS: [(&str, SecondRun); 9] = [
    ("opened", |at, _| {
        drop(at.open(at.end).unwrap());
        (at.end, false)
    }),
    ("renamed", |at, _| {
        std::fs::rename(&at.path, &at.temporary).unwrap();
        (at.end, false)
    }),
    ("renamed and partly cut", |at, _| {
        std::fs::rename(&at.path, &at.temporary).unwrap();
        cut(&at.temporary, at.end + 512);
        (at.end, false)
    }),
    ("cut", |at, _| {
        std::fs::rename(&at.path, &at.temporary).unwrap();
        cut(&at.temporary, at.end);
        (at.end, false)
    }),
    ("torn", |at, more| {
        append(&mut at.open(at.end).unwrap(), more).unwrap();
        assert!(!at.path.exists(), "a growing archive has no final name");
        cut(&at.temporary, at.end + 600);
        (at.end, false)
    }),
    ("synced", |at, more| {
        let mut shards = at.open(at.end).unwrap();
        append(&mut shards, more).unwrap();
        shards.sync().unwrap();
        (at.end, false)
    }),
    ("recorded", |at, more| {
        let mut shards = at.open(at.end).unwrap();
        let end = append(&mut shards, more).unwrap().end;
        shards.sync().unwrap();
        (end, true)
    }),
    ("ended", |at, more| {
        let mut shards = at.open(at.end).unwrap();
        let end = append(&mut shards, more).unwrap().end;
        shards.sync().unwrap();
        drop(shards);
        cut(&at.temporary, end + 1024);
        (end, true)
    }),
    ("finished", |at, more| {
        let mut shards = at.open(at.end).unwrap();
        let end = append(&mut shards, more).unwrap().end;
        shards.finish().unwrap();
        (end, true)
    }),
];

#[test]
fn c6_a_finished_archive_can_be_extended_wherever_a_run_is_killed() {
    for (killed, second) in KILLS {
        let at = FinishedArchive::new();
        let (more, last) = (entry(3, 1300), entry(4, 99));
        let (end, recorded) = second(&at, &more);
        let mut expected = at.entries.clone();
        if !recorded {
            // No row records the new entry, so its job runs again and appends it once more.
            at.append_in_next_run(end, &more);
            let end = std::fs::metadata(&at.path).unwrap().len() - 1024;
            at.append_in_next_run(end, &last);
        } else {
            at.append_in_next_run(end, &last);
        }
        expected.extend([more, last]);
        let found = shards_in(at.dir.path());
        assert_eq!(read(&found["t.tar"]), expected, "{killed}");
    }
}

#[test]
fn c6_a_run_without_new_entries_leaves_a_finished_archive_alone() {
    let at = FinishedArchive::new();
    let (before, bytes) = (at.metadata(), std::fs::read(&at.path).unwrap());
    for _ in 0..2 {
        let mut shards = at.open(at.end).unwrap();
        shards.sync().unwrap();
        shards.publish_full().unwrap();
        shards.finish().unwrap();
        let after = at.metadata();
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        assert_eq!(shards_in(at.dir.path())["t.tar"], bytes);
    }
}

#[test]
fn an_empty_archive_can_be_extended() {
    for (size, name) in [(None, "a.tar"), (Some(4096), "a-000000.tar")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        for _ in 0..2 {
            open(&path, size).finish().unwrap();
            assert_eq!(shards_in(dir.path())[name], [0; 1024]);
        }
        let mut shards = open(&path, size);
        append(&mut shards, &entry(0, 5)).unwrap();
        shards.finish().unwrap();
        assert_eq!(read(&shards_in(dir.path())[name]), [entry(0, 5)]);
    }
}

#[test]
fn b6_an_archive_that_ends_elsewhere_than_the_rows_say_is_not_changed() {
    let at = FinishedArchive::new();
    let exists = |end| matches!(at.open(end), Err(ArchiveError::Exists { .. }));
    assert!(exists(at.end - 512) && exists(at.end + 512) && exists(u64::MAX));
    assert!(matches!(
        ShardWriter::open(options(&at.path, None), []),
        Err(ArchiveError::Exists { .. })
    ));
    let whole = std::fs::read(&at.path).unwrap();
    let mut other = whole.clone();
    *other.last_mut().unwrap() = 1;
    std::fs::write(&at.path, &other).unwrap();
    assert!(exists(at.end), "the last kilobyte is not an archive's end");
    assert_eq!(shards_in(at.dir.path())["t.tar"], other);
    std::fs::write(at.dir.path().join("1024"), [1; 1024]).unwrap();
    assert!(matches!(
        ShardWriter::open(options(&at.dir.path().join("1024"), None), []),
        Err(ArchiveError::Exists { .. })
    ));
}

#[cfg(unix)]
#[test]
fn b6_a_link_to_an_archive_is_not_changed() {
    let at = FinishedArchive::new();
    let elsewhere = at.dir.path().join("elsewhere.tar");
    std::fs::rename(&at.path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &at.path).unwrap();
    assert!(matches!(at.open(at.end), Err(ArchiveError::Exists { .. })));
}

#[test]
fn b5_a_file_beside_a_finished_archive_is_not_overwritten() {
    let at = FinishedArchive::new();
    std::fs::write(&at.temporary, "theirs").unwrap();
    let mut shards = at.open(at.end).unwrap();
    for _ in 0..2 {
        assert!(matches!(
            append(&mut shards, &entry(3, 5)),
            Err(ArchiveError::InTheWay { .. })
        ));
    }
    shards.finish().unwrap();
    assert_eq!(std::fs::read(&at.temporary).unwrap(), b"theirs");
    assert_eq!(read(&std::fs::read(&at.path).unwrap()), at.entries);
}

#[test]
fn rows_of_another_archive_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    for (size, shard) in [
        (None, "a.tar"),
        (None, "t-000000.tar"),
        (Some(4096), "t.tar"),
        (Some(4096), "a-000000.tar"),
    ] {
        let opened = ShardWriter::open(options(&path, size), [(shard, 1024)]);
        assert!(
            matches!(&opened, Err(ArchiveError::OtherArchive { shard: other, .. }) if other == shard),
            "{opened:?}"
        );
    }
    assert_eq!(shards_in(dir.path()).len(), 0, "no shard was created");
}

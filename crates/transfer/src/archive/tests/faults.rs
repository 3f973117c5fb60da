//! Rows B1, B2, B4 and C6 for archives: kills, full disks, files that vanish. The archive that results is complete and
//! holds each entry once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::{TestEntry, append, entry, open, options, read, shards_in};
use crate::archive::*;
use crate::disk::faulty_disk::FaultyDisk;

/// The bytes of an unfinished shard with all these entries, as an interrupted run leaves it, and the end of each entry.
fn interrupted(path: &Path, entries: &[TestEntry]) -> (Vec<u8>, Vec<u64>) {
    let mut shards = open(path, None);
    let ends = entries
        .iter()
        .map(|entry| append(&mut shards, entry).unwrap().end)
        .collect();
    shards.sync().unwrap();
    drop(shards);
    let temporary = path.with_extension("tar.haul-part");
    let bytes = std::fs::read(&temporary).unwrap();
    std::fs::remove_file(temporary).unwrap();
    (bytes, ends)
}

#[test]
fn c6_a_shard_cut_anywhere_behind_the_last_row_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, temporary) = (dir.path().join("t.tar"), dir.path().join("t.tar.haul-part"));
    let long = ("n".repeat(120), b"x".to_vec());
    let entries = [entry(0, 5), entry(1, 0), entry(2, 600), long, entry(4, 512)];
    let (bytes, ends) = interrupted(&path, &entries);
    for known in 0..=entries.len() {
        let end = known.checked_sub(1).map_or(0, |last| ends[last]);
        let from = usize::try_from(end).unwrap();
        // Every byte would be thousands of syncs: this takes those around each block's end, and some between.
        let cuts = (from..=bytes.len()).filter(|cut| (cut + 1) % 512 <= 2 || cut % 101 == 0);
        for cut in cuts {
            std::fs::write(&temporary, &bytes[..cut]).unwrap();
            let durable = (known > 0).then_some(("t.tar", end));
            let mut shards = match ShardWriter::open(options(&path, None), durable) {
                Ok(shards) => shards,
                // Fewer bytes than a header are not recognized as an archive.
                Err(ArchiveError::InTheWay { .. }) if known == 0 && cut < 512 => {
                    std::fs::remove_file(&temporary).unwrap();
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            for entry in &entries[known..] {
                append(&mut shards, entry).unwrap();
            }
            shards.finish().unwrap();
            assert_eq!(
                read(&std::fs::read(&path).unwrap()),
                entries,
                "{known} known, cut at {cut}"
            );
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn b3_a_shard_that_lost_recorded_entries_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, temporary) = (dir.path().join("t.tar"), dir.path().join("t.tar.haul-part"));
    let (bytes, ends) = interrupted(&path, &[entry(0, 5), entry(1, 5)]);
    let missing = |durable: (&str, u64), size| {
        let error = ShardWriter::open(options(&path, size), [durable]).unwrap_err();
        let ArchiveError::MissingEntries { claimed, found, .. } = error else {
            panic!("{error}")
        };
        (claimed, found)
    };
    assert_eq!(missing(("t.tar", ends[1]), None), (2048, 0));
    std::fs::write(&temporary, &bytes[..2047]).unwrap();
    assert_eq!(missing(("t.tar", ends[1]), None), (2048, 2047));
    assert_eq!(
        std::fs::metadata(&temporary).unwrap().len(),
        2047,
        "the rest may still be of use"
    );
    std::fs::rename(&temporary, dir.path().join("t-000000.tar.haul-part")).unwrap();
    assert_eq!(missing(("t-000000.tar", ends[1]), Some(9999)), (2048, 2047));
}

#[test]
fn c6_finished_shards_are_not_changed_and_numbers_continue() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let mut shards = open(&path, Some(3000));
    for n in 0..3 {
        append(&mut shards, &entry(n, 1024)).unwrap();
    }
    shards.finish().unwrap();
    let before = shards_in(dir.path());
    // A pipeline took one of them away.
    std::fs::remove_file(dir.path().join("t-000000.tar")).unwrap();
    let names: Vec<&str> = before.keys().map(String::as_str).collect();
    for (exists, next) in [(true, "t-000003.tar"), (false, "t-000004.tar")] {
        let durable = names
            .iter()
            .map(|name| (*name, 1536))
            .chain((!exists).then_some(("t-000003.tar", 1536)));
        let mut shards = ShardWriter::open(options(&path, Some(3000)), durable).unwrap();
        assert_eq!(append(&mut shards, &entry(3, 1024)).unwrap().shard, next);
        shards.finish().unwrap();
        std::fs::remove_file(dir.path().join(next)).unwrap();
    }
    // Without new entries no shard is created.
    let shards = ShardWriter::open(
        options(&path, Some(3000)),
        names.iter().map(|name| (*name, 1536)),
    )
    .unwrap();
    shards.finish().unwrap();
    let mut after = shards_in(dir.path());
    after.insert("t-000000.tar".into(), before["t-000000.tar"].clone());
    assert_eq!(after, before);
    // A finished archive that ends elsewhere is not extended.
    std::fs::write(&path, "whole").unwrap();
    assert!(matches!(
        ShardWriter::open(options(&path, None), [("t.tar", 5)]),
        Err(ArchiveError::Exists { .. })
    ));
}

#[test]
fn an_entry_whose_content_fails_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let mut shards = open(&path, None);
    append(&mut shards, &entry(0, 700)).unwrap();
    for given in [0, 5, 300_000] {
        let bytes = vec![7; given];
        let short = ShardEntryContent::Reader {
            reader: &mut &bytes[..],
            length: given as u64 + 1,
        };
        let error = shards.append(Path::new("short"), short, 0).unwrap_err();
        let ArchiveError::Content(source) = error else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
    assert!(
        shards
            .append(Path::new("../x"), ShardEntryContent::Pieces(&[]), 0)
            .is_err()
    );
    append(&mut shards, &entry(1, 700)).unwrap();
    shards.finish().unwrap();
    assert_eq!(
        read(&std::fs::read(&path).unwrap()),
        [entry(0, 700), entry(1, 700)]
    );
}

#[test]
fn b4_an_entry_that_did_not_fit_on_the_disk_can_be_appended_again() {
    for cuts in [true, false] {
        for room in (0..6000).step_by(250) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("t.tar");
            let disk = FaultyDisk::with_capacity(room);
            let mut shards = ShardWriter::open(
                ArchiveOptions {
                    wrapping: disk.wrapping(),
                    ..options(&path, None)
                },
                [],
            )
            .unwrap();
            disk.can_shrink.store(cuts, Ordering::SeqCst);
            let entries: Vec<TestEntry> = [1500, 3, 0, 700]
                .into_iter()
                .enumerate()
                .map(|(n, length)| entry(n, length))
                .collect();
            for entry in &entries {
                if let Err(error) = append(&mut shards, entry) {
                    let ArchiveError::Local { source, .. } = error else {
                        panic!("{error}")
                    };
                    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
                    // A smaller entry may still fit; after that the disk has capacity again.
                    disk.capacity.store(u64::MAX, Ordering::SeqCst);
                    append(&mut shards, entry).unwrap();
                }
            }
            disk.capacity.store(u64::MAX, Ordering::SeqCst);
            disk.can_shrink.store(true, Ordering::SeqCst);
            shards.finish().unwrap();
            assert_eq!(read(&std::fs::read(&path).unwrap()), entries);
        }
    }
}

#[test]
fn b2_a_sync_covers_all_entries_and_a_failed_sync_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(u64::MAX);
    let wrapping = disk.wrapping();
    let mut shards = ShardWriter::open(
        ArchiveOptions {
            wrapping,
            ..options(&dir.path().join("t.tar"), Some(3000))
        },
        [],
    )
    .unwrap();
    shards.sync().unwrap();
    disk.calls();
    for n in 0..3 {
        append(&mut shards, &entry(n, 1024)).unwrap();
    }
    // Three entries, and the ends of two full shards.
    assert_eq!(disk.calls(), "wwwww");
    shards.sync().unwrap();
    assert_eq!(disk.calls(), "sss");
    shards.sync().unwrap();
    assert_eq!(disk.calls(), "", "nothing was appended");
    append(&mut shards, &entry(3, 0)).unwrap();
    disk.sync_fails.store(true, Ordering::SeqCst);
    assert!(shards.sync().is_err());
    disk.sync_fails.store(false, Ordering::SeqCst);
    assert!(shards.sync().is_err());
    assert!(shards.finish().is_err());
    assert!(!dir.path().join("t-000002.tar").exists());
}

/// The point where a run ends.
#[derive(Debug, Clone, Copy)]
enum CrashPoint {
    /// Entries were appended but not synced; part of them may be on the disk.
    Appended,
    /// Entries are on the disk but have no rows.
    Synced,
    /// Rows are written, but full shards still have their temporary names.
    Recorded,
    /// Everything is in order.
    Settled,
}

/// A run: the number of entries of each group, and where in the last group the run ends.
fn any_run() -> impl Strategy<Value = (Vec<usize>, CrashPoint, prop::sample::Index)> {
    let crash = prop::sample::select(
        &[
            CrashPoint::Appended,
            CrashPoint::Synced,
            CrashPoint::Recorded,
            CrashPoint::Settled,
        ][..],
    );
    (
        prop::collection::vec(1usize..5, 1..3),
        crash,
        any::<prop::sample::Index>(),
    )
}

/// The entries that rows record, by number, with their location.
type DurableEntries = BTreeMap<usize, ShardEntryLocation>;

/// One run over the entries without a row, up to its crash.
fn run(
    path: &Path,
    size: u64,
    entries: &[TestEntry],
    rows: &mut DurableEntries,
    run: &(Vec<usize>, CrashPoint, prop::sample::Index),
) {
    let (groups, crash, cut) = run;
    let known: Vec<(String, u64)> = rows
        .values()
        .map(|placed| (placed.shard.clone(), placed.end))
        .collect();
    let durable = known.iter().map(|(shard, end)| (&**shard, *end));
    let mut shards = ShardWriter::open(options(path, Some(size)), durable).unwrap();
    let missing: Vec<usize> = (0..entries.len())
        .filter(|n| !rows.contains_key(n))
        .collect();
    let mut missing = &missing[..];
    for (at, group) in groups.iter().enumerate() {
        let (now, later) = missing.split_at(missing.len().min(*group));
        missing = later;
        let placed: Vec<_> = now
            .iter()
            .map(|n| (*n, append(&mut shards, &entries[*n]).unwrap()))
            .collect();
        let last = at + 1 == groups.len();
        if last && matches!(crash, CrashPoint::Appended) {
            drop(shards);
            return cut_newest_shard(path, rows, placed.last(), *cut);
        }
        shards.sync().unwrap();
        if last && matches!(crash, CrashPoint::Synced) {
            return;
        }
        rows.extend(placed);
        if last && matches!(crash, CrashPoint::Recorded) {
            return;
        }
        shards.publish_full().unwrap();
    }
}

/// Cuts the newest shard somewhere behind its durable end, as a power cut does.
fn cut_newest_shard(
    path: &Path,
    rows: &DurableEntries,
    last: Option<&(usize, ShardEntryLocation)>,
    cut: prop::sample::Index,
) {
    let Some((_, placed)) = last else { return };
    let ends = rows
        .values()
        .filter(|row| row.shard == placed.shard)
        .map(|row| row.end);
    let durable = ends.max().unwrap_or(0);
    let temporary = path.with_file_name(format!("{}.haul-part", placed.shard));
    let file = std::fs::File::options()
        .write(true)
        .open(temporary)
        .unwrap();
    let behind = usize::try_from(file.metadata().unwrap().len() - durable).unwrap();
    // A new shard keeps at least its first block or nothing: less is not recognized as an archive.
    let mut keep = cut.index(behind + 1) as u64;
    if durable == 0 && keep < 512 {
        keep = 0;
    }
    file.set_len(durable + keep).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn c6_after_any_interruptions_each_entry_is_there_once(
        lengths in prop::collection::vec(0usize..1500, 1..16),
        size in 1u64..6000,
        runs in prop::collection::vec(any_run(), 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.tar");
        let entries: Vec<TestEntry> = lengths.iter().enumerate().map(|(n, length)| entry(n, *length)).collect();
        let mut rows = DurableEntries::new();
        for each in &runs {
            run(&path, size, &entries, &mut rows, each);
        }
        let known: Vec<(String, u64)> = rows.values().map(|placed| (placed.shard.clone(), placed.end)).collect();
        let mut shards = ShardWriter::open(options(&path, Some(size)), known.iter().map(|(shard, end)| (&**shard, *end))).unwrap();
        for (n, entry) in entries.iter().enumerate() {
            if let std::collections::btree_map::Entry::Vacant(row) = rows.entry(n) {
                row.insert(append(&mut shards, entry).unwrap());
            }
        }
        shards.finish().unwrap();
        let found = shards_in(dir.path());
        let all: Vec<TestEntry> = found.values().flat_map(|bytes| read(bytes)).collect();
        prop_assert_eq!(all, entries.clone());
        for (n, placed) in rows {
            let within = usize::try_from(placed.offset).unwrap()..usize::try_from(placed.end).unwrap();
            let alone = [&found[&placed.shard][within], &[0; 1024]].concat();
            prop_assert_eq!(&read(&alone)[..], std::slice::from_ref(&entries[n]));
        }
    }
}

#[test]
fn the_storage_layer_is_under_every_shard() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(u64::MAX);
    let wrapping = Arc::clone(&disk).wrapping();
    let mut shards = ShardWriter::open(
        ArchiveOptions {
            wrapping,
            ..options(&dir.path().join("t.tar"), Some(1))
        },
        [],
    )
    .unwrap();
    append(&mut shards, &entry(0, 0)).unwrap();
    append(&mut shards, &entry(1, 0)).unwrap();
    assert_eq!(disk.calls(), "www");
}

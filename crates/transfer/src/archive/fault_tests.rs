//! Rows B1, B2, B4 and C6 for archives: kills, full disks, files that vanish. What results is whole, with each entry once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::tests::{TestEntry, append, entry, open, options, read, shards_in};
use super::*;
use crate::disk::faulty_disk::FaultyDisk;

/// The shard that all these entries are in, as an interrupted run left it, and where each ends.
fn interrupted(path: &Path, entries: &[TestEntry]) -> (Vec<u8>, Vec<u64>) {
    let mut shards = open(path, None);
    let ends = entries
        .iter()
        .map(|entry| append(&mut shards, entry).unwrap().end)
        .collect();
    shards.sync().unwrap();
    drop(shards);
    let part = path.with_extension("tar.haul-part");
    let bytes = std::fs::read(&part).unwrap();
    std::fs::remove_file(part).unwrap();
    (bytes, ends)
}

#[test]
fn c6_a_part_cut_anywhere_behind_the_last_row_goes_on_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (path, part) = (dir.path().join("t.tar"), dir.path().join("t.tar.haul-part"));
    let long = ("n".repeat(120), b"x".to_vec());
    let entries = [entry(0, 5), entry(1, 0), entry(2, 600), long, entry(4, 512)];
    let (bytes, ends) = interrupted(&path, &entries);
    for known in 0..=entries.len() {
        let end = known.checked_sub(1).map_or(0, |last| ends[last]);
        let from = usize::try_from(end).unwrap();
        // Every byte would be thousands of syncs: those around each block's end, and some between.
        let cuts = (from..=bytes.len()).filter(|cut| (cut + 1) % 512 <= 2 || cut % 101 == 0);
        for cut in cuts {
            std::fs::write(&part, &bytes[..cut]).unwrap();
            let durable = (known > 0).then_some(("t.tar", end));
            let mut shards = match ShardWriter::open(options(&path, None), durable) {
                Ok(shards) => shards,
                // Too little is there to be known as an archive: not taken for one.
                Err(ArchiveError::InTheWay { .. }) if known == 0 && cut < 512 => {
                    std::fs::remove_file(&part).unwrap();
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
fn b3_a_part_that_lost_what_rows_speak_of_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, part) = (dir.path().join("t.tar"), dir.path().join("t.tar.haul-part"));
    let (bytes, ends) = interrupted(&path, &[entry(0, 5), entry(1, 5)]);
    let lost = |durable: (&str, u64), size| {
        let error = ShardWriter::open(options(&path, size), [durable]).unwrap_err();
        let ArchiveError::MissingEntries { claimed, found, .. } = error else {
            panic!("{error}")
        };
        (claimed, found)
    };
    assert_eq!(lost(("t.tar", ends[1]), None), (2048, 0));
    std::fs::write(&part, &bytes[..2047]).unwrap();
    assert_eq!(lost(("t.tar", ends[1]), None), (2048, 2047));
    assert_eq!(
        std::fs::metadata(&part).unwrap().len(),
        2047,
        "what is there may still be of use"
    );
    std::fs::rename(&part, dir.path().join("t-000000.tar.haul-part")).unwrap();
    assert_eq!(lost(("t-000000.tar", ends[1]), Some(9999)), (2048, 2047));
}

#[test]
fn c6_finished_shards_are_not_touched_and_the_numbers_go_on() {
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
    for (present, next) in [(true, "t-000003.tar"), (false, "t-000004.tar")] {
        let durable = names.iter().map(|name| (*name, 1536));
        let durable = durable.chain((!present).then_some(("t-000003.tar", 1536)));
        let mut shards = ShardWriter::open(options(&path, Some(3000)), durable).unwrap();
        assert_eq!(append(&mut shards, &entry(3, 1024)).unwrap().shard, next);
        shards.finish().unwrap();
        std::fs::remove_file(dir.path().join(next)).unwrap();
    }
    // Nothing more to do is nothing more to make.
    let shards = ShardWriter::open(
        options(&path, Some(3000)),
        names.iter().map(|name| (*name, 1536)),
    )
    .unwrap();
    shards.finish().unwrap();
    let mut after = shards_in(dir.path());
    after.insert("t-000000.tar".into(), before["t-000000.tar"].clone());
    assert_eq!(after, before);
    // One archive that is finished takes no more.
    std::fs::write(&path, "whole").unwrap();
    assert!(matches!(
        ShardWriter::open(options(&path, None), [("t.tar", 5)]),
        Err(ArchiveError::Exists { .. })
    ));
}

#[test]
fn contents_that_fail_leave_no_trace() {
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
fn b4_an_entry_that_finds_the_disk_full_can_be_appended_again() {
    for cuts in [true, false] {
        for room in (0..6000).step_by(250) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("t.tar");
            let disk = FaultyDisk::with_capacity(room);
            let mut shards = ShardWriter::open(
                ArchiveOptions {
                    layer: disk.layer(),
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
                    // A smaller one may have room yet; then the disk has.
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
fn b2_a_sync_covers_all_that_was_appended_and_one_that_failed_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(u64::MAX);
    let layer = disk.layer();
    let mut shards = ShardWriter::open(
        ArchiveOptions {
            layer,
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
    // Three entries, two ends of shards.
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

/// Where a run ends.
#[derive(Debug, Clone, Copy)]
enum CrashPoint {
    /// With entries that were not synced; part of them may be there.
    Appended,
    /// With entries that are there and have no rows.
    Synced,
    /// With rows, and full shards that have no names yet.
    Recorded,
    /// With everything in order.
    Settled,
}

/// A run: how many entries each group has, and where in the last of them it ends.
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

/// What rows say: each entry that is durable, and the shard and end of it.
type DurableEntries = BTreeMap<usize, ShardEntryLocation>;

/// One run over the entries that no row speaks of, up to its crash.
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
            return tear(path, rows, placed.last(), *cut);
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

/// Cuts the shard that was written last somewhere behind what is durable, as a power cut does.
fn tear(
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
    let part = path.with_file_name(format!("{}.haul-part", placed.shard));
    let file = std::fs::File::options().write(true).open(part).unwrap();
    let behind = usize::try_from(file.metadata().unwrap().len() - durable).unwrap();
    // A new one has its first block or nothing: less is not known as an archive.
    let mut keep = cut.index(behind + 1) as u64;
    if durable == 0 && keep < 512 {
        keep = 0;
    }
    file.set_len(durable + keep).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn c6_whatever_interrupts_runs_each_entry_is_there_once(
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
fn the_disk_that_tests_use_is_the_layer_of_every_shard() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(u64::MAX);
    let layer = Arc::clone(&disk).layer();
    let mut shards = ShardWriter::open(
        ArchiveOptions {
            layer,
            ..options(&dir.path().join("t.tar"), Some(1))
        },
        [],
    )
    .unwrap();
    append(&mut shards, &entry(0, 0)).unwrap();
    append(&mut shards, &entry(1, 0)).unwrap();
    assert_eq!(disk.calls(), "www");
}

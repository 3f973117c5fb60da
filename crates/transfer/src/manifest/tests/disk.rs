//! Rows B2 and B4: disks that are full, that lose what was written, and that fail for good.

use std::io;
use std::sync::atomic::Ordering;

use super::BOTH;
use super::fixtures::{append, row, rows};
use crate::disk::faulty_disk::FaultyDisk;
use crate::manifest::*;

#[test]
fn b4_on_a_full_disk_the_file_ends_with_a_complete_row_until_there_is_room() {
    for name in BOTH {
        for room in (0..2000).step_by(7) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            drop(append(&path, &[row(0, true)]));
            let before = std::fs::read(&path).unwrap();
            let disk = FaultyDisk::with_capacity(before.len() as u64 + room);
            let (mut manifest, previous_runs) =
                Manifest::open_with_layer(&path, &disk.wrapping()).unwrap();
            let more: Vec<ManifestRow> = (1..12).map(|n| row(n, true)).collect();
            manifest.append(&more).unwrap();
            let full = manifest.sync();
            if let Err(error) = full {
                let ManifestError::Local { source, .. } = error else {
                    panic!("{error}")
                };
                assert_eq!(source.kind(), io::ErrorKind::StorageFull);
                assert_eq!(std::fs::read(&path).unwrap(), before);
                disk.capacity.store(u64::MAX, Ordering::SeqCst);
                manifest.sync().unwrap();
            }
            drop((manifest, previous_runs));
            assert_eq!(rows(&path).len(), 12);
        }
    }
}

#[test]
fn b4_a_torn_row_that_cannot_be_cut_off_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.jsonl");
    let disk = FaultyDisk::with_capacity(300);
    let (mut manifest, previous_runs) = Manifest::open_with_layer(&path, &disk.wrapping()).unwrap();
    disk.can_shrink.store(false, Ordering::SeqCst);
    manifest.append(&[row(0, true), row(1, true)]).unwrap();
    assert!(manifest.sync().is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 300);
    disk.capacity.store(u64::MAX, Ordering::SeqCst);
    manifest.sync().unwrap();
    drop((manifest, previous_runs));
    assert_eq!(rows(&path), [row(0, true), row(1, true)]);
}

#[test]
fn b2_after_a_failed_sync_every_sync_fails() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(u64::MAX);
    let (mut manifest, _previous_runs) =
        Manifest::open_with_layer(&dir.path().join("m.csv"), &disk.wrapping()).unwrap();
    manifest.append(&[row(0, true)]).unwrap();
    manifest.sync().unwrap();
    assert_eq!(disk.calls(), "ws");
    disk.sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(
        manifest.sync(),
        Err(ManifestError::Local { action: "sync", .. })
    ));
    disk.sync_fails.store(false, Ordering::SeqCst);
    assert!(matches!(
        manifest.sync(),
        Err(ManifestError::EarlierSyncFailed { .. })
    ));
}

#[test]
fn the_buffer_does_not_grow_on_a_failing_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::with_capacity(0);
    let (mut manifest, _previous_runs) =
        Manifest::open_with_layer(&dir.path().join("m.csv"), &disk.wrapping()).unwrap();
    let some: Vec<ManifestRow> = (0..64).map(|n| row(n, true)).collect();
    let refused = (0..1000)
        .filter(|_| manifest.append(&some).is_err())
        .count();
    assert!(refused > 900);
    assert!(manifest.buffered_bytes() < 1 << 20);
}

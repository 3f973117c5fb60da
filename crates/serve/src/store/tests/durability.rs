//! What is acknowledged is durable, and a disk that fails is an error.

use std::os::unix::fs::MetadataExt as _;

use super::parts::{begin, complete, send};
use super::*;
use crate::store::flush::faulty_disk::failing_at;

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").ino()
}

/// Does something on a new store whose disk fails at its first flush, at its second, and so on, until it succeeds. Returns the inodes that the
/// successful run flushed.
fn run_until_it_succeeds<T: std::fmt::Debug>(
    durability: UploadDurability,
    run: impl Fn(&Arc<FileStore>) -> Result<T, StoreError>,
    check_failed: impl Fn(&Arc<FileStore>),
) -> (tempfile::TempDir, Vec<u64>) {
    for flush in 0..20 {
        let folder = tempfile::tempdir().expect("a directory");
        let store = store(folder.path(), |options| options.durability = durability);
        put(&store, "/old/f", "earlier").expect("put");
        let (result, flushed) = failing_at(flush, || run(&store));
        if result.is_ok() {
            assert_eq!(flushed.len(), flush, "a flush that failed was not noticed");
            return (folder, flushed);
        }
        assert!(
            matches!(result, Err(StoreError::Io(_))),
            "{result:?} at {flush}"
        );
        check_failed(&store);
    }
    panic!("no success");
}

#[test]
fn d5_an_upload_is_acknowledged_after_its_bytes_and_names_are_durable() {
    for durability in [UploadDurability::File, UploadDurability::Full] {
        let replaces = |store: &Arc<FileStore>| put(store, "/old/f", "new text");
        let is_whole = |store: &Arc<FileStore>| {
            let text = read(store, "/old/f").expect("a file");
            assert!(text == "earlier" || text == "new text", "{text}");
        };
        let (folder, flushed) = run_until_it_succeeds(durability, replaces, is_whole);
        let old = folder.path().join("old");
        assert!(flushed.contains(&inode(&old.join("f"))), "{durability:?}");
        let is_full = durability == UploadDurability::Full;
        assert_eq!(flushed.contains(&inode(&old)), is_full, "{durability:?}");
    }
}

#[test]
fn d5_an_upload_into_new_folders_is_acknowledged_after_their_names_are_durable() {
    let creates = |store: &Arc<FileStore>| put(store, "/a/b/f", "new text");
    let is_whole = |store: &Arc<FileStore>| {
        let text = read(store, "/a/b/f").ok();
        assert!(text.is_none_or(|text| text == "new text"));
    };
    let (folder, flushed) = run_until_it_succeeds(UploadDurability::Full, creates, is_whole);
    for name in ["a/b/f", "a/b", "a", ""] {
        let found = inode(&folder.path().join(name));
        assert!(flushed.contains(&found), "{name} is not durable");
    }
}

#[test]
fn d5_an_object_of_parts_is_acknowledged_after_its_bytes_and_names_are_durable() {
    for flush in 0..20 {
        let folder = tempfile::tempdir().expect("a directory");
        let full = |options: &mut FileStoreOptions| options.durability = UploadDurability::Full;
        let store = store(folder.path(), full);
        let upload = begin(&store);
        let part = send(&upload, 1, b"text");
        let (result, flushed) = failing_at(flush, || complete(&store, &upload, &[part]));
        if result.is_ok() {
            assert_eq!(flushed.len(), flush, "a flush that failed was not noticed");
            for name in ["b/k", "b", ""] {
                let found = inode(&folder.path().join(name));
                assert!(flushed.contains(&found), "{name} is not durable");
            }
            return;
        }
        let found = read(&store, "/b/k").ok();
        assert!(found.is_none_or(|text| text == "text"));
    }
    panic!("no success");
}

#[test]
fn d5_a_deletion_is_acknowledged_after_it_is_durable() {
    let deletes = |store: &Arc<FileStore>| {
        let path = ObjectKey::parse("/old/f").expect("a path");
        store.delete(&path, None)
    };
    let (folder, flushed) = run_until_it_succeeds(UploadDurability::Full, deletes, |_| {});
    assert!(flushed.contains(&inode(&folder.path().join("old"))));
}

#[test]
fn d5_without_durability_nothing_waits_for_the_disk() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let (result, flushed) = failing_at(0, || put(&store, "/f", "text"));
    assert!(result.is_ok() && flushed.is_empty(), "{result:?}");
}

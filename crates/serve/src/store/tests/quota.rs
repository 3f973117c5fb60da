//! The quota of a store, and how it learns of changes by others.

use std::os::unix::fs::MetadataExt as _;

use super::*;

fn with_quota(path: &Path, bytes: u64) -> Arc<FileStore> {
    store(path, |options| options.quota = Some(bytes))
}

#[test]
fn d6_a_replacement_needs_only_the_difference() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/f", "12345678").expect("it fits");
    put(&store, "/f", "abcdefgh").expect("in place of as many");
    put(&store, "/f", "1234567890").expect("two more");
    let more = put(&store, "/f", "12345678901");
    assert!(matches!(more, Err(StoreError::OverQuota { .. })));
    put(&store, "/f", "12").expect("less");
    put(&store, "/g", "12345678").expect("what that gave back");
    assert!(matches!(
        put(&store, "/h", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

#[test]
fn d6_only_one_of_two_uploads_counts_on_the_replaced_bytes() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/f", "12345678").expect("it fits");
    let first = upload(&store, "/f", "abcdefgh").expect("in its place");
    let second = upload(&store, "/f", "x".repeat(8).as_str()).map(drop);
    assert!(matches!(second, Err(StoreError::OverQuota { .. })));
    drop(first);
    let third = upload(&store, "/f", "ABCDEFGH").expect("nobody else does");
    third.commit(None).expect("committed");
    put(&store, "/g", "12").expect("the rest");
    assert!(matches!(
        put(&store, "/h", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

#[test]
fn d6_an_upload_whose_replaced_file_is_gone_needs_room_for_itself() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/f", "12345678").expect("it fits");
    let path = ObjectKey::parse("/f").expect("a key");
    let counting = upload(&store, "/f", "abcdefgh").expect("in its place");
    store.delete(&path, None).expect("deleted");
    put(&store, "/g", "123").expect("what that gave back");
    assert!(matches!(
        counting.commit(None),
        Err(StoreError::OverQuota { .. })
    ));
    assert!(matches!(read(&store, "/f"), Err(StoreError::NotFound)));
    put(&store, "/h", "1234567").expect("and nothing is lost");
    assert!(matches!(
        put(&store, "/i", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

#[test]
fn d6_deletions_by_other_programs_are_found_when_the_quota_is_full() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/a/f", "12345678").expect("it fits");
    fs::remove_file(folder.path().join("a/f")).expect("removed by another program");
    assert!(matches!(
        put(&store, "/g", "123"),
        Err(StoreError::OverQuota { .. })
    ));
    store.maintain();
    let started = upload(&store, "/g", "1234567890").expect("all of it is free");
    // An unfinished upload counts once.
    let full = |path| store.check_space(&key(path), 1);
    assert!(matches!(full("/i"), Err(StoreError::OverQuota { .. })));
    store.maintain();
    started.commit(None).expect("committed");
    assert!(full("/i").is_err() && full("/g").is_ok());
    store.maintain();
    assert!(matches!(
        put(&store, "/h", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

/// Bytes of parts that broke off stayed on the disk, and counted no more.
#[test]
fn d6_the_bytes_of_a_part_that_broke_off_are_given_back_to_the_disk_and_the_quota() {
    const SLOT: usize = 5 << 20;
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 8 << 20);
    let upload = parts::begin(&store);
    for number in 1..=5 {
        let mut part = upload.begin_part(number, SLOT as u64).expect("begun");
        part.write(&vec![1; SLOT - 1]).expect("it fits each time");
    }
    let data = folder.path().join(".haul/multipart");
    let upload_folder = fs::read_dir(&data).expect("the uploads").next();
    let data = upload_folder
        .expect("one")
        .expect("one")
        .path()
        .join("data");
    let blocks = fs::metadata(data).expect("the slots").blocks();
    assert!(blocks * 512 < 1 << 20, "{blocks} blocks");
}

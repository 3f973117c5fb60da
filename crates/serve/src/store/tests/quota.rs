//! The quota of a store, and how it learns of changes by others.

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

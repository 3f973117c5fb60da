//! What the store may hold, and who knows of it.

use super::*;

fn with_quota(path: &Path, bytes: u64) -> Arc<FileStore> {
    store(path, |options| options.quota = Some(bytes))
}

#[test]
fn d6_a_replacement_needs_only_what_it_has_more() {
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
fn d6_of_two_uploads_to_one_key_only_one_counts_on_what_is_there() {
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
fn d6_who_counted_on_what_went_meanwhile_must_find_room_anew() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/f", "12345678").expect("it fits");
    let named = ObjectKey::parse("/f").expect("a key");
    let counting = upload(&store, "/f", "abcdefgh").expect("in its place");
    store.delete(&named, None).expect("deleted");
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
fn d6_what_other_programs_remove_is_found_out_when_room_is_wanted() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = with_quota(folder.path(), 10);
    put(&store, "/a/f", "12345678").expect("it fits");
    fs::remove_file(folder.path().join("a/f")).expect("removed by another program");
    assert!(matches!(
        put(&store, "/g", "123"),
        Err(StoreError::OverQuota { .. })
    ));
    store.maintain();
    let begun = upload(&store, "/g", "1234567890").expect("all of it is free");
    // What is under way counts once.
    let full = |path| store.check_space(&key(path), 1);
    assert!(matches!(full("/i"), Err(StoreError::OverQuota { .. })));
    store.maintain();
    begun.commit(None).expect("committed");
    assert!(full("/i").is_err() && full("/g").is_ok());
    store.maintain();
    assert!(matches!(
        put(&store, "/h", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

//! Folders that uploads create, and that somebody removes meanwhile.

use super::*;

#[test]
fn d3_folders_created_for_a_failed_upload_are_removed() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    fs::create_dir(folder.path().join("there")).expect("a folder");
    let unfinished = upload(&store, "/there/x/y/f", "x").expect("begun");
    assert!(folder.path().join("there/x/y").is_dir());
    drop(unfinished);
    assert!(!folder.path().join("there/x").exists());
    assert!(folder.path().join("there").is_dir());
    // An upload that fails when it is complete.
    let present = |current: Option<&FileMetadata>| current.is_some();
    let failed = upload(&store, "/x/y/f", "x").expect("begun");
    assert!(failed.commit(Some(&present)).is_err());
    assert!(!folder.path().join("x").exists());
    // An upload whose folders cannot all be created.
    let long = format!("/x/y/{}/f", "n".repeat(255));
    fs::create_dir(folder.path().join("y")).expect("a folder");
    fs::write(folder.path().join("y/f"), "").expect("a file");
    assert!(store.begin_upload(&key(&long), Vec::new()).is_ok());
    assert!(store.begin_upload(&key("/y/f/g/h"), Vec::new()).is_err());
    assert!(!folder.path().join("x").exists());
    // Files that another program put there stay, with their parents.
    let unfinished = upload(&store, "/x/y/f", "x").expect("begun");
    fs::write(folder.path().join("x/g"), "").expect("a file");
    drop(unfinished);
    assert!(folder.path().join("x/g").exists() && !folder.path().join("x/y").exists());
    assert_eq!(temporary_names(folder.path()), ["lock"]);
}

#[test]
fn d3_an_upload_recreates_folders_that_were_removed() {
    for within in ["/dev/shm", "."] {
        let folder = tempfile::tempdir_in(within).expect("a directory");
        let store = store(folder.path(), |_| {});
        let first = upload(&store, "/x/y/f", "one").expect("begun");
        let second = upload(&store, "/x/y/g", "two").expect("begun");
        drop(first);
        assert!(!folder.path().join("x").exists());
        second.commit(None).expect("its folders are made again");
        assert_eq!(read(&store, "/x/y/g").expect("read"), "two");
        // The same without waiting.
        let CachedLookup::Ready(started) = store.try_begin_upload(&key("/z/f"), &[]) else {
            continue;
        };
        fs::remove_dir(folder.path().join("z")).expect("the folder");
        let started = started.expect("begun").try_commit();
        let done = started.unwrap_or_else(|upload| upload.commit(None));
        assert!(!done.expect("its folder is made again").replaced);
        assert!(folder.path().join("z/f").exists());
    }
}

#[test]
fn concurrent_uploads_in_one_folder_always_find_it() {
    for durability in [UploadDurability::None, UploadDurability::Full] {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let store = store(folder.path(), |options| options.durability = durability);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || come_and_go(store, &format!("/x/y/{thread}")));
            }
        });
        assert_eq!(temporary_names(folder.path()), ["lock"]);
    }
}

/// Uploads that fail, uploads that commit, and folders that are deleted as soon as they are empty.
fn come_and_go(store: &Arc<FileStore>, path: &str) {
    for round in 0..200 {
        let upload = upload(store, path, "x").expect("begun");
        if round % 2 == 0 {
            upload.commit(None).expect("committed");
            let delete = |path| store.delete(&ObjectKey::parse(path).expect("a key"), None);
            delete(path).expect("deleted");
            for folder in ["/x/y/", "/x/"] {
                let deleted = delete(folder);
                assert!(
                    matches!(
                        deleted,
                        Ok(()) | Err(StoreError::NotEmpty | StoreError::NotFound)
                    ),
                    "{deleted:?}"
                );
            }
        }
    }
}

#[test]
fn a_removed_temporary_folder_is_reported_and_created_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let started = upload(&store, "/f", "one").expect("begun");
    fs::remove_dir_all(folder.path().join(".haul")).expect("the room");
    let lost = started.commit(None).expect_err("its bytes are gone");
    assert!(!matches!(lost, StoreError::NotFound), "{lost}");
    assert!(lost.to_string().contains(".haul"), "{lost}");
    put(&store, "/f", "two").expect("the room is made again");
    assert_eq!(read(&store, "/f").expect("read"), "two");
    assert_eq!(temporary_names(folder.path()), ["lock"]);
}

#[test]
fn a_removed_root_is_reported() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("root");
    for path in ["/f", "/x/f"] {
        fs::create_dir(&root).expect("a folder");
        let store = store(&root, |_| {});
        let started = upload(&store, path, "one").expect("begun");
        fs::remove_dir_all(&root).expect("all of it");
        for error in [
            started.commit(None).map(drop).expect_err("gone"),
            put(&store, path, "two").map(drop).expect_err("gone"),
        ] {
            assert!(!matches!(error, StoreError::NotFound), "{path}: {error}");
            assert!(error.to_string().contains("removed"), "{path}: {error}");
        }
    }
}

#[test]
fn d2_an_upload_replaces_a_link_and_not_its_target() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |options| options.quota = Some(10));
    put(&store, "/target", "12345").expect("put");
    std::os::unix::fs::symlink("target", folder.path().join("f")).expect("a link");
    assert_eq!(read(&store, "/f").expect("read"), "12345");
    assert!(put(&store, "/f", "abcde").expect("put").replaced);
    assert_eq!(read(&store, "/target").expect("read"), "12345");
    // The link was never counted.
    assert!(matches!(
        put(&store, "/g", "1"),
        Err(StoreError::OverQuota { .. })
    ));
}

/// With `--durability full` the names of new folders are on the disk before an upload or a folder is acknowledged.
#[test]
fn d5_what_is_acknowledged_leaves_no_folder_whose_name_is_not_durable() {
    let folder = tempfile::tempdir().expect("a directory");
    let full = |options: &mut FileStoreOptions| options.durability = UploadDurability::Full;
    let store = store(folder.path(), full);
    let unfinished = upload(&store, "/a/b/f", "one").expect("begun");
    assert_eq!(store.folders.count_unsynced(), 2);
    unfinished.commit(None).expect("committed");
    assert_eq!(store.folders.count_unsynced(), 0);
    put(&store, "/a/c/d/f", "two").expect("put");
    assert_eq!(store.folders.count_unsynced(), 0);
}

//! Folders that uploads make, and that somebody removes while they run.

use super::*;

#[test]
fn d3_folders_that_an_upload_made_go_with_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    fs::create_dir(folder.path().join("there")).expect("a folder");
    let unfinished = upload(&store, "/there/x/y/f", "x").expect("begun");
    assert!(folder.path().join("there/x/y").is_dir());
    drop(unfinished);
    assert!(!folder.path().join("there/x").exists());
    assert!(folder.path().join("there").is_dir());
    // One that fails when it is whole.
    let present = |current: Option<&FileMetadata>| current.is_some();
    let failed = upload(&store, "/x/y/f", "x").expect("begun");
    assert!(failed.commit(Some(&present)).is_err());
    assert!(!folder.path().join("x").exists());
    // One whose folders could not all be made.
    let long = format!("/x/y/{}/f", "n".repeat(255));
    fs::create_dir(folder.path().join("y")).expect("a folder");
    fs::write(folder.path().join("y/f"), "").expect("a file");
    assert!(store.begin_upload(&key(&long), Vec::new()).is_ok());
    assert!(store.begin_upload(&key("/y/f/g/h"), Vec::new()).is_err());
    assert!(!folder.path().join("x").exists());
    // What somebody else put there stays, with the way to it.
    let unfinished = upload(&store, "/x/y/f", "x").expect("begun");
    fs::write(folder.path().join("x/g"), "").expect("a file");
    drop(unfinished);
    assert!(folder.path().join("x/g").exists() && !folder.path().join("x/y").exists());
    assert_eq!(room(folder.path()), ["lock"]);
}

#[test]
fn d3_an_upload_outlives_the_folders_that_another_took_away() {
    for within in ["/dev/shm", "."] {
        let folder = tempfile::tempdir_in(within).expect("a directory");
        let store = store(folder.path(), |_| {});
        let first = upload(&store, "/x/y/f", "one").expect("begun");
        let second = upload(&store, "/x/y/g", "two").expect("begun");
        drop(first);
        assert!(!folder.path().join("x").exists());
        second.commit(None).expect("its folders are made again");
        assert_eq!(read(&store, "/x/y/g").expect("read"), "two");
        // Where nothing waits, too.
        let CachedLookup::Ready(begun) = store.try_begin_upload(&key("/z/f"), &[]) else {
            continue;
        };
        fs::remove_dir(folder.path().join("z")).expect("the folder");
        let begun = begun.expect("begun").try_commit();
        let done = begun.unwrap_or_else(|upload| upload.commit(None));
        assert!(!done.expect("its folder is made again").replaced);
        assert!(folder.path().join("z/f").exists());
    }
}

#[test]
fn uploads_that_come_and_go_in_one_folder_find_it() {
    for durability in [UploadDurability::None, UploadDurability::Full] {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let store = store(folder.path(), |options| options.durability = durability);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || come_and_go(store, &format!("/x/y/{thread}")));
            }
        });
        assert_eq!(room(folder.path()), ["lock"]);
    }
}

/// Uploads that vanish, uploads that commit, and folders that are removed as soon as they are empty.
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
fn a_room_that_was_removed_is_told_of_and_made_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let begun = upload(&store, "/f", "one").expect("begun");
    fs::remove_dir_all(folder.path().join(".haul")).expect("the room");
    let lost = begun.commit(None).expect_err("its bytes are gone");
    assert!(!matches!(lost, StoreError::NotFound), "{lost}");
    assert!(lost.to_string().contains(".haul"), "{lost}");
    put(&store, "/f", "two").expect("the room is made again");
    assert_eq!(read(&store, "/f").expect("read"), "two");
    assert_eq!(room(folder.path()), ["lock"]);
}

#[test]
fn a_root_that_was_removed_is_told_of() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("root");
    for path in ["/f", "/x/f"] {
        fs::create_dir(&root).expect("a folder");
        let store = store(&root, |_| {});
        let begun = upload(&store, path, "one").expect("begun");
        fs::remove_dir_all(&root).expect("all of it");
        for error in [
            begun.commit(None).map(drop).expect_err("gone"),
            put(&store, path, "two").map(drop).expect_err("gone"),
        ] {
            assert!(!matches!(error, StoreError::NotFound), "{path}: {error}");
            assert!(error.to_string().contains("removed"), "{path}: {error}");
        }
    }
}

#[test]
fn d2_a_link_is_replaced_and_not_what_it_leads_to() {
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

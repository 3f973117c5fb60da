//! Tests of the store through its public functions.

mod attributes;
mod durability;
mod folders;
mod parts;
mod quota;
mod versions;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use haul_plan::{Checksum, DigestAlgorithm};

use super::version::FileVersionId;
use super::*;
use crate::ObjectKey;

fn key(path: &str) -> ObjectKey {
    ObjectKey::parse(path).expect("a key").key
}

fn store(path: &Path, change: impl FnOnce(&mut FileStoreOptions)) -> Arc<FileStore> {
    let mut options = FileStoreOptions {
        writable: true,
        durability: UploadDurability::None,
        ..FileStoreOptions::default()
    };
    change(&mut options);
    Arc::new(FileStore::open(path, options).expect("a store"))
}

fn upload(store: &Arc<FileStore>, path: &str, text: &str) -> Result<Upload, StoreError> {
    let mut upload = store.begin_upload(&key(path), Vec::new())?;
    let mut chunks = [Bytes::from(text.to_owned())];
    upload.accept(&chunks)?;
    upload.write(&mut chunks)?;
    Ok(upload)
}

fn put(store: &Arc<FileStore>, path: &str, text: &str) -> Result<CommittedUpload, StoreError> {
    upload(store, path, text)?.commit(None)
}

fn read(store: &FileStore, path: &str) -> Result<String, StoreError> {
    let object = store.open_file(&key(path))?;
    let mut bytes = vec![0; 100];
    let read = object.read(&mut bytes, 0)?;
    assert_eq!(read as u64, object.metadata().len);
    bytes.truncate(read);
    Ok(String::from_utf8(bytes).expect("text"))
}

fn temporary_names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path.join(".haul"))
        .expect("the room")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn uploads_are_readable_with_every_durability() {
    for durability in [
        UploadDurability::None,
        UploadDurability::File,
        UploadDurability::Full,
    ] {
        let folder = tempfile::tempdir().expect("a directory");
        let store = store(folder.path(), |options| options.durability = durability);
        let first = put(&store, "/a/b/c", "one").expect("put");
        assert!(!first.replaced);
        assert_eq!(read(&store, "/a/b/c").expect("read"), "one");
        assert_eq!(
            store.open_file(&key("/a/b/c")).expect("read").metadata(),
            &first.metadata
        );
        let second = put(&store, "/a/b/c", "two").expect("put");
        assert!(second.replaced && second.metadata.etag != first.metadata.etag);
        // Other programs see a plain file.
        let text = fs::read_to_string(folder.path().join("a/b/c")).expect("a file");
        assert_eq!(text, "two");
        assert_eq!(temporary_names(folder.path()), ["lock"]);
    }
}

#[test]
fn d3_an_upload_that_is_dropped_leaves_nothing_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    put(&store, "/f", "one").expect("put");
    let unfinished = upload(&store, "/f", "tw").expect("begun");
    assert_eq!(temporary_names(folder.path()).len(), 2);
    drop(unfinished);
    assert_eq!(temporary_names(folder.path()), ["lock"]);
    assert_eq!(read(&store, "/f").expect("read"), "one");
}

#[test]
fn d4_an_open_version_does_not_change() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    put(&store, "/f", "one").expect("put");
    let object = store.open_file(&key("/f")).expect("read");
    put(&store, "/f", "other").expect("put");
    let path = ObjectKey::parse("/f").expect("a key");
    store.delete(&path, None).expect("deleted");
    let mut bytes = [0; 10];
    assert_eq!(object.read(&mut bytes, 0).expect("the old version"), 3);
    assert_eq!(&bytes[..3], b"one");
    assert!(matches!(
        store.open_file(&key("/f")),
        Err(StoreError::NotFound)
    ));
    assert!(matches!(
        store.delete(&path, None),
        Err(StoreError::NotFound)
    ));
}

#[test]
fn d4_the_last_upload_to_commit_wins_completely() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let first = upload(&store, "/f", "first").expect("begun");
    let second = upload(&store, "/f", "second").expect("begun");
    second.commit(None).expect("committed");
    assert_eq!(read(&store, "/f").expect("read"), "second");
    first.commit(None).expect("committed");
    assert_eq!(read(&store, "/f").expect("read"), "first");
}

#[test]
fn d5_conditions_are_checked_at_the_commit() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let absent = |current: Option<&FileMetadata>| current.is_none();
    let two = [(); 2].map(|()| upload(&store, "/f", "x").expect("begun"));
    let [first, second] = two.map(|upload| upload.commit(Some(&absent)));
    let etag = first.expect("nothing was there").metadata.etag;
    assert!(matches!(second, Err(StoreError::ConditionFailed)));
    let same =
        |current: Option<&FileMetadata>| current.is_some_and(|metadata| metadata.etag == etag);
    let replaced = upload(&store, "/f", "y")
        .expect("begun")
        .commit(Some(&same));
    assert!(replaced.expect("the same").replaced);
    let path = ObjectKey::parse("/f").expect("a key");
    let refused = store.delete(&path, Some(&same));
    assert!(matches!(refused, Err(StoreError::ConditionFailed)));
    assert_eq!(read(&store, "/f").expect("read"), "y");
}

#[test]
fn d5_bytes_that_do_not_match_their_digest_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let sha = |hex: &str| {
        format!("sha256:{hex}")
            .parse::<Checksum>()
            .expect("a checksum")
    };
    let abc = sha("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let try_put = |text: &'static str| {
        let mut upload = store
            .begin_upload(&key("/f"), vec![abc.clone()])
            .expect("begun");
        let mut chunks = [Bytes::from(text)];
        upload.accept(&chunks).expect("taken");
        upload.write(&mut chunks).expect("written");
        upload.commit(None)
    };
    assert!(matches!(
        try_put("abd"),
        Err(StoreError::DigestMismatch("sha256"))
    ));
    assert!(matches!(
        store.open_file(&key("/f")),
        Err(StoreError::NotFound)
    ));
    let first = try_put("abc").expect("right").metadata;
    assert_eq!(
        first.digest.as_ref().map(|sum| sum.algorithm),
        Some(DigestAlgorithm::Sha256)
    );
    // The tag is derived from the bytes: it stays when they are uploaded again, and goes when
    // another program writes.
    assert_eq!(try_put("abc").expect("right").metadata.etag, first.etag);
    let has_attributes = store
        .open_file(&key("/f"))
        .expect("read")
        .metadata()
        .digest
        .is_some();
    if has_attributes {
        fs::write(folder.path().join("f"), "xyz").expect("a change");
        let metadata = store
            .open_file(&key("/f"))
            .expect("read")
            .metadata()
            .clone();
        assert!(metadata.digest.is_none() && metadata.etag != first.etag);
    }
}

#[test]
fn d6_the_quota_holds_and_failed_uploads_release_their_bytes() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("deep")).expect("a folder");
    fs::write(folder.path().join("deep/there"), "12345").expect("a file");
    let store = store(folder.path(), |options| options.quota = Some(10));
    assert!(matches!(
        put(&store, "/f", "123456"),
        Err(StoreError::OverQuota { .. })
    ));
    put(&store, "/f", "12345").expect("it fits");
    assert!(matches!(
        put(&store, "/g", "1"),
        Err(StoreError::OverQuota { .. })
    ));
    let path = ObjectKey::parse("/deep/there").expect("a key");
    store.delete(&path, None).expect("deleted");
    put(&store, "/f", "1234").expect("beside the old version");
    put(&store, "/g", "123456").expect("in place of the old version");
}

#[test]
fn d2_folders_and_files_in_the_way_are_conflicts() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    put(&store, "/a/f", "x").expect("put");
    assert!(matches!(put(&store, "/a", "x"), Err(StoreError::Conflict)));
    assert!(matches!(
        put(&store, "/a/f/g", "x"),
        Err(StoreError::Conflict)
    ));
    assert!(matches!(
        store.open_file(&key("/a")),
        Err(StoreError::IsFolder)
    ));
    let delete = |path| store.delete(&ObjectKey::parse(path).expect("a key"), None);
    assert!(matches!(delete("/a"), Err(StoreError::IsFolder)));
    assert!(matches!(delete("/a/"), Err(StoreError::NotEmpty)));
    delete("/a/f").expect("deleted");
    delete("/a/").expect("an empty folder");
    assert!(matches!(delete("/"), Err(StoreError::PermissionDenied)));
    assert_eq!(temporary_names(folder.path()), ["lock"]);
}

#[test]
fn leftovers_of_a_killed_process_are_removed_and_no_others() {
    let folder = tempfile::tempdir().expect("a directory");
    let first = store(folder.path(), |_| {});
    let under_way = upload(&first, "/f", "x").expect("begun");
    assert_eq!(store(folder.path(), |_| {}).removed_leftovers(), 0);
    under_way.commit(None).expect("still there");
    fs::write(folder.path().join(".haul/.haul-put-1-1"), "left").expect("a file");
    drop(first);
    assert_eq!(store(folder.path(), |_| {}).removed_leftovers(), 1);
    assert_eq!(temporary_names(folder.path()), ["lock"]);
}

#[test]
fn temporary_files_on_another_mount_are_cleaned_up() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut open = Arc::into_inner(store(folder.path(), |_| {})).expect("the only one");
    open.temporaries
        .as_mut()
        .expect("a room")
        .pretend_other_mount();
    let open = Arc::new(open);
    put(&open, "/mounted/f", "x").expect("put");
    let left = upload(&open, "/mounted/g", "x").expect("begun");
    let names = || {
        fs::read_dir(folder.path().join("mounted"))
            .expect("the folder")
            .count()
    };
    assert_eq!(names(), 2);
    // As if the process had been killed: nothing is removed, and its lock is released.
    let aside = folder.path().join("mounted/kept");
    let name = fs::read_dir(folder.path().join("mounted"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| !path.ends_with("f"))
        .expect("the upload");
    fs::hard_link(&name, &aside).expect("a second name");
    drop((left, open));
    fs::rename(&aside, &name).expect("its name again");
    assert_eq!(store(folder.path(), |_| {}).removed_leftovers(), 1);
    assert_eq!(names(), 1);
    assert_eq!(temporary_names(folder.path()), ["lock"]);
}

#[test]
fn a_read_only_store_creates_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |options| options.writable = false);
    assert!(matches!(put(&store, "/f", "x"), Err(StoreError::ReadOnly)));
    let path = ObjectKey::parse("/f").expect("a key");
    assert!(matches!(
        store.delete(&path, None),
        Err(StoreError::ReadOnly)
    ));
    assert_eq!(fs::read_dir(folder.path()).expect("the root").count(), 0);
}

#[test]
fn requested_files_stay_open_and_are_checked_each_time() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    put(&store, "/f", "one").expect("put");
    let etag = || match store.try_open_file(&key("/f")) {
        CachedLookup::Ready(found) => found.expect("read").metadata().etag.clone(),
        CachedLookup::WouldBlock => store
            .open_file(&key("/f"))
            .expect("read")
            .metadata()
            .etag
            .clone(),
    };
    let first = etag();
    assert_eq!(etag(), first);
    if store.open_file(&key("/f")).expect("read").is_remote() {
        return;
    }
    assert_eq!(store.open_files.len(), 1);
    fs::write(folder.path().join("new"), "two").expect("a file");
    fs::rename(folder.path().join("new"), folder.path().join("f")).expect("a swap");
    assert_ne!(etag(), first);
    (0..2).for_each(|_| store.maintain());
    assert_eq!(store.open_files.len(), 1);
    store.maintain();
    assert_eq!(store.open_files.len(), 0);
}

#[test]
fn small_files_in_memory_are_deleted_without_waiting() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let store = store(folder.path(), |_| {});
    if !store.is_memory {
        return;
    }
    put(&store, "/a/f", "x").expect("put");
    fs::write(folder.path().join("a/large"), vec![0; 2 << 20]).expect("a file");
    let delete = |path| store.try_delete(&ObjectKey::parse(path).expect("a key"));
    assert!(matches!(delete("/a/f"), CachedLookup::Ready(Ok(()))));
    assert!(matches!(
        delete("/a/f"),
        CachedLookup::Ready(Err(StoreError::NotFound))
    ));
    assert!(matches!(delete("/a/large"), CachedLookup::WouldBlock));
    assert!(matches!(delete("/a/"), CachedLookup::WouldBlock));
    assert!(matches!(delete("/"), CachedLookup::WouldBlock));
    let _held = store.locks.lock(&key("/a/g"));
    put_file(folder.path(), "a/g");
    assert!(matches!(delete("/a/g"), CachedLookup::WouldBlock));
}

fn put_file(root: &Path, path: &str) {
    fs::write(root.join(path), "x").expect("a file");
}

#[test]
fn a_temporary_folder_that_another_user_planted_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    let folder = tempfile::tempdir().expect("a directory");
    let planted = folder.path().join(".haul");
    fs::create_dir(&planted).expect("a directory");
    if chown(&planted, Some(12_345), None).is_err() {
        // Only root may give folders away.
        return;
    }
    let options = || FileStoreOptions {
        writable: true,
        ..FileStoreOptions::default()
    };
    let set_mode = |mode| {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("permissions");
    };
    set_mode(0o1777);
    let refused = FileStore::open(folder.path(), options()).map(drop);
    assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
    set_mode(0o755);
    assert!(FileStore::open(folder.path(), options()).is_ok());
}

//! The attributes of objects: in the file's extended attributes or in a file of their own.

use super::*;

fn put_object(store: &Arc<FileStore>, path: &str, attributes: &ObjectAttributes) {
    let mut upload = upload(store, path, "text").expect("an upload");
    upload.set_attributes(attributes.clone());
    let stored = upload.commit(None).expect("committed");
    assert_eq!(stored.metadata.attributes.as_deref(), Some(attributes));
}

fn found(store: &FileStore, path: &str) -> Option<ObjectAttributes> {
    let object = store.open_file(&key(path)).expect("a file");
    object.metadata().attributes.as_deref().cloned()
}

/// Records of their own.
fn records(folder: &Path) -> usize {
    fs::read_dir(folder.join(".haul/attributes")).map_or(0, Iterator::count)
}

#[test]
fn g11_attributes_that_do_not_fit_are_a_file_and_go_with_the_object() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let small = ObjectAttributes {
        etag: "e".to_owned(),
        headers: vec![("x-amz-meta-a".to_owned(), "é".to_owned())],
        ..ObjectAttributes::default()
    };
    // More than any file system takes in an extended attribute (64 KiB).
    let part = |number| ObjectPart {
        number,
        len: 5 << 20,
        checksum: Some("c".repeat(44)),
    };
    let large = ObjectAttributes {
        parts: (1..=10_000).map(part).collect(),
        ..small.clone()
    };
    for attributes in [&large, &small, &large, &large] {
        put_object(&store, "/b/k", attributes);
        assert_eq!(found(&store, "/b/k").as_ref(), Some(attributes));
    }
    assert_eq!(
        records(folder.path()),
        1,
        "those of replaced versions are gone"
    );
    drop(store);
    let store = super::store(folder.path(), |_| {});
    assert_eq!(found(&store, "/b/k").as_ref(), Some(&large));
    let path = crate::RequestPath {
        key: key("/b/k"),
        is_folder: false,
    };
    store.delete(&path, None).expect("deleted");
    assert_eq!(records(folder.path()), 0);
}

#[test]
fn g10_attributes_are_those_of_a_version_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let attributes = ObjectAttributes {
        etag: "e".to_owned(),
        ..ObjectAttributes::default()
    };
    put_object(&store, "/k", &attributes);
    let object = store.open_file(&key("/k")).expect("a file");
    store
        .set_attributes(&key("/k"), &object, |attributes| {
            attributes.tags = vec![("t".to_owned(), "v".to_owned())];
        })
        .expect("set");
    assert_eq!(found(&store, "/k").expect("attributes").tags.len(), 1);
    fs::write(folder.path().join("k"), "another program's").expect("a change");
    assert_eq!(found(&store, "/k"), None);
    let changed = store.set_attributes(&key("/k"), &object, |_| {});
    assert!(matches!(changed, Err(StoreError::NotFound)));
}

#[test]
fn d6_attributes_that_are_a_file_count() {
    let folder = tempfile::tempdir().expect("a directory");
    let part = |number| ObjectPart {
        number,
        len: 1,
        checksum: Some("c".repeat(44)),
    };
    let large = ObjectAttributes {
        parts: (1..=1000).map(part).collect(),
        ..ObjectAttributes::default()
    };
    // Two of them, and what each file says of itself.
    let two = 2 * serde_json::to_vec(&large).expect("a record").len() as u64 + 1000;
    let store = store(folder.path(), |options| options.quota = Some(two));
    let put = |path| {
        let mut upload = upload(&store, path, "text").expect("an upload");
        upload.set_attributes(large.clone());
        upload.commit(None).map(drop)
    };
    put("/b/k").expect("it fits");
    put("/b/k").expect("in place of the first");
    put("/b/l").expect("the first is gone");
    let is_refused = || {
        let refused = matches!(put("/b/m"), Err(StoreError::OverQuota { .. }));
        refused && records(folder.path()) == 2
    };
    assert!(is_refused());
    let before = store.quota.begin_recount();
    let found = usage::folder_bytes(store.root().top());
    store.quota.finish_recount(before, found);
    assert!(is_refused(), "a recount finds it");
    store
        .delete(&ObjectKey::parse("/b/k").expect("a path"), None)
        .expect("deleted");
    put("/b/m").expect("what that gave back");
}

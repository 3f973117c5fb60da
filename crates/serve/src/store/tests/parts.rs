//! Uploads in parts, as the store keeps them.

use std::time::Duration;

use super::*;

fn info() -> StoredUploadInfo {
    StoredUploadInfo {
        bucket: "b".to_owned(),
        key: "k".to_owned(),
        initiated: 0,
        attributes: ObjectAttributes::default(),
        algorithm: "CRC64NVME".to_owned(),
        is_composite: false,
        has_default_checksum: true,
    }
}

pub(super) fn begin(store: &Arc<FileStore>) -> Arc<StoredUpload> {
    let id = store.begin_parts(&info()).expect("begun");
    store.stored_upload(&id).expect("an upload")
}

/// Bytes of a slot.
const SLOT: usize = 5 << 20;

pub(super) fn send(upload: &Arc<StoredUpload>, number: u16, bytes: &[u8]) -> StoredPart {
    let mut writer = begin_part(upload, number, bytes.len());
    writer.write(bytes).expect("written");
    writer
        .finish(String::new(), String::new())
        .expect("finished")
}

fn begin_part(upload: &Arc<StoredUpload>, number: u16, len: usize) -> PartWriter {
    upload.begin_part(number, len as u64).expect("begun")
}

pub(super) fn complete(
    store: &Arc<FileStore>,
    upload: &StoredUpload,
    parts: &[StoredPart],
) -> Result<CommittedUpload, StoreError> {
    let attributes = ObjectAttributes::default();
    store.complete_parts(upload, &key("/b/k"), parts, attributes, None)
}

fn uploads(folder: &Path) -> usize {
    fs::read_dir(folder.join(".haul/multipart")).map_or(0, Iterator::count)
}

#[test]
fn parts_survive_a_restart_and_a_line_that_was_cut_off() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    let (one, two) = (vec![1; SLOT], vec![2; 7]);
    let first = send(&upload, 1, &one);
    let rows = folder
        .path()
        .join(".haul/multipart")
        .join(upload.id())
        .join("parts");
    let mut text = fs::read(&rows).expect("rows");
    text.extend(b"{\"number\":2,\"le");
    fs::write(&rows, text).expect("a cut line");
    let id = upload.id().to_owned();
    drop((upload, store));
    let store = super::store(folder.path(), |_| {});
    let upload = store.stored_upload(&id).expect("an upload");
    assert_eq!(upload.parts().expect("parts").len(), 1);
    let second = send(&upload, 2, &two);
    complete(&store, &upload, &[first, second]).expect("complete");
    let found = fs::read(folder.path().join("b/k")).expect("the object");
    assert!(found == [one, two].concat());
    assert_eq!(uploads(folder.path()), 0);
}

#[test]
fn g8_a_request_that_still_writes_a_part_does_not_change_the_object() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    // The client has given up on this request, and sends the part again.
    let mut straggler = begin_part(&upload, 1, SLOT);
    straggler.write(&[0; 100]).expect("written");
    let part = send(&upload, 1, &vec![1; SLOT]);
    complete(&store, &upload, &[part]).expect("complete");
    straggler.write(&[0; 100]).expect("written");
    assert!(straggler.finish(String::new(), String::new()).is_err());
    let found = fs::read(folder.path().join("b/k")).expect("the object");
    assert!(found == vec![1; SLOT]);
}

#[test]
fn g9_an_abort_leaves_nothing_of_a_part_that_is_being_written() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    for len in [SLOT, 10] {
        let upload = begin(&store);
        let mut writer = begin_part(&upload, 1, len);
        writer.write(&[0; 10]).expect("written");
        store.abort_parts(&upload).expect("aborted");
        assert!(writer.finish(String::new(), String::new()).is_err());
        assert!(upload.begin_part(2, 10).is_err());
        assert_eq!(uploads(folder.path()), 0);
    }
}

#[test]
fn unfinished_uploads_expire_after_their_last_part() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let (with_part, without) = (begin(&store), begin(&store));
    send(&with_part, 1, b"x");
    for upload in [&with_part, &without] {
        let info = folder
            .path()
            .join(".haul/multipart")
            .join(upload.id())
            .join("upload");
        let info = fs::File::options().write(true).open(info).expect("a file");
        info.set_modified(std::time::UNIX_EPOCH).expect("its time");
    }
    store.expire_parts(Duration::from_secs(3600));
    assert!(store.stored_upload(without.id()).is_err());
    assert_eq!(
        uploads(folder.path()),
        1,
        "the one with a part of now is there"
    );
}

#[test]
fn an_upload_whose_object_is_there_already_is_over_after_a_restart() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    send(&upload, 1, &vec![1; SLOT]);
    let id = upload.id().to_owned();
    // The server was killed when the object had its name.
    let data = folder.path().join(".haul/multipart").join(&id).join("data");
    fs::hard_link(data, folder.path().join("k")).expect("the object");
    drop((upload, store));
    let store = super::store(folder.path(), |_| {});
    assert!(matches!(
        store.stored_upload(&id),
        Err(StoreError::NotFound)
    ));
    assert_eq!(uploads(folder.path()), 0);
    let found = fs::read(folder.path().join("k")).expect("the object");
    assert!(found == vec![1; SLOT]);
}

#[test]
fn an_upload_that_lost_its_bytes_makes_no_object_of_zeros() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    let part = send(&upload, 1, &vec![1; SLOT]);
    let files = folder.path().join(".haul/multipart").join(upload.id());
    fs::remove_file(files.join("data")).expect("removed");
    let completed = complete(&store, &upload, &[part]);
    assert!(matches!(completed, Err(StoreError::NotFound)));
    assert!(!folder.path().join("b/k").exists());
}

#[test]
fn uploads_that_were_beginning_or_ending_are_gone_after_a_restart() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let (complete, ending, left) = (begin(&store), begin(&store), begin(&store));
    for upload in [&complete, &ending, &left] {
        send(upload, 1, &vec![1; SLOT]);
    }
    // The server was killed at these moments.
    let all = folder.path().join(".haul/multipart");
    let object = folder.path().join("k");
    fs::hard_link(all.join(complete.id()).join("data"), &object).expect("the object");
    fs::rename(all.join(ending.id()), all.join(format!(".{}", ending.id()))).expect("renamed");
    fs::create_dir(all.join(".beginning")).expect("a folder");
    fs::write(all.join(".beginning/upload"), "{").expect("a cut file");
    let id = left.id().to_owned();
    drop((complete, ending, left, store));
    let store = super::store(folder.path(), |_| {});
    assert_eq!(uploads(folder.path()), 1);
    assert!(store.stored_upload(&id).is_ok());
    assert!(fs::read(object).expect("the object") == vec![1; SLOT]);
}

#[test]
fn d6_parts_count_until_their_upload_ends_and_across_restarts() {
    let folder = tempfile::tempdir().expect("a directory");
    // What an unfinished upload is of counts, too; one is open at each step.
    let described = serde_json::to_vec(&info()).expect("a description").len() as u64;
    let open = || {
        store(folder.path(), |options| {
            options.quota = Some(12 + described)
        })
    };
    let is_refused = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::OverQuota { .. })),
            "{result:?}"
        );
    };
    let store = open();
    let upload = begin(&store);
    let parts = [send(&upload, 1, b"12345"), send(&upload, 2, b"67890")];
    is_refused(upload.begin_part(3, 3).map(drop));
    is_refused(put(&store, "/f", "123").map(drop));
    drop(begin_part(&upload, 3, 2));
    drop(begin_part(&upload, 3, 2));
    let id = upload.id().to_owned();
    drop((upload, store));
    let store = open();
    is_refused(put(&store, "/f", "123").map(drop));
    let upload = store.stored_upload(&id).expect("an upload");
    let attributes = ObjectAttributes::default();
    let no = |_: Option<&FileMetadata>| false;
    let failed = store.complete_parts(&upload, &key("/b/k"), &parts, attributes, Some(&no));
    assert!(matches!(failed, Err(StoreError::ConditionFailed)));
    is_refused(put(&store, "/f", "123").map(drop));
    // It was not enough for both.
    complete(&store, &upload, &parts).expect("complete");
    let upload = begin(&store);
    is_refused(put(&store, "/f", "123").map(drop));
    put(&store, "/f", "12").expect("the rest");
    let object = ObjectKey::parse("/b/k").expect("a path");
    store.delete(&object, None).expect("deleted");
    let mut straggler = begin_part(&upload, 1, 10);
    put(&store, "/g", "1234567890").expect("an announcement holds nothing");
    is_refused(straggler.write(b"1"));
    store
        .delete(&ObjectKey::parse("/g").expect("a path"), None)
        .expect("deleted");
    straggler.write(b"1234567890").expect("written");
    is_refused(put(&store, "/g", "1").map(drop));
    store.abort_parts(&upload).expect("aborted");
    drop(straggler);
    let _another = begin(&store);
    put(&store, "/g", "1234567890").expect("what the abort gave back");
    is_refused(put(&store, "/h", "1").map(drop));
}

/// Nobody waits for a completion, which may take as long as copying the object.
#[test]
fn an_upload_that_is_being_completed_takes_nothing_more() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    let parts = [send(&upload, 1, b"12345")];
    let straggler = begin_part(&upload, 2, 2);
    let straggler = std::cell::Cell::new(Some(straggler));
    let refuse_all = |_: Option<&FileMetadata>| {
        let busy = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Busy(_)));
        let finished = straggler
            .take()
            .expect("a part")
            .finish(String::new(), String::new())
            .map(drop);
        assert!(busy(finished));
        assert!(busy(upload.begin_part(3, 1).map(drop)));
        assert!(busy(store.abort_parts(&upload)));
        assert!(busy(complete(&store, &upload, &parts).map(drop)));
        false
    };
    let attributes = ObjectAttributes::default();
    let refused =
        store.complete_parts(&upload, &key("/b/k"), &parts, attributes, Some(&refuse_all));
    assert!(matches!(refused, Err(StoreError::ConditionFailed)));
    // It goes on.
    complete(&store, &upload, &parts).expect("complete");
    assert!(matches!(upload.begin_part(3, 1), Err(StoreError::NotFound)));
}

/// Each open upload holds a descriptor.
#[test]
fn only_so_many_uploads_are_open_at_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let ids: Vec<_> = (0..257)
        .map(|_| store.begin_parts(&info()).expect("begun"))
        .collect();
    let open = |id: &String| store.stored_upload(id);
    // Those that nobody uses make room.
    ids.iter().for_each(|id| drop(open(id).expect("an upload")));
    let used: Vec<_> = ids[1..]
        .iter()
        .map(|id| open(id).expect("an upload"))
        .collect();
    assert!(matches!(open(&ids[0]), Err(StoreError::Busy(_))));
    assert!(open(&ids[1]).is_ok());
    drop(used);
    assert!(open(&ids[0]).is_ok());
}

#[test]
fn uploads_that_nobody_uses_are_closed() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = store(folder.path(), |_| {});
    let upload = begin(&store);
    let again = |store: &FileStore| store.stored_upload(upload.id()).expect("an upload");
    (0..3).for_each(|_| store.maintain());
    assert!(Arc::ptr_eq(&upload, &again(&store)), "it is in use");
    let before = Arc::downgrade(&upload);
    let id = upload.id().to_owned();
    drop(upload);
    (0..2).for_each(|_| store.maintain());
    assert!(before.upgrade().is_none());
    assert!(store.stored_upload(&id).is_ok());
}

//! Versions of files: their stored digests, and how they are closed.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn put_with_digest(store: &Arc<FileStore>, path: &str, text: &'static str) -> CommittedUpload {
    let mut hashers = haul_digest::DigestSet::new([DigestAlgorithm::Sha256]);
    hashers.update(text.as_bytes());
    let digested = hashers.finish().pop().expect("a digest");
    let expected = Checksum {
        algorithm: digested.algorithm,
        digest: Some(digested.digest),
    };
    let mut upload = store
        .begin_upload(&key(path), vec![expected])
        .expect("begun");
    let mut chunks = [Bytes::from(text)];
    upload.accept(&chunks).expect("taken");
    upload.write(&mut chunks).expect("written");
    upload.commit(None).expect("committed")
}

fn nanoseconds(metadata: &FileMetadata) -> u32 {
    let since = metadata.modified.duration_since(UNIX_EPOCH);
    since.expect("after 1970").subsec_nanos()
}

#[test]
fn a_stored_digest_is_read_only_if_the_time_is_marked_and_never_on_a_reactor() {
    for within in ["/dev/shm", "."] {
        let folder = tempfile::tempdir_in(within).expect("a directory");
        let store = store(folder.path(), |_| {});
        put_with_digest(&store, "/with", "abc");
        put(&store, "/without", "abc").expect("put");
        let object = store.open_file(&key("/with")).expect("read");
        if object.is_remote() || object.metadata().digest.is_none() {
            // This file system has no extended attributes.
            continue;
        }
        assert_eq!(nanoseconds(object.metadata()) % 1024, 517);
        // An attribute for this version, on a file whose time has no mark: it is not read.
        let path = folder.path().join("without");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000))
            .expect("its time");
        let identity = FileVersionId::from_stat(&rustix::fs::fstat(&file).expect("a look"));
        let sum = object.metadata().digest.clone().expect("a digest");
        version::store_digest(&file, &identity, &sum);
        assert_eq!(version::read_stored_digest(&file, &identity), Some(sum));
        let plain = store.open_file(&key("/without")).expect("read");
        assert_eq!(plain.metadata().digest, None);

        drop(object);
        (0..4).for_each(|_| store.maintain());
        let now = |path| match store.try_open_file(&key(path)) {
            CachedLookup::Ready(found) => Some(found.expect("read").metadata().digest.is_some()),
            CachedLookup::WouldBlock => None,
        };
        if store.root.try_open(&key("/with")).is_ready() {
            assert_eq!(now("/without"), Some(false), "{within}");
            let expected = store.is_memory.then_some(true);
            assert_eq!(now("/with"), expected, "{within}");
            store
                .open_file(&key("/with"))
                .expect("read by who may wait");
            assert_eq!(now("/with"), Some(true), "{within}: it is open");
        }
    }
}

#[test]
fn large_deleted_files_are_closed_on_disk_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir_in(".").expect("a directory");
    let store = store(folder.path(), |_| {});
    let disk = DiskThreads::new(runtime.handle().clone());
    store.set_threads(&disk);
    let large = |name: &str| {
        let file = fs::File::create(folder.path().join(name)).expect("a file");
        file.set_len(disk_threads::LARGE_FILE).expect("its length");
        store.open_file(&key(&format!("/{name}"))).expect("read")
    };
    /// How many deleted files of this folder are open.
    fn removed(folder: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").expect("this process");
        open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|link| {
                link.starts_with(folder) && link.to_string_lossy().ends_with("(deleted)")
            })
            .count()
    }
    let path = folder.path().canonicalize().expect("its path");
    let (release, held) = std::sync::mpsc::channel::<()>();
    drop(disk.run(move || held.recv()));
    let (there, deleted, little) = (large("there"), large("deleted"), large("little"));
    drop(there);
    drop(little);
    for name in ["deleted", "little"] {
        if name == "little" {
            fs::write(folder.path().join(name), "x").expect("a change");
            store.open_file(&key("/little")).expect("read anew");
        }
        let path = ObjectKey::parse(&format!("/{name}")).expect("a key");
        store.delete(&path, None).expect("deleted");
    }
    assert_eq!(removed(&path), 1, "somebody reads it");
    drop(deleted);
    assert_eq!(removed(&path), 1, "its closing waits for the thread");
    release.send(()).expect("the thread");
    // Queued after it.
    runtime.block_on(disk.run(|| ()));
    assert_eq!(removed(&path), 0);
}

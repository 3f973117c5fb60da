//! Archives as other tar readers see them, and the names of shards while they are written.

mod extension;
mod faults;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use crate::archive::*;
use crate::disk::StorageWrapping;

/// An entry's name and content.
pub(super) type TestEntry = (String, Vec<u8>);

/// An entry whose content depends on its number and length.
pub(super) fn entry(n: usize, length: usize) -> TestEntry {
    let byte = |at: usize| u8::try_from((at * 31 + n * 7 + length) % 251).unwrap();
    (format!("d/{n}"), (0..length).map(byte).collect())
}

pub(super) fn options(path: &Path, shard_size: Option<u64>) -> ArchiveOptions {
    ArchiveOptions {
        destination: ArchiveDestination::File(path.to_owned()),
        shard_size,
        wrapping: StorageWrapping::default(),
    }
}

pub(super) fn open(path: &Path, shard_size: Option<u64>) -> ShardWriter {
    ShardWriter::open(options(path, shard_size), []).unwrap()
}

/// Appends an entry. Content of odd length comes from a reader.
pub(super) fn append(
    shards: &mut ShardWriter,
    (name, bytes): &TestEntry,
) -> Result<ShardEntryLocation, ArchiveError> {
    if bytes.len().is_multiple_of(2) {
        let (front, back) = bytes.split_at(bytes.len() / 3);
        let pieces = [front, back].map(Bytes::copy_from_slice);
        return shards.append(
            Path::new(name),
            ShardEntryContent::Pieces(&pieces),
            1_000_000_000,
        );
    }
    let content = ShardEntryContent::Reader {
        reader: &mut &bytes[..],
        length: bytes.len() as u64,
    };
    shards.append(Path::new(name), content, 1_000_000_000)
}

/// The entries that the `tar` crate reads. Panics when the archive has no end.
pub(super) fn read(bytes: &[u8]) -> Vec<TestEntry> {
    assert!(bytes.len() >= 1024 && bytes.len().is_multiple_of(512));
    assert!(bytes.ends_with(&[0; 1024]), "no end");
    let mut archive = tar::Archive::new(bytes);
    let entry = |entry: io::Result<tar::Entry<'_, _>>| {
        let mut entry: tar::Entry<'_, &[u8]> = entry.unwrap();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        let header = entry.header();
        assert_eq!(
            (
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.gid().unwrap()
            ),
            (0o644, 0, 0)
        );
        assert_eq!(
            (header.username(), header.groupname()),
            (Ok(Some("")), Ok(Some("")))
        );
        assert_eq!(
            (header.mtime().unwrap(), header.entry_type()),
            (1_000_000_000, tar::EntryType::Regular)
        );
        (
            String::from_utf8(entry.path_bytes().into_owned()).unwrap(),
            contents,
        )
    };
    archive.entries().unwrap().map(entry).collect()
}

/// The finished shards in a directory by name. Panics on any other file.
pub(super) fn shards_in(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let shard = |found: io::Result<std::fs::DirEntry>| {
        let found = found.unwrap();
        let name = found.file_name().into_string().unwrap();
        assert!(name.ends_with(".tar"), "{name}");
        (name, std::fs::read(found.path()).unwrap())
    };
    std::fs::read_dir(dir).unwrap().map(shard).collect()
}

fn any_entries() -> impl Strategy<Value = Vec<TestEntry>> {
    let length = prop_oneof![
        0usize..1600,
        prop::sample::select(&[0, 1, 511, 512, 513, 1024][..])
    ];
    prop::collection::vec(length, 0..12).prop_map(|lengths| {
        let lengths = lengths.into_iter().enumerate();
        lengths.map(|(n, length)| entry(n, length)).collect()
    })
}

#[test]
fn entry_names_of_every_length_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let mut shards = open(&path, None);
    let deep = |length: usize| "dir/".repeat(length / 4) + &"f".repeat(length % 4 + 1);
    let plain = (1..=300)
        .chain([1000, 4000, 4090])
        .flat_map(|n: usize| ["f".repeat(n), deep(n)]);
    let other = ["ä", "日本語/ファイル", "a b\nc", "=", "é", "a\\b", "x/y.z"].map(str::to_owned);
    let umlauts = (40..60).map(|n| "ü".repeat(n));
    let entries: Vec<TestEntry> = plain
        .chain(other)
        .chain(umlauts)
        .map(|name| (name.clone(), name.into_bytes()))
        .collect();
    for entry in &entries {
        append(&mut shards, entry).unwrap();
    }
    shards.finish().unwrap();
    assert_eq!(read(&std::fs::read(&path).unwrap()), entries);
}

#[test]
fn long_entries_are_read_back_and_small_ones_cost_one_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let disk = crate::disk::faulty_disk::FaultyDisk::with_capacity(u64::MAX);
    let mut shards = ShardWriter::open(
        ArchiveOptions {
            wrapping: disk.wrapping(),
            ..options(&path, None)
        },
        [],
    )
    .unwrap();
    let chunk = 256 * 1024;
    let mut entries = Vec::new();
    for (n, length) in [0, 1, 2, 4000, 4001].into_iter().enumerate() {
        entries.push(entry(n, length));
        append(&mut shards, &entries[n]).unwrap();
        assert_eq!(disk.calls(), "w");
    }
    for length in [chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 3 * chunk + 5] {
        let (name, bytes) = entry(length, length);
        let content = ShardEntryContent::Reader {
            reader: &mut &bytes[..],
            length: length as u64,
        };
        shards
            .append(Path::new(&name), content, 1_000_000_000)
            .unwrap();
        entries.push((name, bytes));
    }
    shards.finish().unwrap();
    assert_eq!(read(&std::fs::read(&path).unwrap()), entries);
}

#[test]
fn an_archive_may_be_empty() {
    for (size, name) in [(None, "a.tar"), (Some(4096), "a-000000.tar")] {
        let dir = tempfile::tempdir().unwrap();
        open(&dir.path().join("a.tar"), size).finish().unwrap();
        let found = shards_in(dir.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), [name]);
        assert_eq!(found[name], [0; 1024]);
    }
}

#[test]
fn an_empty_archive_can_be_left_out_but_a_stream_gets_its_end() {
    for size in [None, Some(1024)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        open(&path, size).finish_unless_empty().unwrap();
        assert!(shards_in(dir.path()).is_empty());
        // Entries keep the archive, whether this run or an earlier run wrote them.
        let mut shards = open(&path, size);
        for n in 0..2 {
            append(&mut shards, &entry(n, 900)).unwrap();
        }
        shards.finish_unless_empty().unwrap();
        let whole = shards_in(dir.path());
        assert_eq!(whole.len(), if size.is_some() { 2 } else { 1 });
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let mut shards = open(&path, None);
    let end = append(&mut shards, &entry(0, 5)).unwrap().end;
    shards.finish().unwrap();
    for _ in 0..2 {
        let again = ShardWriter::open(options(&path, None), [("a.tar", end)]).unwrap();
        again.finish_unless_empty().unwrap();
        assert_eq!(read(&shards_in(dir.path())["a.tar"]), [entry(0, 5)]);
        // Now the archive as a kill leaves it.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let temporary = dir.path().join("a.tar.haul-part");
        std::fs::write(temporary, &bytes[..usize::try_from(end).unwrap()]).unwrap();
    }
    let writer = SharedBuffer::default();
    stream_to(writer.clone()).finish_unless_empty().unwrap();
    assert_eq!(*writer.0.lock().unwrap(), [0; 1024]);
}

#[test]
fn shards_are_renamed_when_they_are_full_and_rows_may_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).exists();
    let mut shards = open(&dir.path().join("t.tar"), Some(3000));
    for n in 0..2 {
        append(&mut shards, &entry(n, 1024)).unwrap();
    }
    let temporary = ["t-000000.tar.haul-part", "t-000001.tar.haul-part"];
    assert!(temporary.iter().all(|temporary| at(temporary)));
    shards.publish_full().unwrap();
    assert!(!at("t-000000.tar"), "it is full but not synced");
    shards.sync().unwrap();
    assert!(
        !at("t-000000.tar"),
        "it is synced but its rows are not written"
    );
    shards.publish_full().unwrap();
    assert!(at("t-000000.tar") && !at(temporary[0]));
    assert!(!at("t-000001.tar") && at(temporary[1]));
    shards.finish().unwrap();
    assert_eq!(shards_in(dir.path()).len(), 2);
}

#[test]
fn b6_an_existing_shard_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    std::fs::write(&path, "theirs").unwrap();
    let error = ShardWriter::open(options(&path, None), []).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} exists already", path.display())
    );
    // The name of a later shard is taken. This shows when its turn comes; the entries before stay intact.
    std::fs::write(dir.path().join("t-000001.tar"), "theirs").unwrap();
    let mut shards = open(&path, Some(3072));
    let placed = append(&mut shards, &entry(0, 1024)).unwrap();
    for _ in 0..2 {
        assert!(matches!(
            append(&mut shards, &entry(1, 1024)),
            Err(ArchiveError::Exists { .. })
        ));
    }
    let small = append(&mut shards, &entry(2, 0)).unwrap();
    assert_eq!((placed.end, small.offset), (1536, 1536));
    shards.finish().unwrap();
    let found = shards_in(dir.path());
    assert_eq!(found["t-000001.tar"], b"theirs");
    assert_eq!(read(&found["t-000000.tar"]), [entry(0, 1024), entry(2, 0)]);
    // The name is taken at the last moment.
    let shards = open(&dir.path().join("u.tar"), None);
    std::fs::write(dir.path().join("u.tar"), "theirs").unwrap();
    assert!(matches!(shards.finish(), Err(ArchiveError::Exists { .. })));
    assert_eq!(std::fs::read(dir.path().join("u.tar")).unwrap(), b"theirs");
}

#[test]
fn b5_files_of_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let temporary = dir.path().join("t.tar.haul-part");
    assert!(matches!(
        ShardWriter::open(options(dir.path(), None), []),
        Err(ArchiveError::IsDirectory { .. })
    ));
    let shards = open(&path, None);
    let error = ShardWriter::open(options(&path, None), []).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("another haul is writing {}", path.display())
    );
    drop(shards);
    std::fs::write(&temporary, "something else, and not short".repeat(99)).unwrap();
    assert!(matches!(
        ShardWriter::open(options(&path, None), []),
        Err(ArchiveError::InTheWay { .. })
    ));
    assert_eq!(std::fs::metadata(&temporary).unwrap().len(), 29 * 99);
    std::fs::remove_file(&temporary).unwrap();
    std::fs::write(dir.path().join("t.tar.haul-journal"), "").unwrap();
    let error = ShardWriter::open(options(&path, None), []).unwrap_err();
    assert!(
        error.to_string().contains("an interrupted download"),
        "{error}"
    );
}

/// A buffer that the test can read, with an optional size limit.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>, Option<usize>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap();
        if self.1.is_some_and(|room| all.len() + bytes.len() > room) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stream_to(writer: SharedBuffer) -> ShardWriter {
    let destination = ArchiveDestination::Writer(Box::new(writer));
    let options = ArchiveOptions {
        destination,
        shard_size: Some(1024),
        wrapping: StorageWrapping::default(),
    };
    ShardWriter::open(options, [("-", 512)]).unwrap()
}

#[test]
fn a_reader_that_closes_the_stream_is_a_clear_error() {
    let mut shards = stream_to(SharedBuffer(Arc::default(), Some(1 << 20)));
    let error = (0..)
        .find_map(|n| append(&mut shards, &entry(n, 100_000)).err())
        .unwrap();
    let ArchiveError::Stream(source) = error else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), io::ErrorKind::BrokenPipe);
    assert!(matches!(
        append(&mut shards, &entry(0, 0)),
        Err(ArchiveError::Stream(_))
    ));
    assert!(matches!(shards.sync(), Err(ArchiveError::Stream(_))));
    assert!(shards.finish().is_err());
}

#[test]
fn a_stream_with_an_incomplete_entry_is_never_finished() {
    let writer = SharedBuffer::default();
    let mut shards = stream_to(writer.clone());
    append(&mut shards, &entry(0, 10)).unwrap();
    let short = ShardEntryContent::Reader {
        reader: &mut &b"short"[..],
        length: 6,
    };
    assert!(matches!(
        shards.append(Path::new("x"), short, 0),
        Err(ArchiveError::Content(_))
    ));
    let Err(ArchiveError::Stream(source)) = append(&mut shards, &entry(1, 10)) else {
        panic!("nothing may follow half an entry")
    };
    assert_ne!(
        source.kind(),
        io::ErrorKind::BrokenPipe,
        "its reader has not left"
    );
    assert!(shards.finish().is_err());
    assert!(!writer.0.lock().unwrap().ends_with(&[0; 1024]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_entries_are_read_back_from_a_file_and_a_stream_alike(entries in any_entries()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let writer = SharedBuffer::default();
        let (mut file, mut pipe) = (open(&path, None), stream_to(writer.clone()));
        let mut end = 0;
        for entry in &entries {
            let placed = append(&mut file, entry).unwrap();
            prop_assert_eq!((placed.offset, &*placed.shard), (end, "a.tar"));
            let other = append(&mut pipe, entry).unwrap();
            prop_assert_eq!((other.offset, other.end, &*other.shard), (end, placed.end, "-"));
            end = placed.end;
        }
        pipe.sync().unwrap();
        prop_assert_eq!(writer.0.lock().unwrap().len() as u64, end, "everything is written before rows may record it");
        file.finish().unwrap();
        pipe.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        prop_assert_eq!(&read(&bytes), &entries);
        prop_assert_eq!(&bytes, &*writer.0.lock().unwrap(), "the same bytes every time");
    }

    #[test]
    fn shards_keep_the_size_limit_and_hold_each_entry_once(entries in any_entries(), size in 1u64..8000) {
        let dir = tempfile::tempdir().unwrap();
        let mut shards = open(&dir.path().join("a.tar"), Some(size));
        let placed: Vec<ShardEntryLocation> = entries.iter().map(|entry| append(&mut shards, entry).unwrap()).collect();
        shards.finish().unwrap();
        let found = shards_in(dir.path());
        let names: Vec<String> = (0..found.len()).map(|n| format!("a-{n:06}.tar")).collect();
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        let all: Vec<TestEntry> = found.values().flat_map(|bytes| read(bytes)).collect();
        prop_assert_eq!(&all, &entries);
        for bytes in found.values() {
            prop_assert!(bytes.len() as u64 <= size || read(bytes).len() <= 1);
        }
        for (placed, entry) in placed.iter().zip(&entries) {
            let within = usize::try_from(placed.offset).unwrap()..usize::try_from(placed.end).unwrap();
            let alone = [&found[&placed.shard][within], &[0; 1024]].concat();
            prop_assert_eq!(&read(&alone)[..], std::slice::from_ref(entry));
        }
        for (at, pair) in placed.windows(2).enumerate() {
            // A new shard begins only when the last one has no room.
            let bytes = pair[1].end - pair[1].offset;
            let apart = pair[0].shard != pair[1].shard;
            prop_assert_eq!(apart, pair[0].end + bytes + 1024 > size, "entry {}", at + 1);
        }
    }
}

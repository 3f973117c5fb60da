//! Archives, read by GNU tar, Python's tarfile and the crate's own reader.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::store::StoreRoot;

fn tar(top: &Path, path: &str) -> FolderTar {
    let root = Arc::new(StoreRoot::open(top).expect("a root"));
    let key = ObjectKey::parse(path).expect("a key").key;
    FolderTar::new(OpenFolder::open(&root, key).expect("a folder")).expect("an archive")
}

fn pack(top: &Path, path: &str) -> Vec<u8> {
    let chunks = tar(top, path)
        .collect::<Result<Vec<Bytes>, FolderTarError>>()
        .expect("a whole archive");
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK + BLOCK));
    chunks.concat()
}

/// The entries of an archive with the bytes of files, by another reader.
fn read(archive: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut archive = ::tar::Archive::new(archive);
    let entries = archive.entries().expect("entries").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        (entry.path_bytes().into_owned(), bytes)
    });
    entries.collect()
}

/// The entries of a directory, in the same form.
fn walk(top: &Path, at: &Path, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let name = at
        .strip_prefix(top)
        .expect("beneath")
        .as_os_str()
        .as_bytes()
        .to_vec();
    if at.is_dir() {
        found.insert([&name, &b"/"[..]].concat(), Vec::new());
        for entry in fs::read_dir(at).expect("a folder") {
            walk(top, &entry.expect("an entry").path(), found);
        }
    } else {
        found.insert(name, fs::read(at).expect("a file"));
    }
}

/// Runs a program with the archive as its input.
fn feed(command: &mut Command, archive: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is installed");
    let mut input = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || io::Write::write_all(&mut input, archive).expect("it reads"));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// A folder `x` with names and sizes of all kinds.
fn tree() -> tempfile::TempDir {
    let top = tempfile::tempdir().expect("a directory");
    let x = top.path().join("x");
    let deep = x.join("d".repeat(90)).join("e".repeat(200));
    for folder in [&x, &deep, &x.join("empty")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let content: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, len) in [
        ("none", 0),
        ("one", 1),
        ("block", 512),
        ("more", 513),
        ("large", 1_600_000),
    ] {
        fs::write(x.join(name), &content[..len]).expect("a file");
    }
    fs::write(deep.join("f".repeat(255)), "deep").expect("a file");
    fs::write(x.join(OsStr::from_bytes(b"\xff<>\n\"")), "odd").expect("a file");
    // Names that just fit a header's field.
    for len in 96..=100 {
        fs::write(x.join("n".repeat(len)), len.to_string()).expect("a file");
    }
    let file = File::open(x.join("one")).expect("a file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(time).expect("its time");
    top
}

#[test]
fn f34_times_before_1970_are_in_an_archive() {
    let top = tempfile::tempdir().expect("a directory");
    let x = top.path().join("x");
    fs::create_dir(&x).expect("a folder");
    for seconds in [1, 100_000_000] {
        let file = File::create(x.join(seconds.to_string())).expect("a file");
        let time = SystemTime::UNIX_EPOCH - Duration::from_secs(seconds);
        file.set_modified(time).expect("its time");
    }
    let unpacked = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("tar");
    command.arg("-x").current_dir(unpacked.path());
    feed(&mut command, &pack(top.path(), "/x"));
    for seconds in [1, 100_000_000] {
        let path = unpacked.path().join("x").join(seconds.to_string());
        let time = path.metadata().and_then(|metadata| metadata.modified());
        let expected = SystemTime::UNIX_EPOCH - Duration::from_secs(seconds);
        assert_eq!(time.expect("its time"), expected);
    }
}

#[test]
fn an_archive_contains_the_whole_folder() {
    let top = tree();
    let mut model = BTreeMap::new();
    walk(top.path(), &top.path().join("x"), &mut model);
    // The top folder exists by its content.
    model.remove(&b"x/"[..]);
    assert_eq!(model.len(), 15);
    assert_eq!(read(&pack(top.path(), "/x")), model);
    // For the root, the same beneath a folder name of its own.
    let whole = read(&pack(top.path(), "/"));
    assert_eq!(whole.get(&b"files/x/one"[..]), model.get(&b"x/one"[..]));
    assert_eq!(whole.len(), model.len() + 1);
}

#[test]
fn gnu_tar_unpacks_it() {
    let top = tree();
    let to = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("tar");
    feed(
        command.args(["-x", "-C"]).arg(to.path()),
        &pack(top.path(), "/x"),
    );
    let (mut model, mut unpacked) = (BTreeMap::new(), BTreeMap::new());
    walk(top.path(), &top.path().join("x"), &mut model);
    walk(to.path(), &to.path().join("x"), &mut unpacked);
    assert!(model == unpacked);
    let one = fs::metadata(to.path().join("x/one")).expect("a file");
    let time = one.modified().expect("a time");
    assert_eq!(
        time,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    );
}

#[test]
fn python_lists_it() {
    const SCRIPT: &str = "import sys, tarfile
with tarfile.open(fileobj=sys.stdin.buffer, mode='r|', errors='surrogateescape') as archive:
    for member in archive:
        size = len(archive.extractfile(member).read()) if member.isfile() else 0
        assert size == member.size and member.mode == (0o755 if member.isdir() else 0o644)
        sys.stdout.buffer.write(member.name.encode('utf8', 'surrogateescape') + b'\\0%d\\0' % size)";
    let top = tree();
    let output = feed(
        Command::new("python3").args(["-c", SCRIPT]),
        &pack(top.path(), "/x"),
    );
    let mut fields = output.split(|byte| *byte == 0);
    let mut listed = BTreeMap::new();
    while let (Some(name), Some(size)) = (fields.next(), fields.next()) {
        listed.insert(name.to_vec(), size.to_vec());
    }
    let model: BTreeMap<Vec<u8>, Vec<u8>> = read(&pack(top.path(), "/x"))
        .into_iter()
        .map(|(name, bytes)| {
            let name = name.strip_suffix(b"/").unwrap_or(&name).to_vec();
            (name, bytes.len().to_string().into_bytes())
        })
        .collect();
    assert!(listed == model);
}

#[test]
fn files_above_eight_gibibytes_have_their_size() {
    let top = tempfile::tempdir().expect("a directory");
    let len = (9 << 30) + 1;
    // It has no blocks on the disk.
    File::create(top.path().join("huge"))
        .and_then(|file| file.set_len(len))
        .expect("a file");
    let mut tar = tar(top.path(), "/");
    let chunk = tar.next().expect("a piece").expect("bytes");
    let script = "import sys, tarfile; print(tarfile.TarInfo.frombuf(sys.stdin.buffer.read(512), 'utf8', 'strict').size)";
    let output = feed(
        Command::new("python3").args(["-c", script]),
        &chunk[..BLOCK],
    );
    assert_eq!(String::from_utf8_lossy(&output).trim(), len.to_string());
}

#[test]
fn d13_a_file_that_shrinks_ends_the_archive() {
    let top = tempfile::tempdir().expect("a directory");
    let path = top.path().join("f");
    fs::write(&path, vec![b'x'; 1 << 20]).expect("a file");
    let mut tar = tar(top.path(), "/");
    assert!(matches!(tar.next(), Some(Ok(_))));
    File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(300_000))
        .expect("cut");
    let mut rest: Vec<_> = tar.by_ref().collect();
    assert!(
        matches!(rest.pop(), Some(Err(FolderTarError::FileShrank { path })) if path == "files/f")
    );
    assert!(rest.iter().all(Result::is_ok) && tar.next().is_none());
}

#[test]
fn a_file_that_grows_is_packed_at_its_first_length() {
    let top = tempfile::tempdir().expect("a directory");
    let path = top.path().join("f");
    fs::write(&path, vec![b'x'; 1 << 20]).expect("a file");
    let mut tar = tar(top.path(), "/");
    let mut archive = tar.next().expect("a piece").expect("bytes").to_vec();
    let mut file = File::options().append(true).open(&path).expect("a file");
    io::Write::write_all(&mut file, &[b'y'; 5000]).expect("more");
    tar.for_each(|chunk| archive.extend_from_slice(&chunk.expect("bytes")));
    assert_eq!(read(&archive)[&b"files/f"[..]], vec![b'x'; 1 << 20]);
}

#[test]
fn d2_links_to_files_beneath_the_root_are_packed_and_no_others() {
    let all = tempfile::tempdir().expect("a directory");
    let top = all.path().join("root");
    fs::create_dir_all(top.join("in/side")).expect("folders");
    fs::create_dir(top.join(".haul")).expect("a folder");
    fs::write(top.join(".haul/upload"), "not yet").expect("a file");
    fs::write(all.path().join("secret"), "outside").expect("a file");
    fs::write(top.join("file"), "inside").expect("a file");
    for (to, at) in [
        ("../file", "good"),
        ("../../secret", "out"),
        ("side", "folder"),
        ("..", "above"),
        ("gone", "gone"),
        ("loop", "loop"),
    ] {
        symlink(to, top.join("in").join(at)).expect("a link");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, top.join("in/pipe"), rustix::fs::Mode::RUSR)
        .expect("a pipe");
    let mut archive = tar(&top, "/in");
    let chunks: Vec<Bytes> = archive
        .by_ref()
        .map(|chunk| chunk.expect("bytes"))
        .collect();
    let packed = read(&chunks.concat());
    assert_eq!(
        packed.keys().collect::<Vec<_>>(),
        [&b"in/good"[..], b"in/side/"]
    );
    assert_eq!(packed[&b"in/good"[..]], b"inside");
    // The two that lead to folders. Links that lead out or nowhere are omitted, as in a listing.
    assert_eq!(archive.skipped(), 2);
    assert!(
        read(&pack(&top, "/"))
            .keys()
            .all(|name| !name.windows(5).any(|part| part == b".haul"))
    );
}

#[test]
fn folders_that_are_too_deep_end_the_archive() {
    let top = tempfile::tempdir().expect("a directory");
    let deep = |levels: usize| {
        let path: std::path::PathBuf = std::iter::repeat_n("d", levels).collect();
        fs::create_dir_all(top.path().join(path)).expect("folders");
        tar(top.path(), "/").find_map(Result::err)
    };
    assert!(deep(MAX_DEPTH - 1).is_none());
    assert!(matches!(
        deep(MAX_DEPTH),
        Some(FolderTarError::TooDeep { .. })
    ));
}

#[test]
fn names_of_archives() {
    let key = |path| ObjectKey::parse(path).expect("a key").key;
    assert_eq!(archive_name(&ObjectKey::root()), b"files.tar");
    let name = archive_name(&key("/a/b%FF/"));
    assert_eq!(
        std::ffi::OsString::from_vec(name),
        OsStr::from_bytes(b"b\xff.tar")
    );
}

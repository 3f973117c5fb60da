//! GNU tar unpacks the archives that haul writes.
//!
//! This test has a binary of its own: a child process that is being started holds the file locks of all other tests in
//! its binary.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use haul_transfer::archive::{ArchiveDestination, ArchiveOptions, ShardEntryContent, ShardWriter};
use haul_transfer::disk::StorageWrapping;

fn tar(arguments: &[&str]) -> Option<String> {
    let run = Command::new("tar")
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output();
    let output = run.ok()?;
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn gnu_tar_unpacks_haul_archives() {
    if !tar(&["--version"]).is_some_and(|version| version.contains("GNU tar")) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.tar"), dir.path().join("out"));
    std::fs::create_dir(&out).unwrap();
    let options = ArchiveOptions {
        destination: ArchiveDestination::File(path.clone()),
        shard_size: None,
        wrapping: StorageWrapping::default(),
    };
    let mut shards = ShardWriter::open(options, []).unwrap();
    let names = ["a", "d/e/f", "ä/日本語", "empty", "with space\n"].map(str::to_owned);
    let long = [99, 100, 101, 255].map(|length| "f".repeat(length));
    let deep = [155, 156, 256, 257, 2000].map(|length| "d/".repeat(length / 2) + "f");
    for name in names.iter().chain(&long).chain(&deep) {
        let contents = if name == "empty" {
            String::new()
        } else {
            name.repeat(20)
        };
        let pieces = [Bytes::from(contents)];
        shards
            .append(
                Path::new(name),
                ShardEntryContent::Pieces(&pieces),
                1_000_000_000,
            )
            .unwrap();
    }
    shards.finish().unwrap();
    let path = path.to_str().unwrap();
    tar(&["-xf", path, "-C", out.to_str().unwrap()]);
    for name in names.iter().chain(&long).chain(&deep) {
        let found = std::fs::read_to_string(out.join(name)).unwrap();
        let contents = if name == "empty" {
            String::new()
        } else {
            name.repeat(20)
        };
        assert_eq!(found, contents, "{name}");
    }
    let listed = tar(&["--utc", "--full-time", "-tvf", path]).unwrap();
    assert_eq!(listed.lines().count(), 14);
    let plain =
        |line: &str| line.starts_with("-rw-r--r-- 0/0 ") && line.contains(" 2001-09-09 01:46:40 ");
    assert!(listed.lines().all(plain), "{listed}");
}

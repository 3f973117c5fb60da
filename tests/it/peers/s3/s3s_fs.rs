//! `haul` as a client of s3s-fs 0.14.1, a store built on the crate s3s.
//!
//! It takes minutes to build, so it is used where it is installed: `scripts/bench s3` does that, below the target folder. What it does
//! otherwise than S3: lists say that their keys are escaped, and they are not, so no key here has a `+` or a `%`; lists and parts have no
//! entity tags; there are no tags and no lists of uploads.

use std::path::{Path, PathBuf};

use super::{S3StoreTest, content, print_skipped};
use crate::peers::program::start;

/// Keys that signatures, URLs and lists each write in their own way.
const TREE: [&str; 6] = [
    "a.txt",
    "a/b/日本 (1)",
    "a/it's é~",
    "a/q?x#y&z=1",
    "a-b/!$*,;:@",
    "empty",
];

/// s3s-fs, on `PATH` or where `scripts/bench` installs it.
fn installed() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([target.join("peers/bin")])
        .map(|directory| directory.join("s3s-fs"))
        .find(|program| program.exists());
    if found.is_none() {
        print_skipped("s3s-fs is not installed; scripts/bench s3 does that");
    }
    found
}

/// s3s-fs with a bucket, on the folder `store` of the home directory; `None` where it is not installed.
async fn started() -> Option<S3StoreTest> {
    let program = installed()?;
    let [port] = haul_lab::free_ports();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("store")).unwrap();
    let listen = port.to_string();
    let args = ["--host", "127.0.0.1", "--port", &listen];
    let keys = ["--access-key", "key", "--secret-key", "secret", "store"];
    let args = [&args[..], &keys].concat();
    let server = start(program.to_str().unwrap(), &args, port, home.path()).await;
    Some(S3StoreTest::with_server(server, port, home).await)
}

/// The folder `tree`: small files, and one that goes in parts.
fn write_tree(test: &S3StoreTest) {
    for name in TREE {
        let path = test.dir.path("tree").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if name == "empty" { "" } else { name };
        std::fs::write(&path, text).unwrap();
    }
    test.dir.write("tree/large", content(17_000_003));
}

/// How many files a sync copies and deletes.
async fn synced(test: &S3StoreTest, args: &[&str]) -> usize {
    let args = [&["sync"], args, &["--json"]].concat();
    test.haul(&args).await.lines().count()
}

#[tokio::test]
async fn objects_go_to_s3s_fs_and_back() {
    let Some(test) = started().await else { return };
    write_tree(&test);
    for (name, address) in [
        ("a.txt", "s3://bucket/small"),
        ("large", "s3://bucket/large"),
    ] {
        let file = format!("tree/{name}");
        let flags = ["--part-size", "5M", "--content-type", "text/x"];
        test.haul(&[&["put", "-q", &file, address], &flags[..]].concat())
            .await;
        test.haul(&["get", "-q", address, "-o", name]).await;
        test.shell(&format!("cmp {file} {name}")).await;
    }
    test.haul(&["put", "-q", "-r", "tree", "s3://bucket/tree"])
        .await;
    let mut keys = [&TREE[..], &["large"]].concat();
    keys.sort_unstable();
    let keys: String = keys.iter().map(|key| format!("tree/{key}\n")).collect();
    assert_eq!(test.haul(&["ls", "-r", "s3://bucket/tree/"]).await, keys);
    test.haul(&["get", "-q", "-r", "s3://bucket/tree/", "-d", "down"])
        .await;
    test.shell("diff -r tree down").await;
    let refused = ["put", "tree/large", "s3://bucket/small", "--if-none-match"];
    assert_eq!(test.dir.run(&refused).await.code, 5);
    let url = test.haul(&["presign", "s3://bucket/tree/a/it's é~"]).await;
    let got = format!("curl -sSf --noproxy '*' \"{}\"", url.trim());
    assert_eq!(test.shell(&got).await, "a/it's é~");
    test.haul(&["rm", "-q", "s3://bucket/small"]).await;
    test.haul(&["rm", "-q", "-r", "s3://bucket/tree/"]).await;
    assert_eq!(test.haul(&["ls", "-r", "s3://bucket/"]).await, "large\n");
}

#[tokio::test]
async fn objects_are_copied_inside_s3s_fs() {
    let Some(test) = started().await else { return };
    write_tree(&test);
    test.haul(&["put", "-q", "-r", "tree", "s3://bucket/from"])
        .await;
    for (source, target, flags) in [
        ("s3://bucket/from/large", "s3://bucket/whole", &[][..]),
        (
            "s3://bucket/from/large",
            "s3://bucket/parts",
            &["--part-size", "5M"],
        ),
    ] {
        test.haul(&[&["cp", "-q", source, target], flags].concat())
            .await;
        test.haul(&["get", "-q", target, "-o", "copied"]).await;
        test.shell("cmp tree/large copied; rm copied").await;
    }
    // The list of the sources has no entity tags.
    test.haul(&["cp", "-q", "-r", "s3://bucket/from/", "s3://bucket/to/"])
        .await;
    test.haul(&["get", "-q", "-r", "s3://bucket/to/", "-d", "down"])
        .await;
    test.shell("diff -r tree down").await;
}

#[tokio::test]
async fn a_tree_goes_up_across_and_down_with_s3s_fs() {
    let Some(test) = started().await else { return };
    write_tree(&test);
    let files = TREE.len() + 1;
    let (up, across, down) = (
        ["tree", "s3://bucket/one", "--delete"],
        ["s3://bucket/one", "s3://bucket/two/", "--delete"],
        ["s3://bucket/two", "down", "--delete"],
    );
    for copy in [up, across] {
        assert_eq!(synced(&test, &copy).await, files);
        assert_eq!(synced(&test, &copy).await, 0);
    }
    // Objects are newer than files that have the times of their sources, so later runs get all again: only a list with entity tags would
    // show that they are the same.
    assert_eq!(synced(&test, &down).await, files);
    let find = "find . -type f -printf '%P %T@\\n' | sort";
    let times = format!("(cd tree; {find}) > times; (cd down; {find}) | diff times -");
    test.shell(&format!("diff -r tree down; {times}")).await;
    test.dir.write("tree/a.txt", "longer than before");
    test.shell("rm tree/a/q*").await;
    assert_eq!(synced(&test, &up).await, 2);
    assert_eq!(synced(&test, &across).await, 2);
    synced(&test, &down).await;
    test.shell("diff -r tree down").await;
}

/// Waits until an upload has two parts, for ten seconds at most. The argument is the folder of the store.
const WAIT_FOR_PARTS: &str = r#"
import glob, sys, time
end = time.monotonic() + 10
while time.monotonic() < end:
    if len(glob.glob(f"{sys.argv[1]}/.upload_id-*.part-*")) >= 2:
        sys.exit()
    time.sleep(0.05)
sys.exit("no parts")
"#;

#[tokio::test]
async fn an_upload_to_s3s_fs_that_was_killed_is_finished_by_its_command() {
    let Some(test) = started().await else { return };
    let large = content(23_000_001);
    test.dir.write("large", &large);
    let put = [
        "put",
        "large",
        "s3://bucket/large",
        "--part-size",
        "5M",
        "-x",
        "2",
    ];
    let slow = [&put[..], &["--limit-rate", "6M"]].concat();
    let mut haul = test.dir.command(&slow).spawn().unwrap();
    let store = test.home.path().join("store");
    test.python(WAIT_FOR_PARTS, &[store.to_str().unwrap()])
        .await;
    haul.kill().await.unwrap();
    let pending = "ls -A $HOME/store | grep -c part- || true";
    assert_ne!(test.shell(pending).await, "0\n");
    // It goes on with that upload, and sends all parts again: their list does not say which bytes they have.
    test.haul(&put).await;
    test.haul(&["get", "-q", "s3://bucket/large", "-o", "down"])
        .await;
    assert!(std::fs::read(test.dir.path("down")).unwrap() == large);
    assert_eq!(test.shell(pending).await, "0\n");
}

//! `haul sync` in each direction, with our own server and with moto; and lists that fail.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_lab::{ObjectStore, StoreFault};
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;

use super::{S3StoreTest, content};
use crate::cli::harness::{HaulDirectory, HaulOutput};

/// Files of a small tree, some of which sort otherwise than their folders.
const TREE: [&str; 4] = ["a.txt", "a/b/y", "a/x", "é +&"];

fn write_tree(dir: &HaulDirectory, root: &str) {
    for name in TREE {
        let path = dir.path(root).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
}

/// Makes a file newer, or older, than everything else.
fn set_time(path: &Path, is_newer: bool) {
    let hour = Duration::from_secs(3600);
    let time = if is_newer {
        SystemTime::now() + hour
    } else {
        SystemTime::now() - hour
    };
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Runs a sync that must succeed, and returns the names that it says were copied or deleted.
async fn synced(dir: &HaulDirectory, args: &[&str]) -> Vec<String> {
    let args = [&["sync"], args, &["--json"]].concat();
    let output = dir.run(&args).await;
    assert_eq!(output.code, 0, "{args:?} {output:#?}");
    names(&output)
}

fn names(output: &HaulOutput) -> Vec<String> {
    let name = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(row.get("error").is_none(), "{output:#?}");
        let fields = ["key", "url", "path"];
        let text = fields.iter().find_map(|field| row[field].as_str()).unwrap();
        text.rsplit('/').next().unwrap().to_owned()
    };
    let mut names: Vec<String> = output.stdout.lines().map(name).collect();
    names.sort();
    names
}

async fn a_tree_goes_up_across_and_down(test: &S3StoreTest) {
    let dir = &test.dir;
    write_tree(dir, "tree");
    set_time(&dir.path("tree/a.txt"), false);
    for (source, destination) in [
        ("tree", "s3://bucket/one"),
        ("s3://bucket/one", "s3://bucket/two/"),
        ("s3://bucket/two", "down"),
    ] {
        assert_eq!(synced(dir, &[source, destination]).await.len(), 4);
        assert!(synced(dir, &[source, destination]).await.is_empty());
        let again = synced(dir, &[source, destination, "--checksum", "--delete"]).await;
        assert!(again.is_empty(), "{again:?}");
    }
    for name in TREE {
        let (original, copied) = (dir.path("tree").join(name), dir.path("down").join(name));
        assert_eq!(std::fs::read(&copied).unwrap(), name.as_bytes());
        let time = |path: &Path| path.metadata().unwrap().modified().unwrap();
        assert_eq!(time(&copied), time(&original));
    }
}

#[tokio::test]
async fn a_change_in_the_second_of_the_upload_is_uploaded() {
    let test = S3StoreTest::start_haul(&[]).await;
    let dir = &test.dir;
    let args = ["same-second", "s3://bucket/same-second"];
    std::fs::create_dir(dir.path(args[0])).unwrap();
    let file = dir.path("same-second/f");
    std::fs::write(&file, "v1").unwrap();
    assert_eq!(synced(dir, &args).await, ["f"]);
    // The time of a list is that of the server's file, without its fraction.
    let stored = test.home.path().join("store/bucket/same-second/f");
    let time = std::fs::metadata(&stored).unwrap().modified().unwrap();
    std::fs::write(&file, "v2").unwrap();
    let opened = File::options().write(true).open(&file).unwrap();
    let times = FileTimes::new().set_modified(time);
    opened.set_times(times).unwrap();
    assert_eq!(synced(dir, &args).await, ["f"]);
    assert_eq!(std::fs::read(&stored).unwrap(), b"v2");
    opened.set_times(times).unwrap();
    assert!(synced(dir, &args).await.is_empty());
}

#[tokio::test]
async fn what_lies_behind_a_link_to_a_folder_is_not_deleted() {
    let test = S3StoreTest::start_haul(&[]).await;
    let dir = &test.dir;
    for name in ["links/a", "links/data/x", "links/data/y/z", "links/extra"] {
        let path = dir.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let args = ["links", "s3://bucket/links"];
    assert_eq!(synced(dir, &args).await.len(), 4);
    std::fs::rename(dir.path("links/data"), dir.path("disk")).unwrap();
    std::os::unix::fs::symlink("../disk", dir.path("links/data")).unwrap();
    std::fs::remove_file(dir.path("links/extra")).unwrap();
    let output = dir
        .run(&["sync", args[0], args[1], "--delete", "--max-delete", "1"])
        .await;
    output.assert_code(1);
    let warning = "links/data is a link to a folder, which haul does not follow";
    assert_eq!(output.stderr.matches(warning).count(), 1, "{output:#?}");
    let left = test.haul(&["ls", "-r", "s3://bucket/links/"]).await;
    assert_eq!(left, "links/a\nlinks/data/x\nlinks/data/y/z\n");
}

#[tokio::test]
async fn a_tree_goes_up_across_and_down_with_moto() {
    a_tree_goes_up_across_and_down(&S3StoreTest::start().await).await;
}

#[tokio::test]
async fn a_tree_goes_up_across_and_down_with_our_server() {
    let test = S3StoreTest::start_haul(&[]).await;
    a_tree_goes_up_across_and_down(&test).await;
    let dir = &test.dir;
    // In parts, and the digest of the whole is known.
    dir.write("tree/large", content(17_000_000));
    let up = ["tree", "s3://bucket/one"];
    assert_eq!(synced(dir, &up).await, ["large"]);
    set_time(&dir.path("tree/large"), true);
    let by_content = [&up[..], &["--checksum"]].concat();
    assert!(synced(dir, &by_content).await.is_empty());
    assert_eq!(synced(dir, &up).await, ["large"]);
}

#[tokio::test]
async fn what_differs_is_copied_and_nothing_else() {
    let test = S3StoreTest::start_haul(&[]).await;
    let dir = &test.dir;
    write_tree(dir, "tree");
    let up = ["tree", "s3://bucket/p"];
    synced(dir, &up).await;
    let file = dir.path("tree/a/x");
    let with = |flags: &[&'static str]| [&up[..], flags].concat();
    // Another size, though older.
    dir.write("tree/a/x", "longer than before");
    set_time(&file, false);
    assert!(synced(dir, &with(&["--ignore-existing"])).await.is_empty());
    assert_eq!(synced(dir, &with(&["--existing"])).await, ["x"]);
    // The same size, and older: only the content says it.
    dir.write("tree/a/x", "Longer than before");
    set_time(&file, false);
    assert!(synced(dir, &up).await.is_empty());
    assert_eq!(synced(dir, &with(&["--checksum"])).await, ["x"]);
    set_time(&file, true);
    assert_eq!(synced(dir, &with(&["--checksum"])).await, [""; 0]);
    assert_eq!(synced(dir, &up).await, ["x"]);
    set_time(&file, false);
    // A new file.
    dir.write("tree/new", "new");
    assert!(synced(dir, &with(&["--existing"])).await.is_empty());
    assert!(synced(dir, &with(&["--exclude", "n*"])).await.is_empty());
    assert_eq!(synced(dir, &with(&["--ignore-existing"])).await, ["new"]);
    // Down, into a folder where one file is newer than its object.
    let down = ["s3://bucket/p", "down"];
    assert_eq!(synced(dir, &down).await.len(), 5);
    dir.write("down/a/x", "edited after the download");
    set_time(&dir.path("down/a/x"), true);
    let updated = [&down[..], &["--update"]].concat();
    assert!(synced(dir, &updated).await.is_empty());
    assert_eq!(synced(dir, &down).await, ["x"]);
    assert_eq!(
        std::fs::read(dir.path("down/a/x")).unwrap(),
        b"Longer than before"
    );
}

#[tokio::test]
async fn f28_deletions_come_last_and_only_if_they_are_sure() {
    let test = S3StoreTest::start_haul(&[]).await;
    let dir = &test.dir;
    write_tree(dir, "tree");
    synced(dir, &["tree", "s3://bucket/p"]).await;
    synced(dir, &["s3://bucket/p", "down"]).await;
    let keys = async || {
        let listed = dir.run(&["ls", "-r", "s3://bucket/p/"]).await;
        listed.stdout.lines().count()
    };
    let up = async |flags: &[&str]| {
        let args = [&["sync", "tree", "s3://bucket/p", "--delete"], flags].concat();
        dir.run(&args).await
    };
    std::fs::remove_dir_all(dir.path("tree/a")).unwrap();
    up(&["--max-delete", "1"]).await.assert_code(2);
    up(&["--dry-run"]).await.assert_code(0);
    up(&["--exclude", "a/*"]).await.assert_code(0);
    // A file that cannot be uploaded.
    std::os::unix::fs::symlink("itself", dir.path("tree/itself")).unwrap();
    let failed = up(&[]).await;
    failed.assert_stderr_has("did not delete");
    assert_ne!(failed.code, 0);
    std::fs::remove_file(dir.path("tree/itself")).unwrap();
    assert_eq!(keys().await, 4);
    assert_eq!(names(&up(&["--json"]).await), ["x", "y"]);
    assert_eq!(keys().await, 2);
    // Down: a folder whose files are gone goes, too.
    let down = dir
        .run(&["sync", "s3://bucket/p", "down", "--delete"])
        .await;
    down.assert_code(0);
    assert_eq!(down.stdout.lines().count(), 2, "{down:#?}");
    assert!(!dir.path("down/a").exists() && dir.path("down/a.txt").exists());
    // An empty source is rather a mistake.
    std::fs::create_dir(dir.path("empty")).unwrap();
    let empty = ["sync", "empty", "s3://bucket/p", "--delete"];
    dir.run(&empty).await.assert_code(2);
    assert_eq!(keys().await, 2);
    let allowed = [&empty[..], &["--max-delete", "2"]].concat();
    dir.run(&allowed).await.assert_code(0);
    assert_eq!(keys().await, 0);
}

/// A key that is no path fails, the rest comes, and nothing is deleted.
#[tokio::test]
async fn f16_a_key_that_is_no_path_does_not_stop_a_sync() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for key in ["p/ok", "p/../up", "p/folder/"] {
        store.insert(key, if key.ends_with('/') { b"" } else { b"x" });
    }
    std::fs::create_dir(dir.path("down")).unwrap();
    dir.write("down/extra", "stays");
    let output = dir
        .run(&["sync", "s3://bucket/p", "down", "--delete"])
        .await;
    output.assert_code(1);
    output.assert_stderr_has("segment . or ..");
    output.assert_stderr_has("did not delete");
    assert_eq!(std::fs::read(dir.path("down/ok")).unwrap(), b"x");
    assert!(dir.path("down/extra").exists());
}

/// The second page of a list fails: what it would have had looks as if it were missing.
#[tokio::test]
async fn f28_a_list_that_fails_deletes_nothing() {
    let store = ObjectStore::start_with(|request| {
        let is_second_page = request.has("continuation-token");
        is_second_page.then_some(StoreFault::Error(403, "AccessDenied"))
    })
    .await;
    store.set_page_size(2);
    let dir = directory(&store);
    std::fs::create_dir(dir.path("down")).unwrap();
    for key in ["a", "b", "c", "d"] {
        store.insert(&format!("p/{key}"), b"x");
        dir.write(&format!("down/{key}"), "x");
    }
    let output = dir
        .run(&["sync", "s3://bucket/p", "down", "--delete"])
        .await;
    output.assert_code(1);
    output.assert_stderr_has("AccessDenied");
    assert!(dir.path("down/c").exists() && dir.path("down/d").exists());
}

#[tokio::test]
async fn wrong_words_have_a_hint() {
    let dir = HaulDirectory::new();
    std::fs::create_dir(dir.path("folder")).unwrap();
    for (args, words) in [
        (&["folder", "other"][..], "rsync"),
        (&["none", "s3://bucket/p"], "not a folder"),
        (&["s3://bucket/p", "s3://bucket/p/q"], "inside the other"),
        (&["s3://", "folder"], "s3://BUCKET"),
        (
            &["s3://b/p", "folder", "--sse", "AES256"],
            "no storage class",
        ),
        (&["folder", "s3://b/p", "--max-delete", "1"], "--delete"),
    ] {
        let output = dir.run(&[&["sync"], args].concat()).await;
        output.assert_code(2);
        output.assert_stderr_has(words);
    }
}

/// A directory whose programs use the scripted store.
pub(super) fn directory(store: &ObjectStore) -> HaulDirectory {
    HaulDirectory::new()
        .with_variable("AWS_ENDPOINT_URL_S3", &store.url())
        .with_variable("AWS_ACCESS_KEY_ID", "key")
        .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret")
}

/// Deletions, and what is only shown, end with two signals while nobody reads what they print. The first alone has to end them, too; that
/// is a test of `commands/objects/deletion.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn f28_signals_end_deletions_and_dry_runs() {
    const FILES: usize = 1000;
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("down")).unwrap();
    store.insert("p/keep", b"x");
    for number in 0..FILES {
        store.insert(&format!("q/file-{number}"), b"x");
        dir.write(&format!("down/file-{number}"), "x");
    }
    for args in [
        &["sync", "s3://bucket/p", "down", "--delete"][..],
        &["sync", "-n", "down", "s3://bucket/p"],
        &["cp", "-n", "-r", "s3://bucket/q/", "s3://bucket/r/"],
    ] {
        let mut running = dir.start(args);
        let mut stdout = running.child.stdout.take().unwrap();
        rustix::pipe::fcntl_setpipe_size(&stdout, 4096).unwrap();
        stdout.read_u8().await.unwrap();
        running.signal(Signal::INT);
        running.signal(Signal::TERM);
        running.wait().await.assert_code(130);
    }
    let left = std::fs::read_dir(dir.path("down")).unwrap().count();
    assert!(left > FILES / 2, "{left} files are left");
}

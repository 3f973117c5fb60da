//! `haul put -r`, `put -i` and `haul sync` of folders with odd names, links, and what is not a file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_lab::ObjectStore;
use haul_plan::UnixTime;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;
use crate::peers::test_server::FileOrigin;

/// Names with bytes that URLs do not have, and names that look like each other once they are unescaped.
const NAMES: [&[u8]; 16] = [
    b"ab",
    b"a\tb",
    b"a\nb",
    b"a\rb",
    b"a\r\nb",
    b"a%09b",
    b"a b",
    b"a+b",
    b"a?b",
    b"a#b",
    b"a\\b",
    b"%2e",
    b"%2e%2e",
    b"100%",
    b"caf\xc3\xa9",
    b"a\xffb",
];

fn names(folder: &Path) -> BTreeSet<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_vec())
        .collect()
}

/// A folder `in` whose files contain their names.
fn write_names(dir: &HaulDirectory) {
    std::fs::create_dir(dir.path("in")).unwrap();
    for name in NAMES {
        let path = dir.path("in").join(OsStr::from_bytes(name));
        std::fs::write(path, name).unwrap();
    }
}

#[tokio::test]
async fn f32_each_name_has_a_path_of_its_own() {
    let origin = FileOrigin::start(&["-w"], |_| {}).await;
    let dir = HaulDirectory::new();
    write_names(&dir);
    let output = dir.run(&["put", "-r", "in", &origin.url("up/")]).await;
    output.assert_code(0).assert_stderr_has("16 of 16 files");
    assert_eq!(names(&origin.path("up")), names(&dir.path("in")));
    for name in NAMES {
        let stored = std::fs::read(origin.path("up").join(OsStr::from_bytes(name)));
        assert_eq!(stored.unwrap(), name);
    }
    // A list has no names with a line feed. Those that end with a CR are not those without it.
    dir.write("in/end\r", "CR");
    dir.write("in/end", "no CR");
    dir.write(
        "list",
        b"in/end\r\nin/end\nin/a\tb\nin/caf\xc3\xa9\r\nin/a\xffb\n",
    );
    let output = dir.run(&["put", "-i", "list", &origin.url("l/")]).await;
    output.assert_code(0).assert_stderr_has("5 of 5 files");
    assert_eq!(std::fs::read(origin.path("l/in/end\r")).unwrap(), b"CR");
    assert_eq!(std::fs::read(origin.path("l/in/end")).unwrap(), b"no CR");
}

#[tokio::test]
async fn f32_keys_have_every_byte_of_a_name() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    write_names(&dir);
    for (command, prefix) in [(&["put", "-r"][..], "put/"), (&["sync"], "sync/")] {
        let target = format!("s3://bucket/{prefix}");
        let output = dir.run(&[command, &["in", &target]].concat()).await;
        output.assert_code(1).assert_stderr_has("not UTF-8");
        output.assert_stderr_has("15 of 16 files");
        for name in NAMES.iter().filter_map(|name| str::from_utf8(name).ok()) {
            let object = store.object(&format!("{prefix}{name}")).unwrap();
            assert_eq!(object.bytes, name.as_bytes());
        }
    }
    // They come down under their names.
    let down = dir
        .run(&["get", "-r", "s3://bucket/put/", "-d", "down"])
        .await;
    down.assert_code(0);
    let mut sent = names(&dir.path("in"));
    sent.remove(b"a\xffb".as_slice());
    assert_eq!(names(&dir.path("down")), sent);
}

#[tokio::test]
async fn f32_no_file_replaces_another_of_the_same_command() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for folder in ["a", "b"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
        dir.write(&format!("{folder}/f"), folder);
    }
    let output = dir.run(&["put", "-r", "a", "b", "s3://bucket/up/"]).await;
    output
        .assert_code(1)
        .assert_stderr_has("b/f is not uploaded");
    assert_eq!(store.object("up/f").unwrap().bytes, b"a");
    // The same file twice is one, and what goes to its key is refused.
    let absolute = dir.path("a/f");
    let relative = absolute.strip_prefix("/").unwrap();
    std::fs::create_dir_all(dir.dir.path().join(relative).parent().unwrap()).unwrap();
    std::fs::write(dir.dir.path().join(relative), "other").unwrap();
    let (absolute, relative) = (absolute.display(), relative.display());
    dir.write(
        "list",
        format!("a/f\na/f\na/../b/f\n{absolute}\n{relative}\n"),
    );
    let output = dir.run(&["put", "-i", "list", "s3://bucket/list/"]).await;
    output.assert_code(1).assert_stderr_has("part . or ..");
    output.assert_stderr_has(&format!("{relative} is not uploaded"));
    output.assert_stderr_has("2 of 4 files");
    assert_eq!(
        store.object(&format!("list/{relative}")).unwrap().bytes,
        b"a"
    );
}

#[tokio::test]
async fn f34_times_before_1970_go_up_and_come_down() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("in")).unwrap();
    // Nanoseconds since 1970, and what rclone reads.
    let times = [
        (-100_000_000_i128, "-0.100000000"),
        (-86_400_500_000_000, "-86400.500000000"),
        (-1_000_000_000, "-1.000000000"),
        (1_500_000_000_000_000_005, "1500000000.000000005"),
    ];
    for (time, text) in times {
        let path = dir.write(&format!("in/{text}"), "x");
        let modified = UnixTime::from_nanoseconds(time).to_system_time().unwrap();
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    }
    for (up, prefix) in [(&["put", "-r"][..], "put"), (&["sync"], "sync")] {
        let target = format!("s3://bucket/{prefix}/");
        dir.run(&[up, &["in", &target]].concat())
            .await
            .assert_code(0);
        let down = dir.run(&["get", "-r", &target, "-d", prefix]).await;
        down.assert_code(0);
        for (time, text) in times {
            let object = store.object(&format!("{prefix}/{text}")).unwrap();
            assert_eq!(object.headers["x-amz-meta-mtime"], text);
            let metadata = dir.path(prefix).join(text).metadata().unwrap();
            let modified = UnixTime::from(metadata.modified().unwrap());
            assert_eq!(modified.nanoseconds(), time);
        }
    }
}

/// A folder `in` with one file, and much that is none.
fn write_special_files(dir: &HaulDirectory) {
    std::fs::create_dir_all(dir.path("in/sub")).unwrap();
    std::fs::create_dir(dir.path("outside")).unwrap();
    dir.write("in/sub/file", "file");
    dir.write("outside/x", "x");
    symlink("../outside", dir.path("in/to-folder")).unwrap();
    symlink("sub/file", dir.path("in/to-file")).unwrap();
    for (name, kind) in [("in/fifo", FileType::Fifo), ("in/socket", FileType::Socket)] {
        mknodat(CWD, dir.path(name), kind, Mode::RUSR, 0).unwrap();
    }
}

fn assert_each_is_named(output: &HaulOutput, names: &[&str]) {
    for name in names {
        let count = output.stderr.matches(&format!(": {name} ")).count();
        assert_eq!(count, 1, "{name} {output:#?}");
    }
}

#[tokio::test]
async fn f30_what_is_no_file_is_named_and_counted() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    write_special_files(&dir);
    store.insert("sync/to-folder/kept", b"x");
    store.insert("sync/fifo", b"x");
    store.insert("sync/gone", b"x");
    let left_out = ["in/fifo", "in/socket", "in/to-folder"];
    for (command, prefix) in [
        (&["put", "-r"][..], "put/"),
        (&["sync", "--delete"], "sync/"),
    ] {
        let target = format!("s3://bucket/{prefix}");
        let output = dir.run(&[command, &["in", &target]].concat()).await;
        output.assert_code(1).assert_stderr_has("2 of 5 files");
        output.assert_stderr_has("hint: --follow-links follows such links");
        assert_each_is_named(&output, &left_out);
        assert!(store.object(&format!("{prefix}to-file")).is_some());
        let excluded = [
            "--exclude",
            "fifo",
            "--exclude",
            "socket",
            "--exclude",
            "to-folder/*",
        ];
        let output = dir
            .run(&[command, &["in", &target], &excluded].concat())
            .await;
        output.assert_code(0);
        let dry = dir.run(&[command, &["-n", "in", &target]].concat()).await;
        dry.assert_code(1);
        assert_each_is_named(&dry, &left_out);
    }
    // What is known to be there was not deleted, and the rest was.
    assert!(store.object("sync/to-folder/kept").is_some());
    assert!(store.object("sync/fifo").is_some() && store.object("sync/gone").is_none());
    // By name, too: nobody waits for a writer.
    let output = dir.run(&["put", "in/fifo", "s3://bucket/fifo"]).await;
    output
        .assert_code(2)
        .assert_stderr_has("is a FIFO, not a file");
    dir.write("list", "in/fifo\nin/sub\n");
    let output = dir.run(&["put", "-i", "list", "s3://bucket/list/"]).await;
    output
        .assert_code(1)
        .assert_stderr_has("in/sub is a folder, not a file");
}

#[tokio::test]
async fn f30_links_to_folders_are_followed_on_demand() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir_all(dir.path("in/a")).unwrap();
    std::fs::create_dir(dir.path("outside")).unwrap();
    dir.write("in/a/file", "file");
    dir.write("outside/x", "x");
    symlink("../outside", dir.path("in/out")).unwrap();
    for (command, prefix) in [(&["put", "-r"][..], "put"), (&["sync"], "sync")] {
        let target = format!("s3://bucket/{prefix}/");
        let args = [command, &["in", &target, "--follow-links"]].concat();
        dir.run(&args).await.assert_code(0);
        assert!(store.object(&format!("{prefix}/out/x")).is_some());
        symlink("..", dir.path("in/a/up")).unwrap();
        let looped = dir.run(&args).await;
        looped
            .assert_code(1)
            .assert_stderr_has("in/a/up leads back");
        std::fs::remove_file(dir.path("in/a/up")).unwrap();
    }
    assert_eq!(store.keys().len(), 4);
}

#[tokio::test]
async fn f31_a_sync_does_not_write_behind_a_link() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for key in ["p/a", "p/link/x", "p/link/y/z", "p/link2"] {
        store.insert(key, b"x");
    }
    std::fs::create_dir_all(dir.path("down")).unwrap();
    std::fs::create_dir(dir.path("elsewhere")).unwrap();
    symlink("../elsewhere", dir.path("down/link")).unwrap();
    let fetched =
        || store.count(|request| request.method == "GET" && request.key.contains("link/"));
    for _ in 0..2 {
        let output = dir
            .run(&["sync", "s3://bucket/p", "down", "--delete"])
            .await;
        output.assert_code(1);
        assert_each_is_named(&output, &["down/link"]);
        assert_eq!(names(&dir.path("elsewhere")).len(), 0);
        assert_eq!(fetched(), 0);
        assert!(dir.path("down/a").exists() && dir.path("down/link2").exists());
    }
    let output = dir
        .run(&["sync", "s3://bucket/p", "down", "--exclude", "link/*"])
        .await;
    output.assert_code(0);
    // Followed, both ways: the second run finds what the first one wrote.
    for count in [2, 2] {
        let output = dir
            .run(&["sync", "s3://bucket/p", "down", "--follow-links"])
            .await;
        output.assert_code(0);
        assert_eq!(fetched(), count);
        assert!(dir.path("elsewhere/y/z").exists());
    }
}

/// Whoever can put a link into the folder must not lead files elsewhere. The folder itself may be a link.
#[tokio::test]
async fn f31_files_of_a_batch_are_not_written_behind_a_link() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for key in ["p/a", "p/link/x", "p/link/y/z"] {
        store.insert(key, b"x");
    }
    std::fs::create_dir_all(dir.path("real")).unwrap();
    std::fs::create_dir(dir.path("elsewhere")).unwrap();
    symlink("real", dir.path("down")).unwrap();
    symlink("../elsewhere", dir.path("real/link")).unwrap();
    let origin = FileOrigin::start(&[], |folder| {
        std::fs::write(folder.join("x"), "x").unwrap();
    })
    .await;
    let (x, out) = (origin.url("x"), "out=link/x");
    dir.write("list", format!("{x}\n  {out}\n{x}?2\n  out=b\n"));
    for args in [
        &["get", "-r", "s3://bucket/p/", "-d", "down"][..],
        &["get", "-i", "list", "-d", "down"],
    ] {
        let output = dir.run(args).await;
        output
            .assert_code(1)
            .assert_stderr_has("down/link is in the way: it is a link");
        assert_eq!(names(&dir.path("elsewhere")).len(), 0, "{args:?}");
    }
    let found = names(&dir.path("down"));
    assert_eq!(
        found,
        ["a", "b", "link"]
            .map(|name| name.as_bytes().to_vec())
            .into()
    );
}

/// The author of a list need not be its user.
#[tokio::test]
async fn c2_a_list_names_no_hidden_file() {
    let origin = FileOrigin::start(&[], |folder| {
        std::fs::write(folder.join("x"), "x").unwrap();
    })
    .await;
    let dir = HaulDirectory::new();
    let x = origin.url("x");
    for path in [".bashrc", ".ssh/authorized_keys", "./.profile"] {
        dir.write("list", format!("{x}\n  out={path}\n"));
        let output = dir.run(&["get", "-i", "list", "-d", "home"]).await;
        output.assert_code(1).assert_stderr_has("begins with a dot");
    }
    assert_eq!(names(&dir.path("home")).len(), 0);
    dir.write("list", format!("{x}\n  out=tree/.group\n"));
    let output = dir.run(&["get", "-i", "list", "-d", "home"]).await;
    output.assert_code(0);
    assert!(dir.path("home/tree/.group").exists());
}

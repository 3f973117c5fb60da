//! Downloads that run a second time after objects were replaced: no run leaves old bytes and says that all went well.

use haul_lab::{ObjectStore, StoreRequest};

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;

/// The objects before and after, with their entity tags. Only `p/same` stays.
const BEFORE: [(&str, &str); 4] = [
    ("p/same", "same"),
    ("p/longer", "one"),
    ("p/equal-size", "one"),
    ("p/d/other-tag", "one"),
];
const AFTER: [(&str, &str); 3] = [
    ("p/longer", "two longer"),
    ("p/equal-size", "two"),
    // As after an upload in parts of other sizes.
    ("p/d/other-tag", "one"),
];

fn store_all(store: &ObjectStore, objects: &[(&str, &str)], version: &str) {
    for (number, (key, bytes)) in objects.iter().enumerate() {
        let tag = format!("{version}{number}");
        store.insert_with_etag(key, bytes.as_bytes(), &tag);
    }
}

fn is_get(request: &StoreRequest) -> bool {
    request.method == "GET" && !request.has("list-type")
}

/// Runs the command twice with other objects between. The directory is `down`.
async fn run_twice(
    args: &[&str],
    between: impl FnOnce(&HaulDirectory),
) -> (ObjectStore, HaulDirectory, HaulOutput) {
    let store = ObjectStore::start().await;
    store_all(&store, &BEFORE, "a");
    let dir = directory(&store);
    dir.run(args).await.assert_code(0);
    let again = dir.run(args).await;
    again.assert_code(0);
    let count = store.count(is_get);
    assert_eq!(count, 4, "nothing has changed, and nothing is fetched");
    store_all(&store, &AFTER, "b");
    between(&dir);
    let output = dir.run(args).await;
    (store, dir, output)
}

fn assert_new_files(dir: &HaulDirectory) {
    for (name, bytes) in [
        ("same", "same"),
        ("longer", "two longer"),
        ("equal-size", "two"),
        ("d/other-tag", "one"),
    ] {
        let found = std::fs::read(dir.path(&format!("down/{name}"))).unwrap();
        assert_eq!(found, bytes.as_bytes(), "{name}");
    }
}

#[tokio::test]
async fn f29_objects_that_were_replaced_are_fetched_again() {
    for args in [
        &["get", "-r", "s3://bucket/p/", "-d", "down"][..],
        &[
            "get",
            "-r",
            "s3://bucket/p/",
            "-d",
            "down",
            "--manifest",
            "m.jsonl",
        ],
        &[
            "get",
            "-r",
            "s3://bucket/p/",
            "-d",
            "down",
            "--manifest",
            "m.csv",
            "--overwrite",
        ],
    ] {
        if args.contains(&"--overwrite") {
            // The manifest says what is done, also of files that may be replaced.
            let (_store, dir, output) = run_twice(args, |_| {}).await;
            output.assert_code(0);
            assert_new_files(&dir);
            continue;
        }
        let (store, dir, output) = run_twice(args, |_| {}).await;
        output.assert_code(0).assert_stderr_has("3 of 4 files, 1 ");
        assert_new_files(&dir);
        assert_eq!(store.count(is_get), 4 + 3, "{args:?}");
        dir.run(args).await.assert_code(0);
        assert_eq!(store.count(is_get), 4 + 3, "{args:?}");
    }
}

/// What a user wrote stays, and the run says that it is not what the store has.
#[tokio::test]
async fn f29_an_edited_file_of_an_object_that_was_replaced_stays_and_fails() {
    let args = ["get", "-r", "s3://bucket/p/", "-d", "down"];
    let (_store, dir, output) = run_twice(&args, |dir| {
        dir.write("down/equal-size", "my");
        dir.write("down/longer", "mine");
    })
    .await;
    output
        .assert_code(1)
        .assert_stderr_has("--overwrite replaces the file");
    assert_eq!(std::fs::read(dir.path("down/longer")).unwrap(), b"mine");
    assert_eq!(std::fs::read(dir.path("down/equal-size")).unwrap(), b"my");
    let forced = dir.run(&[&args[..], &["--overwrite"]].concat()).await;
    forced.assert_code(0);
    assert_new_files(&dir);
}

/// The file behind a link is replaced where it is.
#[tokio::test]
async fn f29_links_stay_links() {
    let args = ["get", "-r", "s3://bucket/p/", "-d", "down"];
    let (_store, dir, output) = run_twice(&args, |dir| {
        let (from, to) = (dir.path("down/longer"), dir.path("real"));
        std::fs::rename(&from, &to).unwrap();
        std::os::unix::fs::symlink(&to, &from).unwrap();
    })
    .await;
    output.assert_code(0);
    assert!(dir.path("down/longer").is_symlink());
    assert_eq!(std::fs::read(dir.path("real")).unwrap(), b"two longer");
    assert_new_files(&dir);
}

/// The newer entry of an archive hides the older one where it is unpacked.
#[tokio::test]
async fn f29_an_archive_gets_the_new_objects() {
    let args = [
        "get",
        "-r",
        "s3://bucket/p/",
        "--tar",
        "all.tar",
        "--manifest",
        "m.jsonl",
    ];
    let (store, dir, output) = run_twice(&args, |_| {}).await;
    output.assert_code(0);
    assert_eq!(store.count(is_get), 4 + 3);
    std::fs::create_dir(dir.path("down")).unwrap();
    dir.shell("tar xf all.tar -C down").await.assert_code(0);
    assert_new_files(&dir);
}

/// Lists that a user wrote have sizes and digests, and a manifest knows them.
#[tokio::test]
async fn f29_a_list_with_other_sizes_or_digests_is_not_done() {
    let origin = haul_lab::Origin::builder()
        .resource(
            "/a",
            haul_lab::OriginResource::new(haul_lab::ResourceContent::random(1, 10)),
        )
        .resource(
            "/b",
            haul_lab::OriginResource::new(haul_lab::ResourceContent::random(2, 10)),
        )
        .start()
        .await;
    let dir = HaulDirectory::new();
    let list = |size: u64, content: &haul_lab::ResourceContent| {
        format!(
            "{{\"url\": \"{}\", \"size\": {size}}}\n{{\"url\": \"{}\", \"sha256\": \"{}\"}}\n",
            origin.url("/a"),
            origin.url("/b"),
            content.sha256()
        )
    };
    let args = [
        "get",
        "-i",
        "list.jsonl",
        "-d",
        "down",
        "--manifest",
        "m.jsonl",
    ];
    dir.write(
        "list.jsonl",
        list(10, &haul_lab::ResourceContent::random(2, 10)),
    );
    dir.run(&args).await.assert_code(0);
    let new = [1, 2].map(|seed| haul_lab::ResourceContent::random(seed + 2, 12));
    for (path, content) in ["/a", "/b"].into_iter().zip(&new) {
        origin.replace(path, haul_lab::OriginResource::new(content.clone()));
    }
    dir.write("list.jsonl", list(12, &new[1]));
    let output = dir.run(&args).await;
    // The digest says that the file is another, and not whether it is an older one.
    output
        .assert_code(1)
        .assert_stderr_has("its digest is not the one in the list");
    dir.assert_file("down/a", &new[0]);
}

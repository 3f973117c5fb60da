//! `haul put`, `ls`, `rm`, `presign` and `get s3://` against a scripted store: messages, exit codes.

use haul_lab::{ObjectStore, StoreFault};

use super::harness::{HaulDirectory, HaulOutput};

/// A directory whose programs use the store.
pub(super) fn directory(store: &ObjectStore) -> HaulDirectory {
    HaulDirectory::new()
        .with_variable("AWS_ENDPOINT_URL_S3", &store.url())
        .with_variable("AWS_ACCESS_KEY_ID", "key")
        .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret")
}

#[track_caller]
fn assert_code(output: &HaulOutput, code: i32) {
    assert_eq!(output.code, code, "{output:#?}");
}

#[tokio::test]
async fn objects_go_up_and_come_down_under_any_key() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("a b", "one");
    for key in ["plain", "a b+c%20d", "é/ü&<x>", "q?x#y", "double//slash"] {
        let address = format!("s3://bucket/{key}");
        assert_code(&dir.run(&["put", "a b", &address]).await, 0);
        assert_eq!(store.object(key).unwrap().bytes, b"one", "{key}");
        let down = dir
            .run(&["get", "-g", &address, "-o", "down", "--overwrite"])
            .await;
        assert_code(&down, 0);
        assert_eq!(std::fs::read(dir.path("down")).unwrap(), b"one");
        let listed = dir.run(&["ls", &address]).await;
        assert_code(&listed, 0);
        assert_code(&dir.run(&["rm", &address, "-g"]).await, 0);
        assert_eq!(store.keys().len(), 0, "{key}");
    }
}

#[tokio::test]
async fn a_folder_goes_up_and_comes_down() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir_all(dir.path("tree/a/b")).unwrap();
    for name in ["tree/1.txt", "tree/a/2.txt", "tree/a/b/3.jpg"] {
        dir.write(name, name);
    }
    assert_code(
        &dir.run(&["put", "-r", "tree", "s3://bucket/up", "--exclude", "*.jpg"])
            .await,
        0,
    );
    assert_eq!(store.keys(), ["up/1.txt", "up/a/2.txt"]);
    let metadata = store.object("up/1.txt").unwrap().headers;
    assert!(metadata["x-amz-meta-mtime"].contains('.'), "{metadata:?}");
    assert!(
        metadata["x-amz-meta-s3cmd-attrs"].contains("mode:33"),
        "{metadata:?}"
    );
    assert_eq!(metadata["content-type"], "text/plain");
    let down = dir
        .run(&["get", "-r", "s3://bucket/up/", "-d", "down"])
        .await;
    assert_code(&down, 0);
    assert_eq!(
        std::fs::read(dir.path("down/a/2.txt")).unwrap(),
        b"tree/a/2.txt"
    );
    let listed = dir.run(&["ls", "-r", "s3://bucket/up/"]).await;
    assert_eq!(listed.stdout, "up/1.txt\nup/a/2.txt\n");
    assert_eq!(
        dir.run(&["ls", "s3://bucket/up/"]).await.stdout,
        "a/\n1.txt\n"
    );
}

#[tokio::test]
async fn f16_keys_that_are_no_paths_fail_and_the_rest_comes() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for key in ["p/ok", "p/../up", "p//x", "p/folder/", "p/./y"] {
        store.insert(key, if key.ends_with('/') { b"" } else { b"x" });
    }
    let got = dir
        .run(&["get", "-r", "s3://bucket/p/", "-d", "down"])
        .await;
    assert_code(&got, 1);
    assert!(got.stderr.contains("segment . or .."), "{got:#?}");
    assert_eq!(dir.listing(), ["down"]);
    assert_eq!(std::fs::read_dir(dir.path("down")).unwrap().count(), 1);
}

#[tokio::test]
async fn f28_more_than_the_limit_is_not_deleted() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for number in 0..1500 {
        store.insert(&format!("p/{number}"), b"x");
    }
    let refused = dir
        .run(&["rm", "-r", "s3://bucket/p/", "--max-delete", "1499"])
        .await;
    assert_code(&refused, 2);
    assert_eq!(store.keys().len(), 1500);
    let shown = dir.run(&["rm", "-n", "-r", "s3://bucket/p/"]).await;
    assert_eq!((shown.code, shown.stdout.lines().count()), (0, 1500));
    assert_eq!(store.keys().len(), 1500);
    assert_code(&dir.run(&["rm", "-q", "-r", "s3://bucket/p/"]).await, 0);
    assert_eq!(store.keys().len(), 0);
    assert_eq!(store.count(|request| request.has("delete")), 2);
}

#[tokio::test]
async fn refusals_say_what_the_store_says_and_no_secret() {
    let store = ObjectStore::start_with(|_| Some(StoreFault::Error(403, "AccessDenied"))).await;
    let dir = directory(&store);
    dir.write("f", "x");
    for (args, code) in [
        (&["put", "f", "s3://bucket/f"][..], 5),
        (&["get", "s3://bucket/f"], 5),
        (&["ls", "s3://bucket/"], 5),
        (&["rm", "s3://bucket/f"], 5),
    ] {
        let output = dir.run(args).await;
        assert_code(&output, code);
        assert!(output.stderr.contains("AccessDenied"), "{output:#?}");
        assert!(output.stderr.contains("hint: "), "{output:#?}");
        assert!(!output.stderr.contains("s3cret"));
    }
    let signed = dir.run(&["presign", "s3://bucket/f"]).await;
    assert!(signed.stdout.contains("X-Amz-Signature=") && !signed.stdout.contains("s3cret"));
}

#[tokio::test]
async fn wrong_command_lines_have_a_hint() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("f", "x");
    std::fs::create_dir(dir.path("folder")).unwrap();
    for args in [
        &["put", "f"][..],
        &["put", "f", "folder"],
        &["put", "folder", "s3://bucket/x"],
        &["get", "s3://bucket/"],
        &["get", "s3://bucket/a/../b"],
        &["rm", "s3://bucket"],
        &["rm", "s3://bucket/folder/"],
        &["presign", "s3://bucket"],
        &["ls", "bucket"],
    ] {
        let output = dir.run(args).await;
        assert!(matches!(output.code, 2 | 4), "{args:?} {output:#?}");
        assert!(
            output.stderr.contains("hint: ") || output.stderr.contains("--help"),
            "{args:?} {output:#?}"
        );
    }
    assert_eq!(store.requests().len(), 0);
}

//! What addresses, folders and profiles on the command lines of S3 name, against a scripted store.

use haul_lab::{ObjectStore, StoreFault};

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;

async fn run(dir: &HaulDirectory, args: &[&str], code: i32) -> HaulOutput {
    let output = dir.run(args).await;
    assert_eq!(output.code, code, "{args:?} {output:#?}");
    output
}

#[tokio::test]
async fn an_address_with_r_is_a_folder_and_no_beginning_of_names() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    let siblings = ["photos", "photos-2024/x", "photos.tar"];
    for key in siblings.iter().chain(&["photos/a", "photos/b/c"]) {
        store.insert(key, b"x");
    }
    for folder in ["s3://bucket/photos", "s3://bucket/photos/"] {
        let cp = run(&dir, &["cp", "-n", "-r", folder, "s3://bucket/to"], 0).await;
        let copy =
            |name| format!("would copy s3://bucket/photos/{name} to s3://bucket/to/{name}\n");
        assert_eq!(cp.stdout, copy("a") + &copy("b/c"));
        run(&dir, &["get", "-r", folder, "-d", "down"], 0).await;
        assert!(dir.path("down/b/c").exists());
        assert_eq!(std::fs::read_dir(dir.path("down")).unwrap().count(), 2);
        std::fs::remove_dir_all(dir.path("down")).unwrap();
    }
    let rm = ["rm", "-r", "s3://bucket/photos", "--max-delete", "2"];
    run(&dir, &rm, 0).await;
    assert_eq!(store.keys(), siblings);
    run(&dir, &["rm", "s3://bucket/photos*"], 0).await;
    assert_eq!(store.keys().len(), 0);
}

#[tokio::test]
async fn a_profile_that_is_named_counts_more_than_variables_and_exists() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("f", "x");
    dir.write(
        "credentials",
        "[other]\naws_access_key_id = OTHERKEY\naws_secret_access_key = s\n",
    );
    dir.write("config", "");
    let files = |dir: HaulDirectory| {
        let path = |name| dir.path(name).display().to_string();
        let (config, credentials) = (path("config"), path("credentials"));
        dir.with_variable("AWS_CONFIG_FILE", &config)
            .with_variable("AWS_SHARED_CREDENTIALS_FILE", &credentials)
    };
    let dir = files(dir);
    let presign = ["presign", "s3://bucket/k"];
    let signed = run(&dir, &presign, 0).await;
    assert!(
        signed.stdout.contains("X-Amz-Credential=key%2F"),
        "{signed:#?}"
    );
    let other = [&presign[..], &["--profile", "other"]].concat();
    let signed = run(&dir, &other, 0).await;
    assert!(
        signed.stdout.contains("X-Amz-Credential=OTHERKEY%2F"),
        "{signed:#?}"
    );
    for args in [
        &["ls", "s3://bucket/"][..],
        &["get", "s3://bucket/k"],
        &["put", "f", "s3://bucket/k"],
        &["presign", "s3://bucket/k"],
    ] {
        let refused = run(&dir, &[args, &["--profile", "nope"]].concat(), 2).await;
        let text = &refused.stderr;
        let is_named = text.contains("no AWS profile \"nope\"") && text.contains("/credentials");
        assert!(is_named, "{refused:#?}");
    }
    assert_eq!(store.requests().len(), 0);
    let dir = dir.with_variable("AWS_PROFILE", "nope");
    run(&dir, &presign, 2).await;
    // What needs no profile is not refused.
    let url = format!("{}/bucket/url", store.url());
    run(&dir, &["put", "f", &url], 0).await;
}

#[tokio::test]
async fn a_store_that_never_responds_is_given_up_as_soon_as_by_get() {
    let store = ObjectStore::start_with(|_| Some(StoreFault::Reset)).await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("folder")).unwrap();
    dir.write("folder/f", "x");
    let url = format!("{}/bucket/k", store.url());
    for args in [
        &["get", "s3://bucket/k"][..],
        &["ls", "s3://bucket/"],
        &["rm", "s3://bucket/k"],
        &["put", "folder/f", "s3://bucket/k"],
        &["put", "folder/f", &url],
        &["sync", "folder", "s3://bucket/k"],
    ] {
        let before = store.requests().len();
        run(&dir, args, 5).await;
        assert_eq!(store.requests().len() - before, 4, "{args:?}");
    }
}

#[tokio::test]
async fn what_names_nothing_is_an_error() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    store.insert("p/a", b"x");
    std::fs::create_dir(dir.path("folder")).unwrap();
    dir.write("folder/a", "x");
    dir.write("folder/b.haul-part", "x");
    for (args, text) in [
        (
            &["get", "-r", "s3://bucket/typo"][..],
            "there is no object below s3://bucket/typo/",
        ),
        (
            &["get", "s3://bucket/zz*"],
            "there is no object at s3://bucket/zz*",
        ),
        (
            &["get", "-r", "s3://bucket/p", "--include", "*.jpg"],
            "there is no object below s3://bucket/p/ that --include and --exclude leave",
        ),
        (
            &["put", "-r", "folder", "s3://bucket/x", "--include", "*.jpg"],
            "none of the 2 files in folder is left by --include and --exclude",
        ),
        (
            &[
                "put",
                "-n",
                "-r",
                "folder",
                "s3://bucket/x",
                "--include",
                "*.jpg",
            ],
            "none of the 2 files in folder",
        ),
    ] {
        run(&dir, args, 1).await.assert_stderr_has(text);
    }
    for (args, text) in [
        (
            ["sync", "s3://bucket/s*", "down"],
            "s3://bucket/s* is a pattern",
        ),
        (
            ["sync", "s3://bucket/p", "file://x"],
            "does not begin with s3://",
        ),
    ] {
        run(&dir, &args, 2).await.assert_stderr_has(text);
    }
    let put = run(&dir, &["put", "-r", "folder", "s3://bucket/x"], 0).await;
    put.assert_stderr_has("1 of 1 files, 1 partial files of haul left out");
}

#[tokio::test]
async fn a_manifest_that_cannot_be_written_is_the_error_and_no_interruption() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for number in 0..100 {
        dir.write(&format!("f{number}"), "x");
    }
    // No file may have more than a block, and the rows of a hundred uploads have more.
    let binary = env!("CARGO_BIN_EXE_haul");
    let line = format!("ulimit -f 1; exec {binary} put f* s3://bucket/ --manifest m.jsonl");
    let output = dir.shell(&line).await;
    output.assert_code(4).assert_stderr_has("m.jsonl");
    assert!(!output.stderr.contains("interrupted"), "{output:#?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_has_content_is_not_stored_as_nothing() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("empty", "");
    run(&dir, &["put", "empty", "s3://bucket/empty"], 0).await;
    let virtual_file = run(&dir, &["put", "/proc/version", "s3://bucket/v"], 4).await;
    virtual_file.assert_stderr_has("its size is 0, but it is not empty");
    let binary = env!("CARGO_BIN_EXE_haul");
    for words in ["- s3://bucket/v", "-i - s3://bucket/v/"] {
        let closed = dir.shell(&format!("exec {binary} put {words} <&-")).await;
        closed
            .assert_code(2)
            .assert_stderr_has("standard input is closed");
    }
    let line = format!("cat /proc/version | {binary} put - s3://bucket/v");
    dir.shell(&line).await.assert_code(0);
    assert_eq!(store.keys(), ["empty", "v"]);
    assert!(!store.object("v").unwrap().bytes.is_empty());
}

#[tokio::test]
async fn what_no_request_can_say_is_a_usage_error() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("folder")).unwrap();
    dir.write("f", "x");
    let put = ["put", "f", "s3://bucket/f"];
    for (flags, text) in [
        (
            &["--metadata", "a=\u{fc}"][..],
            "--metadata a: the value is not ASCII",
        ),
        (
            &["--addressing-style", "virtual"],
            "the request cannot be sent",
        ),
        (&["--part-size", "6G"], "is not a part size"),
    ] {
        let refused = run(&dir, &[&put[..], flags].concat(), 2).await;
        refused.assert_stderr_has(text);
        assert!(
            !refused.stderr.contains("AWS_ACCESS_KEY_ID"),
            "{refused:#?}"
        );
    }
    let folder = run(&dir, &["put", "folder", "s3://bucket/"], 2).await;
    folder.assert_stderr_has("-r uploads everything below it");
    assert_eq!(store.requests().len(), 0);
}

#[tokio::test]
async fn names_go_into_a_pipe_as_they_are() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    store.insert("p/a\tb", b"x");
    let listed = run(&dir, &["ls", "s3://bucket/p/"], 0).await;
    assert_eq!(listed.stdout, "a\tb\n");
}

#[tokio::test]
async fn messages_name_the_endpoint() {
    let store = ObjectStore::start_with(|_| Some(StoreFault::Error(403, "AccessDenied"))).await;
    let dir = directory(&store);
    let at = format!("at {}: AccessDenied", store.url());
    let buckets = run(&dir, &["ls"], 5).await;
    buckets.assert_stderr_has(&format!("ListBuckets {at}"));
    let objects = run(&dir, &["ls", "s3://bucket/x"], 5).await;
    objects.assert_stderr_has(&format!(" s3://bucket/ {at}"));
}

//! `haul put`, `ls`, `rm`, `presign` and `get s3://` against a scripted store: messages, exit codes.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_lab::{
    ObjectStore, OriginResource, RequestMatcher, ResourceContent, StoreFault, StoreRequest, faults,
    within,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::harness::{HaulDirectory, HaulOutput, LIMIT};

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

#[tokio::test]
async fn f7_an_object_is_not_compared_with_an_entity_tag_that_is_no_md5() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    let bytes = vec![7; 3 << 20];
    // Of parts, and of an object that the store has encrypted.
    for (key, etag) in [
        ("parts", "9b2cf535f27731c974343645a3985328-2"),
        ("encrypted", "00000000000000000000000000000000"),
    ] {
        store.insert_with_etag(key, &bytes, etag);
        let address = format!("s3://bucket/{key}");
        assert_code(&dir.run(&["get", &address, "-o", key]).await, 0);
        assert!(std::fs::read(dir.path(key)).unwrap() == bytes, "{key}");
        let folder = ["get", "-r", "s3://bucket/", "-d", "folder", "--overwrite"];
        assert_code(&dir.run(&folder).await, 0);
        let found = std::fs::read(dir.path("folder").join(key)).unwrap();
        assert!(found == bytes, "{key} in a folder");
    }
}

#[tokio::test]
async fn f17_an_encoded_object_is_kept_as_it_is() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    // A head of gzip; nobody may look behind it.
    let large: Vec<u8> = [0x1f, 0x8b, 8, 0]
        .into_iter()
        .cycle()
        .take(9 << 20)
        .collect();
    for (name, bytes) in [("small", &large[..1000]), ("large", &large)] {
        dir.write(name, bytes);
        let address = format!("s3://bucket/{name}");
        let put = ["put", name, &address, "--content-encoding", "gzip"];
        assert_code(&dir.run(&put).await, 0);
        for (down, flags) in [("alone", &["-o", "alone"][..]), ("d/same", &["-d", "d"])] {
            let get = [&["get", &address, "--json", "--overwrite"], flags].concat();
            let got = dir.run(&get).await;
            assert_code(&got, 0);
            let down = down.replace("same", name);
            assert!(std::fs::read(dir.path(&down)).unwrap() == bytes, "{down}");
            let size = format!("\"bytes\":{}", bytes.len());
            assert!(got.stdout.contains(&size), "{got:#?}");
        }
        let listed = dir.run(&["ls", "--json", &address]).await;
        let size = format!("\"size\":{}", bytes.len());
        assert!(listed.stdout.contains(&size), "{listed:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f25_an_object_that_ends_early_is_fetched_to_its_end() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for length in [1000, 5 << 20] {
        let bytes: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[1]).collect();
        store.insert("key", &bytes);
        let mut left = 2;
        store.set_rule(move |request| {
            left -= 1;
            (left >= 0 && request.method == "GET").then_some(StoreFault::CutBody)
        });
        let get = ["get", "s3://bucket/key", "-o", "down", "--overwrite"];
        assert_code(&dir.run(&get).await, 0);
        assert!(std::fs::read(dir.path("down")).unwrap() == bytes);
        std::fs::remove_file(dir.path("down")).unwrap();
        // One that never comes whole is no file.
        store.set_rule(|_| Some(StoreFault::CutBody));
        let failed = dir.run(&[&get[..], &["--retries", "1"]].concat()).await;
        assert_code(&failed, 5);
        assert!(!dir.path("down").exists());
        for name in dir.listing() {
            std::fs::remove_file(dir.path(&name)).ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f25_an_object_that_is_replaced_between_ranges_comes_in_one_version() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    let (old, new) = (vec![1; 8 << 20], vec![2; (8 << 20) + 5]);
    store.insert("key", &old);
    let is_replaced = Arc::new(AtomicBool::new(false));
    let (sender, mut arrived) = mpsc::channel(1);
    let (shared, mut number) = (Arc::clone(&is_replaced), 0);
    store.set_rule(move |_| {
        number += 1;
        let waits = number > 3 && !shared.load(Ordering::Relaxed);
        if waits {
            // The test waits for the first only.
            let _ = sender.try_send(());
        }
        waits.then_some(StoreFault::Error(503, "SlowDown"))
    });
    let get = ["get", "s3://bucket/key", "-o", "down", "-x", "2"];
    let get = [&get[..], &["--segment-size", "1M"]].concat();
    let haul = dir.command(&get).spawn().unwrap();
    within(LIMIT, arrived.recv()).await.unwrap();
    store.insert("key", &new);
    is_replaced.store(true, Ordering::Relaxed);
    let output = within(LIMIT, haul.wait_with_output()).await.unwrap();
    assert_code(&HaulOutput::from_output(output), 0);
    assert!(std::fs::read(dir.path("down")).unwrap() == new);
}

#[tokio::test]
async fn a_list_goes_up_and_its_manifest_says_what_is_done() {
    let store = ObjectStore::start_with(|request| {
        let is_refused = request.method == "PUT" && request.key == "p/tree/c";
        is_refused.then_some(StoreFault::Error(403, "AccessDenied"))
    })
    .await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("tree")).unwrap();
    for name in ["tree/a", "tree/b", "tree/c"] {
        dir.write(name, name);
    }
    dir.write("list", "./tree/a\n\ntree/b\ntree/c\ntree/none\n");
    let args = [
        "put",
        "-i",
        "list",
        "s3://bucket/p",
        "--manifest",
        "m.jsonl",
    ];
    let first = dir.run(&args).await;
    assert_code(&first, 1);
    assert!(first.stderr.contains("AccessDenied"), "{first:#?}");
    assert_eq!(store.keys(), ["p/tree/a", "p/tree/b"]);
    // One file changes, and keeps its size.
    dir.write("tree/b", "other!");
    std::fs::remove_file(dir.path("tree/a")).unwrap();
    dir.write("tree/a", "tree/a");
    store.set_rule(|_| None);
    let puts = || store.count(|request| request.method == "PUT");
    let before = puts();
    let second = dir.run(&args).await;
    assert_code(&second, 1);
    assert!(second.stderr.contains("1 done before"), "{second:#?}");
    assert_eq!(puts() - before, 2);
    assert_eq!(store.object("p/tree/b").unwrap().bytes, b"other!");
    assert_eq!(store.keys(), ["p/tree/a", "p/tree/b", "p/tree/c"]);
    let rows = std::fs::read_to_string(dir.path("m.jsonl")).unwrap();
    assert_eq!(rows.matches("\"state\":\"done\"").count(), 4, "{rows}");
    assert!(rows.contains("\"url\":\"s3://bucket/p/tree/c\""), "{rows}");
    let stdin = "cat list | $HAUL put -i - s3://bucket/q -q";
    let line = stdin.replace("$HAUL", env!("CARGO_BIN_EXE_haul"));
    assert_code(&dir.shell(&line).await, 1);
    assert_eq!(store.keys().len(), 6);
}

/// Each line of a list is uploaded before the next comes.
#[tokio::test]
async fn c9_a_list_of_uploads_is_read_line_by_line() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    let mut command = dir.command(&["put", "-i", "-", "s3://bucket/p/", "--json"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut results = BufReader::new(child.stdout.take().unwrap()).lines();
    for name in ["a", "b", "c"] {
        dir.write(name, name);
        stdin
            .write_all(format!("{name}\n").as_bytes())
            .await
            .unwrap();
        let result = within(LIMIT, results.next_line()).await.unwrap().unwrap();
        assert!(
            result.contains(&format!("s3://bucket/p/{name}")),
            "{result}"
        );
    }
    drop(stdin);
    assert!(within(LIMIT, child.wait()).await.unwrap().success());
    assert_eq!(store.keys(), ["p/a", "p/b", "p/c"]);
}

/// `--checksum` for standard input, and a store that refuses checksums (row F8).
#[tokio::test]
async fn f8_standard_input_has_the_checksum_that_the_store_takes() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("large", vec![7; 6 << 20]);
    let haul = env!("CARGO_BIN_EXE_haul");
    let put = async |flags: &str| {
        for (number, input) in ["printf small", "cat large"].iter().enumerate() {
            let target = format!("s3://bucket/{number}");
            let line = format!("{input} | {haul} put - {target} --part-size 5M {flags}");
            assert_code(&dir.shell(&line).await, 0);
        }
    };
    put("--checksum sha256").await;
    let sent = |field: &'static str| {
        let is_sent = move |request: &StoreRequest| {
            request.method == "PUT" && request.headers.contains_key(field)
        };
        store.count(is_sent)
    };
    assert_eq!(sent("x-amz-checksum-sha256"), 3);
    assert_eq!(sent("x-amz-checksum-crc64nvme"), 0);
    store.refuse_checksums();
    put("").await;
    assert_eq!(sent("content-md5"), 3);
    assert_eq!(store.object("0").unwrap().bytes, b"small");
    assert_eq!(store.object("1").unwrap().bytes.len(), 6 << 20);
}

#[tokio::test]
async fn f33_the_parts_of_standard_input_are_equal_and_as_large_as_its_expected_size_needs() {
    let haul = env!("CARGO_BIN_EXE_haul");
    // 10,000 parts of 16 MiB hold 156 GiB.
    for (flags, part) in [("", 16 << 20), ("--expected-size 200G", 22 << 20)] {
        let store = ObjectStore::start().await;
        let dir = directory(&store);
        dir.write("large", vec![7; 70 << 20]);
        let line = format!("cat large | {haul} put - s3://bucket/large {flags}");
        assert_code(&dir.shell(&line).await, 0);
        assert_eq!(store.object("large").unwrap().bytes.len(), 70 << 20);
        let mut lengths: Vec<_> = store
            .requests()
            .into_iter()
            .filter(|request| request.has("partNumber"))
            .map(|request| request.body_length)
            .collect();
        lengths.sort_unstable();
        let last = lengths.remove(0);
        assert!(last < part, "{last}");
        assert!(lengths.iter().all(|length| *length == part), "{lengths:?}");
    }
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("large", "x");
    for (args, words) in [
        (
            "put - s3://bucket/k --expected-size 1T --part-size 5M",
            "more than 10,000",
        ),
        (
            "put - s3://bucket/k --expected-size 100T",
            "10,000 parts of 5 GiB",
        ),
        (
            "put large s3://bucket/k --expected-size 1T",
            "--expected-size is about standard input",
        ),
    ] {
        let output = dir.shell(&format!("cat large | {haul} {args}")).await;
        assert_code(&output, 2);
        output.assert_stderr_has(words);
        assert_eq!(store.requests().len(), 0, "{args}");
    }
}

#[tokio::test]
async fn f2_a_lost_response_about_standard_input_is_looked_up() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    dir.write("large", vec![7; 6 << 20]);
    let haul = env!("CARGO_BIN_EXE_haul");
    for input in ["printf small", "cat large"] {
        let mut left = 1;
        store.set_rule(move |request| {
            let is_last = request.is_complete() || request.method == "PUT" && !request.is_part();
            let is_now = is_last && left > 0;
            left -= usize::from(is_now);
            is_now.then_some(StoreFault::LostResponse)
        });
        let target = format!("s3://bucket/{}", input.len());
        let line = format!("{input} | {haul} put - {target} --part-size 5M --if-none-match");
        assert_code(&dir.shell(&line).await, 0);
        assert!(store.object(&input.len().to_string()).is_some());
    }
}

/// The second of two arguments with one target is refused, as by cp(1): it would replace the first.
#[tokio::test]
async fn arguments_of_the_same_name_do_not_replace_each_other() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    for folder in ["a", "b"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
        dir.write(&format!("{folder}/f"), folder);
    }
    let output = dir.run(&["put", "a/f", "b/f", "s3://bucket/up/"]).await;
    assert_code(&output, 1);
    output.assert_stderr_has("another f was");
    assert_eq!(store.object("up/f").unwrap().bytes, b"a");
}

/// A service of credentials whose response leads elsewhere: the token is for the service alone (row F6).
#[tokio::test]
async fn f6_a_token_for_credentials_follows_no_redirect() {
    let elsewhere = ObjectStore::start().await;
    let service = haul_lab::Origin::builder()
        .resource(
            "/credentials",
            OriginResource::new(ResourceContent::random(1, 10)).rule(
                RequestMatcher::always(),
                faults::redirect(302, elsewhere.url()),
            ),
        )
        .start()
        .await;
    let store = ObjectStore::start().await;
    let dir = HaulDirectory::new()
        .with_variable("AWS_ENDPOINT_URL_S3", &store.url())
        .with_variable("AWS_EC2_METADATA_DISABLED", "true")
        .with_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token")
        .with_variable(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &service.url("/credentials"),
        );
    let listed = dir.run(&["ls", "s3://bucket/"]).await;
    assert_ne!(listed.code, 0, "{listed:#?}");
    assert!(!service.requests().is_empty(), "{listed:#?}");
    assert!(elsewhere.requests().is_empty(), "{listed:#?}");
}

/// Without TLS somebody on the way could replace a body and its checksum: the signature covers its SHA-256, which the store compares.
#[tokio::test]
async fn f8_over_plain_http_signatures_cover_the_bytes() {
    for length in [1000, 1 << 20, 11 << 20] {
        for flags in [
            &[][..],
            &["--checksum", "sha256"],
            &["--checksum", "crc32c"],
        ] {
            let store = ObjectStore::start().await;
            let dir = directory(&store);
            dir.write("file", vec![7; length]);
            let put = ["put", "file", "s3://bucket/key", "--part-size", "5M"];
            assert_code(&dir.run(&[&put, flags].concat()).await, 0);
            assert_eq!(store.object("key").unwrap().bytes.len(), length);
            let is_signed = |request: &StoreRequest| {
                let digest = request.headers.get("x-amz-content-sha256");
                digest.is_some_and(|digest| digest.len() == 64)
            };
            assert_eq!(store.count(|request| !is_signed(request)), 0);
            let has_checksum = |request: &StoreRequest| {
                request.method == "PUT" && request.headers.contains_key("x-amz-checksum-sha256")
            };
            let is_wanted = flags.contains(&"sha256");
            assert_eq!(store.count(has_checksum) > 0, is_wanted, "{flags:?}");
        }
    }
}

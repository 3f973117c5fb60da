//! Lists of a store that cannot be had: of a bucket that does not exist, and lists without an end. And what a list leads to.

use std::time::Duration;

use haul_lab::{ObjectStore, StoreFault, StoreRequest, within};
use rustix::process::Signal;

use super::harness::HaulDirectory;
use super::s3::directory;

/// A page with the objects `p/a` and `p/b`, and what follows it.
macro_rules! page {
    ($objects:literal, $next:literal) => {
        concat!(
            "<ListBucketResult><IsTruncated>true</IsTruncated>",
            $objects,
            $next,
            "</ListBucketResult>"
        )
    };
}

/// Lists that do not advance.
const STUCK: [(&str, &str); 4] = [
    (
        "the same token",
        page!(
            "<Contents><Key>p/a</Key><Size>1</Size><ETag>\"x\"</ETag></Contents>",
            "<NextContinuationToken>t</NextContinuationToken>"
        ),
    ),
    (
        "the same token, and nothing",
        page!("", "<NextContinuationToken>t</NextContinuationToken>"),
    ),
    (
        "no token",
        page!(
            "<Contents><Key>p/a</Key><Size>1</Size><ETag>\"x\"</ETag></Contents>",
            ""
        ),
    ),
    ("nothing at all", page!("", "")),
];

fn is_list(request: &StoreRequest) -> bool {
    request.has("list-type")
}

/// The commands that list, each with a target of its own.
const COMMANDS: [&[&str]; 6] = [
    &["get", "-r", "s3://bucket/p/", "-d", "down"],
    &["ls", "s3://bucket/p/"],
    &["ls", "-r", "s3://bucket/p/"],
    &["rm", "-r", "s3://bucket/p/"],
    &["cp", "-r", "s3://bucket/p/", "s3://bucket/q/"],
    &["sync", "s3://bucket/p/", "down", "--delete"],
];

#[tokio::test]
async fn f36_a_list_that_does_not_advance_is_told_at_once_and_nothing_is_deleted() {
    for (what, document) in STUCK {
        for command in COMMANDS {
            let store = ObjectStore::start().await;
            store.insert("p/a", b"x");
            store.set_rule(move |request| {
                is_list(request).then_some(StoreFault::Document(document))
            });
            let dir = directory(&store);
            std::fs::create_dir(dir.path("down")).unwrap();
            dir.write("down/mine", "x");
            let output = dir.run(command).await;
            assert_ne!(output.code, 0, "{what} {command:?} {output:#?}");
            output.assert_stderr_has("the list of the store does not advance");
            let count = store.count(is_list);
            assert!(count <= 3, "{what} {command:?}: {count} requests");
            assert_eq!(store.count(|request| request.method == "POST"), 0);
            assert!(store.object("p/a").is_some() && dir.path("down/mine").exists());
        }
    }
}

/// Whose tokens are new each time: the objects say that it does not advance.
#[tokio::test]
async fn f36_a_list_that_repeats_its_objects_ends() {
    let store = ObjectStore::start().await;
    let pages = [
        page!(
            "<Contents><Key>p/a</Key><Size>1</Size></Contents>",
            "<NextContinuationToken>t1</NextContinuationToken>"
        ),
        page!(
            "<Contents><Key>p/a</Key><Size>1</Size></Contents>",
            "<NextContinuationToken>t2</NextContinuationToken>"
        ),
    ];
    let mut number = 0;
    store.set_rule(move |request| {
        number += usize::from(is_list(request));
        is_list(request).then(|| StoreFault::Document(pages[number % 2]))
    });
    let dir = directory(&store);
    for command in COMMANDS {
        let output = dir.run(command).await;
        assert_ne!(output.code, 0, "{command:?} {output:#?}");
        output.assert_stderr_has("does not advance");
    }
    assert_eq!(store.count(|request| request.method == "POST"), 0);
}

#[tokio::test]
async fn a_bucket_that_cannot_be_listed_is_named_with_what_to_do() {
    let store = ObjectStore::start().await;
    store.set_rule(|request| is_list(request).then_some(StoreFault::Error(404, "NoSuchBucket")));
    let dir = directory(&store);
    for args in [
        &["get", "-r", "s3://nobucket"][..],
        &["get", "s3://nobucket/*.jpg"],
        &["get", "-r", "s3://nobucket", "--manifest", "m.jsonl"],
    ] {
        let output = dir.run(args).await;
        output.assert_code(5);
        output.assert_stderr_has("s3://nobucket/");
        output.assert_stderr_has("NoSuchBucket (404)");
        output.assert_stderr_has("hint: haul ls lists the buckets");
        assert_eq!(output.stderr.lines().count(), 2, "{output:#?}");
        let json = dir.run(&[args, &["--json"]].concat()).await;
        let object: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(object["error"]["class"], "network");
    }
}

/// A signal while the store is silent: what was listed so far is not all, whatever has become of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f39_a_list_that_a_signal_ends_is_not_complete() {
    for silent_from in [1, 2] {
        for command in [
            &["get", "-r", "s3://bucket/p/", "-d", "down"][..],
            &["get", "s3://bucket/p/*", "-d", "down"],
            &["get", "-r", "s3://bucket/p/", "--tar", "p.tar"],
            &["sync", "s3://bucket/p/", "down"],
            &["sync", "--delete", "s3://bucket/p/", "down"],
            &["sync", "-n", "s3://bucket/p/", "down"],
            &["sync", "--delete", "s3://bucket/p/", "s3://bucket/q/"],
            &["cp", "-r", "s3://bucket/p/", "s3://bucket/q/"],
            &["ls", "-r", "s3://bucket/p/"],
            &["rm", "-r", "s3://bucket/p/"],
        ] {
            let store = ObjectStore::start().await;
            for number in 0..30 {
                store.insert(&format!("p/{number:02}"), b"x");
            }
            store.set_page_size(10);
            let mut lists = 0;
            store.set_rule(move |request| {
                lists += usize::from(is_list(request) && request.query["prefix"] == "p/");
                (is_list(request) && lists >= silent_from).then_some(StoreFault::Silence)
            });
            let dir = directory(&store);
            let _ = std::fs::create_dir(dir.path("down"));
            let running = dir.start(command);
            let silent = async {
                while store.count(is_list) < silent_from {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            within(Duration::from_secs(20), silent).await;
            running.signal(Signal::INT);
            let output = running.wait().await;
            assert_eq!(output.code, 130, "{silent_from} {command:?} {output:#?}");
            assert_eq!(store.count(|request| request.method == "POST"), 0);
        }
    }
}

/// A store that names neither whether a page is the last one nor what follows it.
#[tokio::test]
async fn f39_a_full_page_that_does_not_say_whether_it_is_the_last_one_is_no_list() {
    let store = ObjectStore::start().await;
    store.insert("p/a", b"x");
    let page = "<ListBucketResult><MaxKeys>1</MaxKeys><Contents><Key>p/a</Key><Size>1</Size></Contents></ListBucketResult>";
    store.set_rule(move |request| is_list(request).then_some(StoreFault::Document(page)));
    let dir = directory(&store);
    std::fs::create_dir(dir.path("down")).unwrap();
    dir.write("down/mine", "x");
    for command in COMMANDS {
        let output = dir.run(command).await;
        assert_ne!(output.code, 0, "{command:?} {output:#?}");
        output.assert_stderr_has("it does not say whether it is complete");
        assert!(dir.path("down/mine").exists());
    }
}

/// A file of a folder that is in the way of an object is not deleted for it.
#[tokio::test]
async fn f28_a_folder_in_the_way_of_an_object_keeps_its_files() {
    let store = ObjectStore::start().await;
    store.insert("p/data", b"x");
    store.insert("p/z", b"x");
    let dir = directory(&store);
    std::fs::create_dir_all(dir.path("down/data")).unwrap();
    dir.write("down/data/mine", "x");
    let sync = ["sync", "--delete", "s3://bucket/p/", "down"];
    let output = dir.run(&sync).await;
    output
        .assert_code(1)
        .assert_stderr_has("down/data is a directory")
        .assert_stderr_has("haul did not delete");
    assert!(dir.path("down/data/mine").exists() && dir.path("down/z").exists());
}

/// The rest of the command goes on.
#[tokio::test]
async fn what_was_listed_before_comes_and_the_exit_code_says_the_rest() {
    let store = ObjectStore::start().await;
    for number in 0..30 {
        store.insert(&format!("p/{number:02}"), b"x");
    }
    store.set_page_size(10);
    let is_later =
        |request: &StoreRequest| request.has("continuation-token") || request.has("delimiter");
    store.set_rule(move |request| {
        is_later(request).then_some(StoreFault::Error(403, "AccessDenied"))
    });
    let dir = directory(&store);
    let output = dir
        .run(&["get", "-r", "s3://bucket/p/", "-d", "down"])
        .await;
    output
        .assert_code(1)
        .assert_stderr_has("AccessDenied (403)");
    assert_eq!(std::fs::read_dir(dir.path("down")).unwrap().count(), 10);
}

#[tokio::test]
async fn an_empty_object_is_no_retry() {
    let store = ObjectStore::start().await;
    store.insert("p/empty", b"");
    store.insert("p/full", b"x");
    let dir: HaulDirectory = directory(&store);
    let output = dir
        .run(&["get", "-r", "s3://bucket/p/", "-d", "down"])
        .await;
    output.assert_code(0).assert_stderr_has("2 of 2 files");
    assert!(!output.stderr.contains("retries"), "{output:#?}");
    assert_eq!(std::fs::read(dir.path("down/empty")).unwrap(), b"");
}

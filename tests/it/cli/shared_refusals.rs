//! Refusals that would hit every file of a run: they are told once, and the run ends (row F35).

use haul_lab::{ObjectStore, StoreFault, StoreRequest};

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;

/// So many that a run which ends has not tried them all.
const FILES: usize = 400;

/// More requests than this mean that the run has not ended: 50 files decide, and others are under way then.
const MAX_REQUESTS: usize = 250;

/// A store and a directory, both with the same files: the source of every command.
async fn case() -> (ObjectStore, HaulDirectory) {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir(dir.path("up")).unwrap();
    for number in 0..FILES {
        store.insert(&format!("p/{number:03}"), b"x");
        dir.write(&format!("up/{number:03}"), "x");
    }
    (store, dir)
}

/// The commands, each with the requests that change or read a file.
type Command = (&'static [&'static str], fn(&StoreRequest) -> bool);

fn is_put(request: &StoreRequest) -> bool {
    request.method == "PUT"
}

fn is_get(request: &StoreRequest) -> bool {
    request.method == "GET" && !request.has("list-type")
}

const COMMANDS: [Command; 5] = [
    (&["put", "-r", "up", "s3://bucket/q/"], is_put),
    (&["sync", "up", "s3://bucket/q/"], is_put),
    (&["cp", "-r", "s3://bucket/p/", "s3://bucket/q/"], is_put),
    (&["get", "-r", "s3://bucket/p/", "-d", "down"], is_get),
    (&["sync", "s3://bucket/p/", "down"], is_get),
];

/// What standard error says of single files, of which it names the first alone.
fn told(output: &HaulOutput, code: &str) -> usize {
    let lines = output.stderr.lines();
    lines
        .filter(|line| {
            line.starts_with("haul: error")
                && line.contains(code)
                && !line.contains("in the same way")
        })
        .count()
}

#[tokio::test]
async fn f35_a_refusal_that_would_hit_every_file_is_told_once_and_ends_the_run() {
    for (status, code) in [
        (404, "NoSuchBucket"),
        (403, "InvalidAccessKeyId"),
        (403, "AccessDenied"),
        (403, "SignatureDoesNotMatch"),
        (405, "MethodNotAllowed"),
    ] {
        for (command, is_meant) in COMMANDS {
            let (store, dir) = case().await;
            store.set_rule(move |request| {
                is_meant(request).then_some(StoreFault::Error(status, code))
            });
            std::fs::create_dir(dir.path("down")).unwrap();
            let output = dir.run(command).await;
            output
                .assert_code(1)
                .assert_stderr_has("every other file would be refused in the same way")
                .assert_stderr_has("not tried");
            let what = format!("{command:?} {output:#?}");
            assert!(told(&output, code) <= 1, "{what}");
            assert!(output.stderr.contains(code), "{what}");
            assert!(output.stderr.lines().count() <= 8, "{what}");
            let requests = store.count(is_meant);
            assert!(requests <= MAX_REQUESTS, "{requests} {what}");
        }
    }
}

/// Files below one folder are refused, and there are many of them.
#[tokio::test]
async fn f35_a_refusal_of_some_files_stops_no_other() {
    for (command, is_meant) in COMMANDS {
        let (store, dir) = case().await;
        // The first files are accepted.
        store.set_rule(move |request| {
            let name = request.key.rsplit('/').next().unwrap_or_default();
            let is_refused = is_meant(request) && name >= "030";
            is_refused.then_some(StoreFault::Error(403, "AccessDenied"))
        });
        std::fs::create_dir(dir.path("down")).unwrap();
        let output = dir.run(command).await;
        output.assert_code(1).assert_stderr_has("30 of 400 files");
        assert!(!output.stderr.contains("not tried"), "{output:#?}");
    }
}

#[tokio::test]
async fn f35_few_files_that_are_refused_alike_are_told_once() {
    let (store, dir) = case().await;
    store.set_rule(|request| is_put(request).then_some(StoreFault::Error(403, "AccessDenied")));
    let output = dir
        .run(&["put", "up/000", "up/001", "up/002", "s3://bucket/q/"])
        .await;
    output
        .assert_code(1)
        .assert_stderr_has("0 of 3 files")
        .assert_stderr_has("2 more files were refused in the same way");
    assert_eq!(told(&output, "AccessDenied"), 1, "{output:#?}");
}

/// Keys that a store does not delete are named in its response.
#[tokio::test]
async fn f35_keys_that_are_refused_alike_are_told_once() {
    let (store, dir) = case().await;
    let errors: String = (0..FILES)
        .map(|number| {
            format!("<Error><Key>p/{number:03}</Key><Code>AccessDenied</Code><Message>no</Message></Error>")
        })
        .collect();
    let document: &'static str =
        Box::leak(format!("<DeleteResult>{errors}</DeleteResult>").into_boxed_str());
    store.set_rule(move |request| {
        (request.method == "POST").then_some(StoreFault::Document(document))
    });
    let output = dir.run(&["rm", "-r", "s3://bucket/p/"]).await;
    output
        .assert_code(1)
        .assert_stderr_has("every other key would be refused in the same way: 400 were");
    assert_eq!(told(&output, "AccessDenied"), 1, "{output:#?}");
}

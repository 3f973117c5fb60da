//! What a batch keeps: files, a manifest of them, archives in their place; and what the same command makes of that.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use rustix::process::Signal;

use crate::cli::batch::{assert_files, file_content, list_of, start_origin_with_files};
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_an_interrupted_batch_keeps_complete_files() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let stalls = OriginResource::new(file_content(1))
            .rule(RequestMatcher::first(3), faults::stall_after(100));
        let mut origin = Origin::builder().resource("/stalls", stalls);
        for n in 0..20 {
            origin = origin.resource(&format!("/{n}"), OriginResource::new(file_content(n)));
        }
        let origin = origin.start().await;
        let haul = HaulDirectory::new();
        haul.write(
            "list",
            format!("{}{}\n", list_of(&origin, 20), origin.url("/stalls")),
        );
        let args = ["get", "-i", "list", "-d", "d"];
        let mut running = haul.start(&[&args[..], &["-v"]].concat());
        for _ in 0..20 {
            running.wait_for_line(" ms").await;
        }
        running.signal(signal);
        running
            .wait()
            .await
            .assert_code(130)
            .assert_stderr_has("haul: stopping; a second signal")
            .assert_stderr_has(
                "haul: error: interrupted\nhint: the same command continues: existing files",
            );
        assert_files(&haul, "d", 20);
        origin.replace("/stalls", OriginResource::new(file_content(1)));
        let again = haul.run(&[&args[..], &["--update"]].concat()).await;
        again
            .assert_code(0)
            .assert_stderr_has("1 of 21 files, 20 skipped, ");
        haul.assert_file("d/stalls", &file_content(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_with_a_manifest_the_same_command_fetches_the_rest() {
    for name in ["m.jsonl", "m.csv"] {
        let origin = start_origin_with_files(20).await;
        let haul = HaulDirectory::new();
        haul.write("list", list_of(&origin, 21));
        let args = [
            "get",
            "-i",
            "list",
            "-d",
            "d",
            "--manifest",
            name,
            "--checksum",
            "sha256",
        ];
        let output = haul.run(&args).await;
        output.assert_code(1).assert_stderr_has(
            "hint: the same command retries them: files that the manifest lists as done are skipped",
        );
        let rows = std::fs::read_to_string(haul.path(name)).unwrap();
        assert!(
            rows.contains(&format!("sha256:{}", file_content(7).sha256())),
            "{rows}"
        );
        // Completed jobs are not requested again, unless their file is gone.
        std::fs::remove_file(haul.path("d/3")).unwrap();
        origin.replace("/20", OriginResource::new(file_content(20)));
        let before = origin.requests().len();
        let output = haul.run(&args).await;
        output
            .assert_code(0)
            .assert_stderr_has("2 of 21 files, 19 done before, ");
        assert_eq!(origin.requests().len() - before, 2);
        assert_files(&haul, "d", 21);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwritable_manifests_and_archives_are_reported_before_any_request() {
    let origin = start_origin_with_files(1).await;
    let haul = HaulDirectory::new();
    haul.write("other.jsonl", "not a manifest\n");
    haul.write("old.tar", "an archive");
    let url = origin.url("/0");
    for (flags, code, words) in [
        (
            ["--manifest", "m.txt"],
            2,
            "hint: the file extension selects the format",
        ),
        (["--manifest", "other.jsonl"], 4, "is not a manifest"),
        (["--manifest", "no/m.csv"], 4, "No such file"),
        (["--tar", "old.tar"], 4, "old.tar exists already"),
        (["--tar", "."], 4, "is a directory"),
    ] {
        let output = haul.run(&[&["get", &url], &flags[..]].concat()).await;
        output.assert_code(code).assert_stderr_has(words);
    }
    let both = haul.run(&["get", &url, "--tar", "t.tar", "-d", "d"]).await;
    both.assert_code(2)
        .assert_stderr_has("--tar and -d/--directory cannot be used together");
    assert!(origin.requests().is_empty());
    assert_eq!(haul.listing(), ["old.tar", "other.jsonl"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_become_tar_shards_that_tar_reads() {
    let large = ResourceContent::random(7, 3 << 20);
    let mut origin = Origin::builder().resource("/large", OriginResource::new(large.clone()));
    for n in 0..100 {
        origin = origin.resource(&format!("/{n}"), OriginResource::new(file_content(n)));
    }
    let origin = origin.start().await;
    let haul = HaulDirectory::new();
    haul.write(
        "list",
        format!("{}{}\n", list_of(&origin, 100), origin.url("/large")),
    );
    let shards = ["get", "-i", "list", "--tar", "t.tar", "--shard-size", "64k"];
    let args = [&shards[..], &["--manifest", "m.jsonl", "-q"]].concat();
    haul.run(&args).await.assert_code(0);
    let found = haul.listing();
    let shards = found.iter().filter(|name| name.ends_with(".tar")).count();
    assert!(shards > 3 && found.len() == shards + 2, "{found:?}");
    let unpacked = "mkdir d; for tar in t-*.tar; do tar -xf $tar -C d || exit; done";
    haul.shell(unpacked).await.assert_code(0);
    haul.assert_file("d/large", &large);
    std::fs::remove_file(haul.path("d/large")).unwrap();
    assert_files(&haul, "d", 100);
    // When the reader goes away the batch ends, with no messages besides those of failed jobs.
    let bin = env!("CARGO_BIN_EXE_haul");
    let line = format!("{{ {bin} get -i list -q --tar -; echo $? >&2; }} | head -c 10 | wc -c");
    let output = haul.shell(&line).await;
    assert_eq!(
        (output.stdout.trim(), output.stderr.as_str()),
        ("10", "141\n")
    );
    // One on standard output.
    let line = format!("mkdir e; {bin} get -i list --tar - | tar -x -C e");
    haul.shell(&line)
        .await
        .assert_code(0)
        .assert_stderr_has("101 of 101 files");
    std::fs::remove_file(haul.path("e/large")).unwrap();
    assert_files(&haul, "e", 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_of_one_destination_does_not_count_for_another() {
    let origin = start_origin_with_files(5).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 5));
    let get = |manifest, to| {
        let args = ["get", "-i", "list", "--manifest", manifest];
        [&args[..], to].concat()
    };
    let (files, a, b) = (&[][..], &["--tar", "a.tar"][..], &["--tar", "b.tar"][..]);
    haul.run(&get("a.jsonl", a)).await.assert_code(0);
    haul.run(&get("f.csv", files)).await.assert_code(0);
    let before = origin.requests().len();
    for (manifest, to, words) in [
        ("a.jsonl", b, "describes the archive a.tar, not b.tar"),
        (
            "a.jsonl",
            files,
            "manifest of the archive a.tar, not of files",
        ),
        (
            "f.csv",
            b,
            "f.csv is a manifest of files, not of an archive",
        ),
    ] {
        let output = haul.run(&get(manifest, to)).await;
        output.assert_code(4).assert_stderr_has(words);
        output.assert_stderr_has("hint: use a new manifest");
    }
    assert!(!haul.path("b.tar").exists() && !haul.path("b.tar.haul-part").exists());
    let again = haul.run(&get("a.jsonl", a)).await;
    again.assert_code(0).assert_stderr_has("5 done before");
    assert_eq!(origin.requests().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_leaves_an_archive_is_reported_in_one_line() {
    let origin = start_origin_with_files(100).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 100));
    let haul_get = concat!(
        env!("CARGO_BIN_EXE_haul"),
        " get -i list --manifest m.jsonl"
    );
    for line in [
        "{ HAUL --tar -; echo $? >code; } | head -c 10 >/dev/null",
        "mkfifo pipe; HAUL --tar pipe & head -c 10 pipe >/dev/null; wait $!; echo $? >code",
    ] {
        let output = haul.shell(&line.replace("HAUL", haul_get)).await;
        let errors: Vec<&str> = output
            .stderr
            .lines()
            .filter(|line| !line.contains("haul: warning: m.jsonl: "))
            .collect();
        assert!(
            errors.len() == 1
                && errors[0].starts_with("haul: error: ")
                && errors[0].contains(" was closed by its reader: the archive ends after "),
            "{output:#?}"
        );
        let code = std::fs::read_to_string(haul.path("code")).unwrap();
        assert_eq!(code.trim(), "141", "{line}");
        let rows = std::fs::read_to_string(haul.path("m.jsonl")).unwrap();
        assert!(!rows.contains("failed"), "no file is at fault: {rows}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_archive_is_complete_on_every_run() {
    let origin = start_origin_with_files(20).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 21));
    let bin = env!("CARGO_BIN_EXE_haul");
    let line = format!("{bin} get -i list --manifest m.jsonl --tar - | tar -t | grep -c .");
    let first = haul.shell(&line).await;
    assert_eq!(first.stdout, "20\n");
    first.assert_stderr_has(
        "hint: the same command starts again: a streamed archive is always complete",
    );
    let warning = "warning: m.jsonl: 20 of its rows are of streamed archives";
    let again = haul.shell(&line).await;
    assert_eq!(again.assert_stderr_has(warning).stdout, "20\n");
    // Nor does a file take them for done.
    let args = [
        "get",
        "-i",
        "list",
        "--manifest",
        "m.jsonl",
        "--tar",
        "t.tar",
    ];
    haul.run(&args)
        .await
        .assert_code(1)
        .assert_stderr_has("20 of 21 files, 1 failed, ");
    let found = haul.shell("tar -tf t.tar | grep -c .").await;
    assert_eq!(found.stdout, "20\n");
    // What is done is done for that file, and not for a reader.
    let again = haul.shell(&line).await;
    let warning = "warning: m.jsonl: files that it lists as done are downloaded again for this streamed archive";
    assert_eq!(again.assert_stderr_has(warning).stdout, "20\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_makes_an_archive_and_only_failures_make_none() {
    let origin = start_origin_with_files(0).await;
    let haul = HaulDirectory::new();
    haul.write("empty", "");
    haul.write("list", list_of(&origin, 3));
    haul.run(&["get", "-i", "empty", "--tar", "t.tar"])
        .await
        .assert_code(0)
        .assert_stderr_has("warning: the lists contain nothing to download");
    let read = haul.shell("tar -tf t.tar && rm t.tar").await;
    assert_eq!(read.assert_code(0).stdout, "");
    let failed = haul.run(&["get", "-i", "list", "--tar", "t.tar"]).await;
    failed
        .assert_code(1)
        .assert_stderr_has("hint: the same command retries them\n");
    let args = ["get", "-i", "list", "--tar", "t.tar", "--shard-size", "1M"];
    haul.run(&args).await.assert_code(1);
    assert_eq!(haul.listing(), ["empty", "list"]);
}

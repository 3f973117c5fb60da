//! The output of batches: JSON objects, digests, lines and progress; and batches whose output nobody reads.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
#[cfg(target_os = "linux")]
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;

use crate::cli::batch::{file_content, list_of, start_origin_with_files};
use crate::cli::harness::{HaulDirectory, HaulOutput, LIMIT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_an_object_or_a_line_when_requested() {
    let origin = start_origin_with_files(20).await;
    let haul = HaulDirectory::new();
    let glob = origin.url("/[0-20]");
    let output = haul.run(&["get", &glob, "--json", "-q", "-d", "d"]).await;
    output.assert_code(1);
    let objects: Vec<serde_json::Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 21);
    let failed: Vec<_> = objects
        .iter()
        .filter(|object| object["state"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["error_class"], "network");
    let seven = objects
        .iter()
        .find(|objects| objects["path"] == "d/7")
        .unwrap();
    assert_eq!(seven["bytes"], file_content(7).length());
    assert!(seven.get("line").is_none(), "it was typed: {seven}");
    let output = haul.run(&["get", &glob, "-v", "-d", "e"]).await;
    output.assert_code(1).assert_stderr_has("e/7  759 B in ");
    assert_eq!(output.stderr.matches(" ms\n").count(), 20, "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digests_are_printed_as_the_sum_tools_read_them() {
    let origin = start_origin_with_files(20).await;
    let haul = HaulDirectory::new();
    let args = [
        "get",
        &origin.url("/[0-19]"),
        "--checksum",
        "sha256",
        "-q",
        "-d",
        "d",
    ];
    let output = haul.run(&args).await;
    output.assert_code(0);
    let line = format!("{}  d/3", file_content(3).sha256());
    assert!(
        output.stdout.lines().any(|output_line| output_line == line),
        "{output:#?}"
    );
    haul.write("sums", &output.stdout);
    let checked = haul.shell("sha256sum -c sums").await;
    checked.assert_code(0);
    assert_eq!(checked.stdout.matches(": OK").count(), 20);
    let with_manifest = [&args[..5], &["-d", "e", "--manifest", "m.jsonl"]].concat();
    let output = haul.run(&with_manifest).await;
    output.assert_code(0);
    assert_eq!(output.stdout, "", "the manifest has the digests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_by_the_thousand_do_not_flood_the_screen() {
    let origin = start_origin_with_files(0).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 2000));
    let output = haul.run(&["get", "-i", "list", "-j", "16"]).await;
    output
        .assert_code(1)
        .assert_stderr_has("  2000  404 Not Found, e.g. ");
    let lines = output.stderr.matches(" answered 404 ").count();
    // Twenty a second, and a run takes some seconds even on a machine that does much else.
    assert!((20..1000).contains(&lines), "{lines} lines");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_does_not_wait_for_a_reader_of_results() {
    let origin = start_origin_with_files(1).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 3000));
    let mut running = haul.start(&["get", "-i", "list", "--json"]);
    // A pipe of a page, which some results fill.
    let stdout = running.child.stdout.take().unwrap();
    rustix::pipe::fcntl_setpipe_size(&stdout, 4096).unwrap();
    while origin.requests().len() < 100 {
        tokio::task::yield_now().await;
    }
    // Signals that are sent at once may arrive as one, and nothing says that the first has arrived if haul waits for the reader by then.
    let signals = async {
        while running.child.try_wait().unwrap().is_none() {
            running.try_signal(Signal::INT);
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, signals).await;
    running.wait().await.assert_code(130);
    drop(stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_ends_when_nobody_reads_its_results() {
    let origin = start_origin_with_files(1).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 20_000));
    for flags in [
        &["--json"][..],
        &["--checksum", "md5", "--max-errors", "99999"],
    ] {
        let args = [&["get", "-i", "list", "-q", "--overwrite"], flags].concat();
        let mut child = haul.command(&args).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0; 10];
        within(LIMIT, stdout.read_exact(&mut first)).await.unwrap();
        drop(stdout);
        if flags[0] == "--json" {
            let output =
                HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
            output.assert_code(141);
        }
    }
    assert!(
        origin.requests().len() < 20_000,
        "{} requests",
        origin.requests().len()
    );
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_cannot_be_written_are_a_local_error() {
    let origin = start_origin_with_files(20).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 20));
    for flags in [&["--json"][..], &["--checksum", "md5"]] {
        let args = [&["get", "-i", "list", "--overwrite"], flags].concat();
        haul.run_redirected(">/dev/full", &args)
            .await
            .assert_code(4)
            .assert_stderr_has("haul: error: cannot write to standard output: No space left");
        haul.run_redirected(">&-", &args)
            .await
            .assert_code(4)
            .assert_stderr_has("cannot write to standard output: it is closed");
    }
    let objects = ["get", "-i", "list", "--overwrite", "--progress", "json"];
    haul.run_redirected("2>/dev/full", &objects)
        .await
        .assert_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_objects_and_nothing_else() {
    let slow = OriginResource::new(ResourceContent::random(1, 3000))
        .rule(RequestMatcher::always(), faults::body_rate(1500));
    let origin = Origin::builder().resource("/slow", slow).start().await;
    let haul = HaulDirectory::new();
    let urls = format!("{}\n{}\n", origin.url("/slow"), origin.url("/none"));
    haul.write("list", urls);
    let output = haul.run(&["get", "-i", "list", "--progress", "json"]).await;
    output.assert_code(1);
    let objects: Vec<serde_json::Value> = output
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<&str> = objects
        .iter()
        .filter_map(|object| object["event"].as_str())
        .collect();
    assert!(
        events.contains(&"batch") && events.contains(&"row"),
        "{events:?}"
    );
    let last = objects.last().unwrap();
    assert_eq!(
        (&last["event"], &last["done"]),
        (&"summary".into(), &1.into())
    );
    assert_eq!(last["causes"][0]["text"], "404 Not Found");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_stays_within_the_narrowest_terminal() {
    let slow = OriginResource::new(ResourceContent::random(1, 3000))
        .rule(RequestMatcher::always(), faults::body_rate(2000));
    let origin = Origin::builder().resource("/slow", slow).start().await;
    for width in [20, 80] {
        let haul = HaulDirectory::new();
        haul.write("list", format!("{}\n", origin.url("/slow")));
        let bin = env!("CARGO_BIN_EXE_haul");
        let line = format!("stty rows 24 cols {width}; {bin} get -i list");
        let output = within(LIMIT, haul.terminal_command(&line).output())
            .await
            .unwrap();
        let screen = String::from_utf8(output.stdout).unwrap();
        assert!(
            screen.contains("0/1") && screen.contains("1 of 1 files"),
            "{screen:?}"
        );
        for shown in screen.split(['\r', '\n']) {
            let shown = anstream::adapter::strip_str(shown).to_string();
            assert!(
                shown.trim_end().chars().count() < width,
                "{width}: {shown:?}"
            );
        }
        // The bar is gone at the end, and one line is the summary.
        let last = screen.trim_end().rsplit('\n').next().unwrap();
        assert!(
            last.ends_with(" files") || last.contains(" in "),
            "{screen:?}"
        );
    }
}

/// Names may have sequences that a terminal obeys: as data they stay as they are.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn names_in_results_are_harmless_on_a_terminal_and_exact_in_a_pipe() {
    const NAME: &str = "e\u{1b}[31mred\u{9b}0m\u{202e}";
    let store = haul_lab::ObjectStore::start().await;
    store.insert(&format!("in/{NAME}"), b"content");
    let dir = super::s3::directory(&store);
    let get = [
        "get",
        "-r",
        "s3://bucket/in/",
        "-d",
        "down",
        "--overwrite",
        "-q",
    ];
    for args in [
        [&get[..], &["--checksum", "sha256"]].concat(),
        [&get[..], &["--json"]].concat(),
        vec!["ls", "-r", "--json", "s3://bucket/in/"],
    ] {
        let piped = dir.run(&args).await;
        assert_eq!(piped.code, 0, "{piped:#?}");
        let is_json = args.contains(&"--json");
        assert!(is_json || piped.stdout.contains(NAME), "{piped:#?}");
        let line = format!("{} {}", env!("CARGO_BIN_EXE_haul"), args.join(" "));
        let mut command = dir.terminal_command(&line);
        command.env("AWS_ENDPOINT_URL_S3", store.url());
        command
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "s3cret");
        let output = within(LIMIT, command.output()).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("red"), "{text:?}");
        for bad in ['\u{1b}', '\u{9b}', '\u{202e}'] {
            assert!(!text.contains(bad), "{text:?}");
        }
    }
}

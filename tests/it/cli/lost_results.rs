//! A result that cannot be written is a failure; if its reader has closed the pipe, the program ends without a message.

use haul_lab::{OriginResource, ResourceContent, within};
use tokio::io::AsyncReadExt as _;

use crate::cli::harness::{HaulDirectory, HaulOutput, LIMIT, content, start_origin};

/// Flags that write a result to standard output.
const RESULT_FLAGS: [&[&str]; 4] = [
    &["--json"],
    &["--checksum", "md5"],
    &["-o", "-"],
    &["--json", "-q"],
];

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_cannot_be_written_is_a_local_error() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    for flags in RESULT_FLAGS {
        let haul = HaulDirectory::new();
        let args = [&["get", &url], flags].concat();
        haul.run_redirected(">/dev/full", &args)
            .await
            .assert_code(4)
            .assert_stderr_has("haul: error: cannot write to standard output: No space left")
            .assert_stderr_has("hint: ");
    }
    let haul = HaulDirectory::new();
    for args in [
        &["--help"][..],
        &["get", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["demo", "--size", "1k"],
    ] {
        haul.run_redirected(">/dev/full", args)
            .await
            .assert_code(4)
            .assert_stderr_has("cannot write to standard output: No space left");
    }
    let both = [&url, &origin.url("/404"), "--json"];
    haul.run_redirected(">/dev/full", &[&["get"], &both[..]].concat())
        .await
        .assert_code(4);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_standard_output_is_reported_before_any_request() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    for flags in RESULT_FLAGS {
        let args = [&["get", &url], flags].concat();
        haul.run_redirected(">&-", &args)
            .await
            .assert_code(4)
            .assert_stderr_has("cannot write to standard output: it is closed");
        let silent = haul.run_redirected(">&- 2>&-", &args).await;
        silent.assert_code(4);
    }
    haul.run_redirected(">&-", &["--help"]).await.assert_code(4);
    assert!(origin.requests().is_empty() && haul.listing().is_empty());
    // Without a result there is nothing that needs it.
    haul.run_redirected(">&-", &["get", &url])
        .await
        .assert_code(0);
    haul.assert_file("f.bin", &content());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_cannot_be_written_to_standard_error_are_a_failure_and_messages_are_not() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    for (redirection, flags, code) in [
        ("2>&-", &["--progress", "json"][..], 4),
        ("2>/dev/full", &["--progress", "json"], 4),
        ("2>/dev/full", &["-o", "-", "--checksum", "md5"], 4),
        ("2>&-", &["-o", "-", "--checksum", "md5"], 4),
        ("2>&-", &[], 0),
        ("2>/dev/full", &["-v", "--progress", "plain"], 0),
        ("2>/dev/full", &["--progress", "bar"], 0),
    ] {
        let haul = HaulDirectory::new();
        let args = [&["get", &url], flags].concat();
        haul.assert_redirected_code(redirection, &args, code).await;
        if !flags.contains(&"-o") {
            haul.assert_file("f.bin", &content());
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_that_cannot_be_written_does_no_harm() {
    let origin = start_origin(OriginResource::new(content())).await;
    // A failure is traced, and an invalid filter is reported.
    for filter in ["trace", "a=b=c"] {
        let haul = HaulDirectory::new().with_variable("RUST_LOG", filter);
        haul.run_redirected("2>/dev/full", &["get", &origin.url("/404")])
            .await
            .assert_code(5);
    }
    let haul = HaulDirectory::new().with_variable("RUST_LOG", "a=b=c");
    haul.get(&origin.url("/f.bin"), &[])
        .await
        .assert_code(0)
        .assert_stderr_has("haul: warning: RUST_LOG is ignored: ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_leaves_ends_it_quietly() {
    let big = ResourceContent::random(1, 64 << 20);
    let origin = start_origin(OriginResource::new(big.clone())).await;
    let haul = HaulDirectory::new();
    let mut child = haul
        .command(&["get", &origin.url("/f.bin"), "-o", "-"])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 10];
    within(LIMIT, stdout.read_exact(&mut first)).await.unwrap();
    drop(stdout);
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    output.assert_code(141);
    assert_eq!(output.stderr, "");
    assert_eq!(first.as_slice(), big.slice(0..10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_results_that_nobody_reads_end_it_quietly_too() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    for args in [
        &["get", &url, "-q", "--json"][..],
        &["get", &url, "-q", "--json", "--overwrite"],
        &["get", &url, "-q", "--checksum", "md5", "--overwrite"],
        &["get", "--help"],
        &["completions", "bash"],
    ] {
        let haul = HaulDirectory::new();
        // Gone before it begins: short results would else be there first.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = haul.command(args).stdout(writer).spawn().unwrap();
        let output =
            HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
        output.assert_code(141);
        assert_eq!(output.stderr, "", "{args:?}");
    }
}

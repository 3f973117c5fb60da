//! The first signal stops and keeps, the second does not wait.

use std::collections::HashSet;

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};
use rustix::process::Signal;

use crate::cli::harness::{HaulDirectory, start_origin};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_keeps_received_bytes_and_the_same_command_resumes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let big = ResourceContent::random(4, 4 << 20);
        let origin = start_origin(
            OriginResource::new(big.clone())
                .rule(RequestMatcher::first(12), faults::body_rate(512 << 10)),
        )
        .await;
        let haul = HaulDirectory::new();
        let url = origin.url("/f.bin");
        let args = ["get", &url, "-x", "2", "--segment-size", "256k", "-v"];
        let mut running = haul.start(&args);
        running.wait_for_line("segment ").await;
        running.signal(signal);
        let output = running.wait().await;
        output
            .assert_code(130)
            .assert_stderr_has("haul: stopping; a second signal")
            .assert_stderr_has("haul: error: interrupted");
        output.assert_stderr_has("hint: the same command resumes the download");
        assert_eq!(haul.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
        haul.run(&args)
            .await
            .assert_code(0)
            .assert_stderr_has("of it from an earlier run");
        haul.assert_file("f.bin", &big);
        assert_eq!(haul.listing(), ["f.bin"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_jobs_are_not_started_after_a_signal() {
    let slow = OriginResource::new(ResourceContent::random(4, 4 << 20))
        .rule(RequestMatcher::always(), faults::stall_after(1000));
    let origin = start_origin(slow).await;
    let urls: Vec<String> = (0..40)
        .map(|n| origin.url(&format!("/f.bin?{n}")))
        .collect();
    let dirs = HaulDirectory::new();
    let mut args: Vec<&str> = vec!["get", "--progress", "json", "-d", "d"];
    args.extend(urls.iter().map(String::as_str));
    let mut running = dirs.start(&args);
    running.wait_for_line("\"batch\"").await;
    running.signal(Signal::INT);
    running
        .wait()
        .await
        .assert_code(130)
        .assert_stderr_has("\"event\":\"summary\"");
    // A slow job may have been given more connections by then, so requests are more than jobs.
    let started: HashSet<_> = origin
        .requests()
        .into_iter()
        .map(|request| request.target)
        .collect();
    assert!(started.len() < 40, "{} jobs", started.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_does_not_wait() {
    // Nobody reads its standard output: once the pipe is full, the write to it holds up the first signal.
    let origin = start_origin(OriginResource::new(ResourceContent::random(4, 64 << 20))).await;
    let haul = HaulDirectory::new();
    let mut running = haul.start(&["get", &origin.url("/f.bin"), "-o", "-"]);
    let stdout = running.child.stdout.take();
    while origin.bytes_sent() == 0 && origin.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    running.signal(Signal::INT);
    running
        .wait_for_line("haul: stopping; a second signal")
        .await;
    running.signal(Signal::INT);
    running.wait().await.assert_code(130);
    drop(stdout);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_are_handled_while_nobody_reads_the_results() {
    let origin = start_origin(OriginResource::new(ResourceContent::random(4, 1000))).await;
    let urls: Vec<String> = (0..60)
        .map(|n| origin.url(&format!("/f.bin?{n}")))
        .collect();
    let haul = HaulDirectory::new();
    let mut args: Vec<&str> = vec!["get", "--json", "-d", "d", "--overwrite"];
    args.extend(urls.iter().map(String::as_str));
    let mut running = haul.start(&args);
    // A pipe of a page, which a few results fill.
    let stdout = running.child.stdout.take().unwrap();
    rustix::pipe::fcntl_setpipe_size(&stdout, 4096).unwrap();
    while origin.requests().len() < 20 {
        tokio::task::yield_now().await;
    }
    running.signal(Signal::INT);
    running
        .wait_for_line("haul: stopping; a second signal")
        .await;
    running.signal(Signal::INT);
    running.wait().await.assert_code(130);
    drop(stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_hang_up_counts_once() {
    let big = ResourceContent::random(4, 4 << 20);
    let origin = start_origin(
        OriginResource::new(big.clone())
            .rule(RequestMatcher::always(), faults::body_rate(512 << 10)),
    )
    .await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let mut running = haul.start(&["get", &url, "-x", "2", "--segment-size", "256k", "-v"]);
    running.wait_for_line("segment ").await;
    running.signal(Signal::HUP);
    running.wait_for_line("haul: stopping").await;
    // It may have ended already.
    running.try_signal(Signal::HUP);
    running
        .wait()
        .await
        .assert_code(130)
        .assert_stderr_has("hint: the same command resumes");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_hang_up_stays_ignored() {
    let big = ResourceContent::random(4, 2 << 20);
    let origin = start_origin(
        OriginResource::new(big.clone()).rule(RequestMatcher::always(), faults::body_rate(1 << 20)),
    )
    .await;
    let haul = HaulDirectory::new();
    // As nohup(1) does it.
    let line = format!(
        "trap '' HUP; exec {} get {} -x 1 --segment-size 256k -v",
        env!("CARGO_BIN_EXE_haul"),
        origin.url("/f.bin")
    );
    let mut running = haul.start_shell(&line);
    running.wait_for_line("segment ").await;
    running.signal(Signal::HUP);
    running.wait().await.assert_code(0);
    haul.assert_file("f.bin", &big);
}

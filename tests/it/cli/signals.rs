//! The first signal stops and keeps, the second does not wait.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};
use rustix::process::Signal;

use crate::cli::harness::{HaulDirectory, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_keeps_what_came_and_the_same_command_goes_on() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let big = ResourceContent::random(4, 4 << 20);
        let origin = serve(
            OriginResource::new(big.clone())
                .rule(RequestMatcher::first(12), faults::body_rate(512 << 10)),
        )
        .await;
        let haul = HaulDirectory::new();
        let url = origin.url("/f.bin");
        let args = ["get", &url, "-x", "2", "--segment-size", "256k", "-v"];
        let mut running = haul.start(&args);
        running.until("segment ").await;
        running.signal(signal);
        let ran = running.end().await;
        ran.assert_code(130)
            .assert_says("haul: stopping; once more")
            .assert_says("haul: error: interrupted");
        ran.assert_says("hint: the same command goes on where this one stopped");
        assert_eq!(haul.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
        haul.run(&args)
            .await
            .assert_code(0)
            .assert_says("of it from an earlier run");
        haul.assert_file("f.bin", &big);
        assert_eq!(haul.listing(), ["f.bin"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_were_not_begun_are_not_begun_after_a_signal() {
    let slow = OriginResource::new(ResourceContent::random(4, 4 << 20))
        .rule(RequestMatcher::always(), faults::stall_after(1000));
    let origin = serve(slow).await;
    let urls: Vec<String> = (0..40)
        .map(|n| origin.url(&format!("/f.bin?{n}")))
        .collect();
    let dirs = HaulDirectory::new();
    let mut args: Vec<&str> = vec!["get", "--progress", "json", "-d", "d"];
    args.extend(urls.iter().map(String::as_str));
    let mut running = dirs.start(&args);
    running.until("\"batch\"").await;
    running.signal(Signal::INT);
    running
        .end()
        .await
        .assert_code(130)
        .assert_says("\"event\":\"summary\"");
    assert!(
        origin.requests().len() < 40,
        "{} requests",
        origin.requests().len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_does_not_wait() {
    // Nobody reads its standard output: once the pipe is full, the write to it holds up the first signal.
    let origin = serve(OriginResource::new(ResourceContent::random(4, 64 << 20))).await;
    let haul = HaulDirectory::new();
    let mut running = haul.start(&["get", &origin.url("/f.bin"), "-o", "-"]);
    let stdout = running.child.stdout.take();
    while origin.bytes_sent() == 0 && origin.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    running.signal(Signal::INT);
    running.until("haul: stopping; once more").await;
    running.signal(Signal::INT);
    running.end().await.assert_code(130);
    drop(stdout);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_are_heard_while_nobody_reads_the_results() {
    let origin = serve(OriginResource::new(ResourceContent::random(4, 1000))).await;
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
    running.until("haul: stopping; once more").await;
    running.signal(Signal::INT);
    running.end().await.assert_code(130);
    drop(stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_told_twice_is_one() {
    let big = ResourceContent::random(4, 4 << 20);
    let origin = serve(
        OriginResource::new(big.clone())
            .rule(RequestMatcher::always(), faults::body_rate(512 << 10)),
    )
    .await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let mut running = haul.start(&["get", &url, "-x", "2", "--segment-size", "256k", "-v"]);
    running.until("segment ").await;
    running.signal(Signal::HUP);
    running.until("haul: stopping").await;
    // It may have ended already.
    running.try_signal(Signal::HUP);
    running
        .end()
        .await
        .assert_code(130)
        .assert_says("hint: the same command goes on");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_that_is_ignored_stays_so() {
    let big = ResourceContent::random(4, 2 << 20);
    let origin = serve(
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
    running.until("segment ").await;
    running.signal(Signal::HUP);
    running.end().await.assert_code(0);
    haul.assert_file("f.bin", &big);
}

//! Experiments on links with the kernel's own TCP. A machine that cannot have one skips these tests, with a line that says so.

use std::io::Write as _;

use haul_lab::within;
use rustix::process::Signal;

use super::stops::wait_for_server;
use super::{BenchRun, assert_success, read_run, set};
use crate::cli::harness::{HaulDirectory, LIMIT};

/// A round trip of 10 ms, and 10 MB/s.
const LINK: &str = "kernel:10ms,80Mbit";

/// A download of 100 kB by one connection and by four, and an upload to S3.
const TRANSFERS: &str = r#"title = "Transfers"
workload = "transfer"
[factors]
direction = ["get", "put"]
store = ["http", "s3"]
files = "1 x 100k"
connections = ["1", "4"]
[[guess]]
text = "Four connections are faster."
cell = { direction = "get", store = "http", connections = "4" }
other = { direction = "get", store = "http", connections = "1" }
expected = "less"
"#;

/// Requests over each protocol and route, and to each server.
const REQUESTS: &str = r#"title = "Requests"
workload = "requests"
[factors]
files = "4 x 1k"
server = ["serve", "short-queue"]
route = ["direct", "proxy", "tunnel"]
protocol = ["http", "https"]
client = ["threads", "async"]
connections = "each"
[[skip]]
server = "short-queue"
route = "proxy"
[[skip]]
server = "short-queue"
route = "tunnel"
[[skip]]
server = "short-queue"
protocol = "https"
[[skip]]
route = "proxy"
protocol = "https"
"#;

/// Runs an experiment on the link. `None` where this machine cannot have it.
async fn run_on_link(haul: &HaulDirectory, experiment: &str) -> Option<BenchRun> {
    haul.write("mine.toml", experiment);
    let args = [
        "bench",
        "run",
        "mine.toml",
        "--report",
        "out",
        "--link",
        LINK,
    ];
    let output = haul.run(&[&args, &*set(&[])].concat()).await;
    if output.code == 4 && output.stderr.contains("cannot start a kernel link") {
        output.assert_stderr_has("hint: ");
        // Not `eprintln`, which a test that passes does not show.
        let _ = writeln!(std::io::stderr(), "skipped: {}", output.stderr);
        return None;
    }
    let run = read_run(haul, output);
    assert_success(&run);
    Some(run)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_take_the_round_trips_and_the_rate_of_the_link() {
    let haul = HaulDirectory::new();
    let Some(run) = run_on_link(&haul, TRANSFERS).await else {
        return;
    };
    for measured in run.measurements("mine", &[("link", LINK)]) {
        // A handshake and a request, slow start, and the rate.
        assert!((0.030..5.0).contains(&measured.wall_s), "{measured:#?}");
    }
    assert_eq!(run.experiment("mine").guesses.len(), 1);
    assert!(run.output.stdout.contains(LINK), "{}", run.output.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_of_tcp_is_delayed_on_each_route() {
    let haul = HaulDirectory::new();
    let Some(run) = run_on_link(&haul, REQUESTS).await else {
        return;
    };
    for measured in run.measurements("mine", &[("link", LINK)]) {
        assert!(measured.latency.unwrap().p50_s >= 0.020, "{measured:#?}");
    }
    // Near the client are the proxy and the tunnel.
    for (route, connect) in [
        ("direct", 0.010..1.0),
        ("proxy", 0.0..0.009),
        ("tunnel", 0.0..0.009),
    ] {
        let phases = run.measurements("mine", &[("route", route)]);
        let shortest = phases
            .iter()
            .map(|found| found.phases.unwrap().connect_s)
            .fold(f64::INFINITY, f64::min);
        assert!(connect.contains(&shortest), "{route}: {shortest}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_link_whose_run_is_interrupted_or_killed() {
    let haul = HaulDirectory::new();
    if run_on_link(&haul, TRANSFERS).await.is_none() {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let running = haul.start(&["bench", "accelerate", "--link", LINK]);
        let server = wait_for_server(&running).await;
        let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        assert_ne!(network(&server.pid.to_string()), network("self"));
        running.signal(signal);
        let output = within(LIMIT, running.wait()).await;
        if signal == Signal::INT {
            output.assert_code(130);
        }
        server.wait_for_end().await;
        // Nobody could remove it after the signal that kills.
        let _ = std::fs::remove_dir_all(&server.folder);
    }
}

//! Few file descriptors: the limit is raised where allowed; where not, no received data is lost.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};
use rustix::process::Signal;

use crate::cli::harness::{HaulDirectory, start_origin};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let slow = OriginResource::new(ResourceContent::random(4, 1 << 20));
    let origin = start_origin(slow.rule(RequestMatcher::always(), faults::stall_after(1000))).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let line = format!("ulimit -S -n 40; ulimit -H -n 300; exec {HAUL} get --progress json {url}");
    let mut running = haul.start_shell(&line);
    running.wait_for_line("\"named\"").await;
    let limits = format!("/proc/{}/limits", running.child.id().unwrap());
    let limits = std::fs::read_to_string(limits).unwrap();
    let files: Vec<&str> = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(files[3..5], ["300", "300"]);
    running.signal(Signal::TERM);
    running.wait().await.assert_code(130);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shortage_is_a_local_error_and_never_costs_a_complete_file() {
    let small = ResourceContent::random(4, 1000);
    let origin = start_origin(OriginResource::new(small.clone())).await;
    let (mut short, mut enough) = (0, 0);
    for limit in 4..20 {
        let haul = HaulDirectory::new();
        let url = origin.url("/f.bin");
        let request_count = origin.requests().len();
        let line = format!("ulimit -n {limit}; exec {HAUL} get --retries 0 {url}");
        let output = haul.shell(&line).await;
        if output.code == 0 {
            haul.assert_file("f.bin", &small);
            enough += 1;
            continue;
        }
        output
            .assert_code(4)
            .assert_stderr_has("Too many open files");
        assert!(
            !output.stderr.contains("cannot rename"),
            "{limit}: {output:#?}"
        );
        assert!(haul.listing().is_empty(), "{limit}: {:?}", haul.listing());
        if output.stderr.contains("cannot connect") {
            assert_eq!(origin.requests().len(), request_count);
            output.assert_stderr_has("hint: too many open files: raise the limit with ulimit -n");
            short += 1;
        }
    }
    assert!(short > 0 && enough > 0, "{short} and {enough}");
}

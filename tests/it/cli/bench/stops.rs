//! A run that is interrupted or killed: what was measured is reported, and nothing is left behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_bench::results::RoundsEnd;
use haul_lab::{
    ObjectStore, Origin, OriginResource, RequestMatcher, ResourceContent, faults, within,
};
use rustix::process::Signal;

use super::read_run;
use super::user_servers::assert_no_stored_file;
use crate::cli::harness::{HaulDirectory, LIMIT, RunningHaul, file_names};
use crate::cli::soak_server::SoakServer;

/// A child process of a run, and the folder that it serves.
pub(super) struct BenchServer {
    pub(super) pid: u32,
    pub(super) folder: PathBuf,
}

/// Waits for a `haul serve` of the run.
pub(super) async fn wait_for_server(running: &RunningHaul) -> BenchServer {
    let parent = running.child.id().unwrap();
    let find = async {
        loop {
            if let Some(server) = find_server(parent) {
                return server;
            }
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, find).await
}

fn find_server(parent: u32) -> Option<BenchServer> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let lists =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| {
            let words = list.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        })
        .filter_map(|pid| pid.parse().ok())
        .collect();
    children.into_iter().find_map(|pid| {
        let command_line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = command_line.split('\0').skip(1);
        let folder = (words.next()? == "serve").then(|| words.next())??;
        folder.contains("haul-bench-").then(|| BenchServer {
            pid,
            folder: folder.into(),
        })
    })
}

impl BenchServer {
    /// Whether the process still runs; one that nobody has waited for does not.
    fn is_running(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let state = status.as_deref().ok().and_then(|text| {
            let (_, rest) = text.rsplit_once(") ")?;
            rest.chars().next()
        });
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    pub(super) async fn wait_for_end(&self) {
        let ended = async {
            while self.is_running() {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, ended).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_does_not_wait_for_a_server_that_says_nothing() {
    let resource = OriginResource::new(ResourceContent::random(1, 100_000))
        .rule(RequestMatcher::always(), faults::stall_after(1000));
    let origin = Origin::builder().resource("/x", resource).start().await;
    let haul = HaulDirectory::new();
    for command in ["quirks", "accelerate"] {
        let before = origin.requests().len();
        let running = haul.start(&["bench", command, &origin.url("/x"), "--time", "60s"]);
        let is_asked = async {
            while origin.requests().len() == before {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, is_asked).await;
        running.signal(Signal::INT);
        // Sooner than a measurement is given up that does not stop.
        let output = within(Duration::from_secs(8), running.wait()).await;
        output.assert_code(130);
    }
}

/// Waits until a folder has an entry whose name begins so.
async fn wait_for_entry(folder: &Path, start: &str) {
    let found = async {
        while !file_names(folder)
            .iter()
            .any(|name| name.starts_with(start))
        {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, found).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_run_reports_what_was_measured_and_leaves_nothing() {
    let haul = HaulDirectory::new();
    let args = [
        "bench",
        "all",
        "--report",
        "out",
        "--set",
        "files=50 x 1k",
        "--set",
        "link=20ms",
    ];
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = haul.start(&args);
        running.wait_for_line("haul: accelerate: ").await;
        let server = wait_for_server(&running).await;
        running.signal(signal);
        let output = running.wait().await;
        output.assert_code(130);
        assert!(output.stdout.contains("Partial: "), "{output:#?}");
        let run = read_run(&haul, output);
        assert!(run.results.is_partial);
        assert_eq!(run.results.experiments.len(), 1);
        assert_eq!(run.experiment("accelerate").end, RoundsEnd::Interrupted);
        server.wait_for_end().await;
        assert!(!server.folder.exists(), "{:?}", server.folder);
        for name in ["report.md", "report.html"] {
            let report = std::fs::read_to_string(haul.path("out").join(name)).unwrap();
            assert!(report.contains("Partial: "), "{name}");
        }
        // Neither is anything else of it in its temporary folder.
        assert_eq!(haul.listing(), ["out"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_run_as_json_is_one_document() {
    let haul = HaulDirectory::new();
    let mut running = haul.start(&["bench", "tunnel", "--json"]);
    running.wait_for_line("haul: tunnel: ").await;
    running.signal(Signal::INT);
    let output = running.wait().await;
    output.assert_code(130);
    let results: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(results["is_partial"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_a_killed_run_end() {
    let haul = HaulDirectory::new();
    let running = haul.start(&["bench", "tunnel"]);
    let server = wait_for_server(&running).await;
    running.signal(Signal::KILL);
    running.wait().await;
    server.wait_for_end().await;
    // Nobody could remove it.
    let _ = std::fs::remove_dir_all(&server.folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_on_a_server_after_an_interruption() {
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("d")).unwrap();
    for number in 0..5 {
        haul.write(&format!("d/{number}"), "x");
    }
    let server = SoakServer::start(&haul.path("d"), &["--writable"]);
    let url = format!("http://{}/", server.address);
    for method in ["put", "get", "delete"] {
        let method = format!("method={method}");
        let args = [
            "bench",
            "store",
            &url,
            "--set",
            &method,
            "--set",
            "files=2000 x 10k",
            "--set",
            "concurrency=2",
        ];
        let running = haul.start(&args);
        wait_for_entry(&haul.path("d"), "haul-bench-").await;
        running.signal(Signal::INT);
        running.wait().await.assert_code(130);
        assert_no_stored_file(&haul);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_in_a_bucket_after_an_interruption() {
    for direction in ["put", "get"] {
        let store = ObjectStore::start().await;
        let haul = HaulDirectory::new()
            .with_variable("AWS_ENDPOINT_URL_S3", &store.url())
            .with_variable("AWS_ACCESS_KEY_ID", "key")
            .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret");
        let direction = format!("direction={direction}");
        let args = [
            "bench",
            "s3",
            "s3://bucket/",
            "--set",
            &direction,
            "--set",
            "files=200 x 1k,1 x 30M",
            "--set",
            "connections=2",
        ];
        let running = haul.start(&args);
        let is_storing = async {
            while store.keys().is_empty() && store.pending_uploads() == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, is_storing).await;
        running.signal(Signal::INT);
        running.wait().await.assert_code(130);
        assert_eq!(store.keys(), [""; 0], "{direction}");
        assert_eq!(store.pending_uploads(), 0, "{direction}");
    }
}

//! `haul bench load`: a load on a server that the user names, as ab and wrk put it on.

use std::time::Duration;

use haul_bench::Measurement;
use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use rustix::process::Signal;

use crate::cli::harness::{HaulDirectory, LIMIT};
use crate::cli::messages::plain_http_server;

/// An origin with a file of 10,000 bytes at `/f`, whose every fourth response is a 503.
async fn origin() -> Origin {
    let content = || ResourceContent::random(1, 10_000);
    let failing = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 4 == 3),
        faults::status(503),
    );
    Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .resource("/failing", failing)
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_tells_rate_latencies_transfer_and_failures() {
    let (haul, origin) = (HaulDirectory::new(), origin().await);
    let url = origin.url("/f");
    let output = haul
        .run(&["bench", "load", &url, "-c", "5", "-n", "200"])
        .await;
    output.assert_code(0);
    assert_eq!(
        output.stderr,
        format!("haul: 5 at a time, 200 requests: {url}\n")
    );
    for words in [
        " requests a second, 5 at a time: half take at most ",
        "requests: 200 in ",
        "MiB/s of bodies, 1.91 MiB in all",
        "99.9 % ",
        "connections made: 5",
        "failures: none",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output:#?}");
    }
    // The request that finds out whether the server is there is not measured.
    assert_eq!(origin.requests().len(), 201);

    let args = [
        "bench",
        "load",
        &origin.url("/failing"),
        "-n",
        "40",
        "--json",
        "-q",
    ];
    let output = haul.run(&args).await;
    output.assert_code(1);
    assert_eq!(output.stderr, "");
    let found: Measurement = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found.successes + found.failures(), 40);
    assert!(found.errors["status 503"] >= 9, "{found:?}");
    assert_eq!(found.bytes, found.successes * 10_000);

    let each = [
        "bench",
        "load",
        &url,
        "-n",
        "20",
        "-c",
        "2",
        "--no-keep-alive",
        "--json",
    ];
    let found: Measurement = serde_json::from_str(&haul.run(&each).await.stdout).unwrap();
    assert_eq!((found.successes, found.connections), (20, Some(20)));

    let missing = haul
        .run(&["bench", "load", &origin.url("/none"), "-n", "10"])
        .await;
    missing.assert_code(5);
    assert!(
        missing.stdout.starts_with("No request had a success."),
        "{missing:#?}"
    );
    assert!(missing.stdout.contains("10 x status 404"), "{missing:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_told_at_once() {
    let haul = HaulDirectory::new();
    haul.run(&["bench", "load", "http://127.0.0.1:1/", "-t", "1h"])
        .await
        .assert_code(5)
        .assert_stderr_has("no response from http://127.0.0.1:1/: connection refused")
        .assert_stderr_has("hint: is the server up");
    let origin = origin().await;
    let plain = origin.url("/f");
    let url = format!("https://{}/", plain_http_server());
    haul.run(&["bench", "load", &url, "-t", "1h", "-k"])
        .await
        .assert_code(5)
        .assert_stderr_has(
            "hint: -k accepts any certificate; a server without TLS has an http:// URL",
        );
    for (args, words) in [
        (&["-c", "0"][..], "--concurrency: 0 is not in 1..=10000"),
        (&["-n", "1", "-t", "1s"], "cannot be used together"),
        (&["--http2"], "--http2 needs https URLs"),
        (&["-d", "10s"], "-t TIME sets how long haul starts requests"),
    ] {
        let args = [&["bench", "load", &plain][..], args].concat();
        haul.run(&args)
            .await
            .assert_code(2)
            .assert_stderr_has(words);
    }
    haul.run(&["bench", "load"])
        .await
        .assert_code(2)
        .assert_stderr_has("see haul bench load --help");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_load_prints_what_it_has() {
    let (haul, origin) = (HaulDirectory::new(), origin().await);
    let running = haul.start(&["bench", "load", &origin.url("/f"), "-t", "1h"]);
    let is_loaded = async {
        while origin.requests().len() < 50 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, is_loaded).await;
    running.signal(Signal::INT);
    let output = within(Duration::from_secs(10), running.wait()).await;
    output.assert_code(130);
    // What was under way did not fail.
    assert!(output.stdout.contains("failures: none"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_without_a_list_are_swept_and_the_first_word_is_what_was_found() {
    let (haul, origin) = (HaulDirectory::new(), origin().await);
    let url = origin.url("/f");
    let args = [
        "bench",
        "sweep",
        &url,
        "--set",
        "client=async",
        "--set",
        "connections=keep-alive",
        "--set",
        "concurrency=5,10",
        "--time",
        "1ms",
    ];
    let output = haul.run(&args).await;
    output.assert_code(0);
    assert!(!output.stdout.contains("write-up"), "{output:#?}");
    let mut lines = output.stdout.lines().skip(2);
    let headline = lines.next().unwrap();
    assert!(
        headline.contains("at a time"),
        "{headline:?} of {output:#?}"
    );
    haul.run(&["bench", "sweep", &url, "-i", "list"])
        .await
        .assert_code(2)
        .assert_stderr_has("cannot be used together");
    haul.run(&["bench", &url])
        .await
        .assert_code(2)
        .assert_stderr_has(&format!("haul bench load {url}"));
}

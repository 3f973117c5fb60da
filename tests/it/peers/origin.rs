//! nginx as the origin.

use std::process::Command;

use haul_lab::ResourceContent;
use rustix::process::Signal;

use super::nginx::Nginx;
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_large_file_equals_what_curl_gets() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(1, 96 << 20),
    );
    nginx.serve("f", &content);
    let output = haul
        .get(&nginx.url("f"), &["-o", "ours", "-x", "8", "--json", "-q"])
        .await;
    let result: serde_json::Value = serde_json::from_str(&output.assert_code(0).stdout).unwrap();
    // Of segments, not one stream of everything.
    assert!(result["segments"].as_u64() > Some(1), "{result}");
    let theirs = haul.path("theirs");
    let curl = Command::new("curl")
        .args(["-sSf", "-o"])
        .arg(&theirs)
        .arg(nginx.url("f"))
        .status()
        .unwrap();
    assert!(curl.success());
    haul.assert_file("ours", &content);
    haul.assert_file("theirs", &content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_killed_download_resumes() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(9, 48 << 20),
    );
    nginx.serve("f", &content);
    let url = nginx.url("slow/f");
    // nginx counts its limit from each request's start, so segments are large: four connections take three seconds, and the
    // kill, once something is on record, is in the midst of them.
    let args = [
        "get",
        &url,
        "-o",
        "f",
        "-x",
        "4",
        "--segment-size",
        "12M",
        "--progress",
        "json",
    ];
    let mut running = haul.start(&args);
    let recorded = || std::fs::read_to_string(haul.path("f.haul-journal")).unwrap_or_default();
    while recorded().lines().count() < 2 {
        running.wait_for_line("\"progress\"").await;
    }
    running.signal(Signal::KILL);
    running.child.wait().await.unwrap();
    assert_eq!(haul.listing(), ["f.haul-journal", "f.haul-part"]);
    let again = haul.get(&url, &["-o", "f", "-q", "--json"]).await;
    let result: serde_json::Value = serde_json::from_str(&again.assert_code(0).stdout).unwrap();
    assert!(result["resumed"].as_u64().unwrap() > 0, "{result}");
    haul.assert_file("f", &content);
    assert_eq!(haul.listing(), ["f"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a34_a_download_survives_restarts_of_nginx_and_has_all_its_connections_again() {
    let (mut nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(10, 64 << 20),
    );
    nginx.serve("f", &content);
    let url = nginx.url("slow/f");
    let args = [
        "get",
        &url,
        "-o",
        "f",
        "-x",
        "4",
        "--progress",
        "json",
        "--json",
    ];
    let mut running = haul.start(&args);
    for _ in 0..3 {
        running.wait_for_line("\"connections\":4").await;
        nginx.stop();
        running.wait_for_line("\"event\":\"retry\"").await;
        nginx.start_again().await;
    }
    running.wait_for_line("\"connections\":4").await;
    let output = running.wait().await;
    output.assert_code(0);
    haul.assert_file("f", &content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a14_empty_and_tiny_files() {
    let (nginx, haul) = (Nginx::start().await, HaulDirectory::new());
    for length in [0, 1, 100] {
        let content = ResourceContent::random(2, length);
        nginx.serve("f", &content);
        haul.get(&nginx.url("f"), &["-o", "f", "--overwrite"])
            .await
            .assert_code(0);
        haul.assert_file("f", &content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_per_connection_leads_to_many_connections() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(3, 192 << 20),
    );
    nginx.serve("f", &content);
    let output = haul
        .get(&nginx.url("slow/f"), &["-o", "f", "--json", "-q"])
        .await;
    let found: serde_json::Value = serde_json::from_str(&output.assert_code(0).stdout).unwrap();
    assert!(found["connections"].as_u64().unwrap() >= 8, "{found}");
    haul.assert_file("f", &content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_trusted_by_its_authority_alone() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(4, 20 << 20),
    );
    nginx.serve("f", &content);
    haul.get(&nginx.tls_url("f"), &[])
        .await
        .assert_code(5)
        .assert_stderr_has("hint: ");
    let ca = nginx.ca();
    haul.get(
        &nginx.tls_url("f"),
        &["--cacert", ca.to_str().unwrap(), "-x", "4"],
    )
    .await
    .assert_code(0);
    haul.assert_file("f", &content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_a_login_is_required_and_accepted() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(5, 5000),
    );
    nginx.serve("f", &content);
    haul.get(&nginx.url("locked/f"), &[])
        .await
        .assert_code(5)
        .assert_stderr_has("vault");
    haul.get(&nginx.url("locked/f"), &["-u", "me:secret"])
        .await
        .assert_code(0);
    haul.assert_file("f", &content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_a_redirect_is_followed_and_a_missing_file_is_reported() {
    let (nginx, haul, content) = (
        Nginx::start().await,
        HaulDirectory::new(),
        ResourceContent::random(6, 5000),
    );
    nginx.serve("f", &content);
    haul.get(&nginx.url("moved/f"), &[]).await.assert_code(0);
    haul.assert_file("f", &content);
    haul.get(&nginx.url("none"), &[])
        .await
        .assert_code(5)
        .assert_stderr_has("404");
    assert_eq!(haul.listing(), ["f"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_update_fetches_only_what_is_newer() {
    let (nginx, haul) = (Nginx::start().await, HaulDirectory::new());
    nginx.serve("f", &ResourceContent::random(7, 5000));
    haul.get(&nginx.url("f"), &[]).await.assert_code(0);
    haul.get(&nginx.url("f"), &["--update"])
        .await
        .assert_code(0)
        .assert_stderr_has("not modified");
    let newer = ResourceContent::random(8, 6000);
    nginx.serve("f", &newer);
    haul.get(&nginx.url("f"), &["--update"])
        .await
        .assert_code(0);
    haul.assert_file("f", &newer);
}

//! Where a server listens: several addresses, socket files, sockets that were handed over, the admin endpoint.

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{LIMIT, assert_status, request, start_server, test_folder, wait_for_address};

async fn request_over_socket(path: &std::path::Path, target: &str) -> String {
    let response = async {
        let mut stream = UnixStream::connect(path).await.unwrap();
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    within(LIMIT, response).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_addresses_and_a_socket_file_that_is_removed_at_the_end() {
    let haul = test_folder();
    let mut served = start_server(&haul, &["-l", "127.0.0.1:0", "-l", "unix:s.sock"]).await;
    let second_line = served.running.wait_for_line("listening on http").await;
    let second = second_line
        .split("//")
        .nth(1)
        .unwrap()
        .trim_end_matches('/');
    assert_ne!(second, served.address);
    served.running.wait_for_line("listening on unix:/").await;
    assert_status(&request(second, "GET /a.txt", "").await, 200);
    assert_status(&served.request("GET /a.txt", "").await, 200);
    assert_status(
        &request_over_socket(&haul.path("s.sock"), "/a.txt").await,
        200,
    );
    served.stop().await.assert_code(0);
    assert_eq!(haul.listing(), ["d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_interface_is_shown_by_addresses_that_work() {
    let haul = test_folder();
    let served = wait_for_address(haul.start(&["serve", "d", "-l", ":0"])).await;
    assert!(
        served.address.starts_with("127.0.0.1:"),
        "{:?}",
        served.startup_lines
    );
    assert_status(&served.request("GET /a.txt", "").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inherited_socket_is_used() {
    let haul = test_folder();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let line = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve d -l systemd";
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_haul")])
        .current_dir(haul.dir.path())
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(
            listener,
        )))
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let served = wait_for_address(crate::cli::harness::RunningHaul::from_child(
        command.spawn().unwrap(),
    ))
    .await;
    assert_eq!(served.address, address);
    assert_status(&served.request("GET /a.txt", "").await, 200);
    served.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_endpoint_has_health_and_metrics() {
    let haul = test_folder();
    let mut served = start_server(&haul, &["--admin", "127.0.0.1:0"]).await;
    let line = served.running.wait_for_line("metrics at ").await;
    let admin = line
        .split("//")
        .nth(1)
        .unwrap()
        .strip_suffix("/metrics")
        .unwrap();
    assert_status(&served.request("GET /a.txt", "").await, 200);
    assert_status(&request(admin, "GET /healthz", "").await, 200);
    let metrics = request(admin, "GET /metrics", "").await;
    assert!(metrics.contains("haul_build_info"), "{metrics}");
    assert_status(&served.request("GET /metrics", "").await, 404);
    served.stop().await.assert_code(0);
    let mut served = start_server(&haul, &["--admin", "unix:admin.sock"]).await;
    served.running.wait_for_line("metrics at unix:/").await;
    let answer = request_over_socket(&haul.path("admin.sock"), "/healthz").await;
    assert_status(&answer, 200);
    served.stop().await.assert_code(0);
    assert_eq!(haul.listing(), ["d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_inherited_sockets_are_reported() {
    let haul = test_folder();
    // By the time it looks, the number is that of something of its own.
    let line = "exec 3<&-; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve d -l systemd";
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_haul")])
        .current_dir(haul.dir.path())
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let running = crate::cli::harness::RunningHaul::from_child(command.spawn().unwrap());
    running.wait().await.assert_code(2);
}

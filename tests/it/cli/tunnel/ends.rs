//! How a tunnel ends: at once unless it was told to wait, by a second signal in any case.

use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use super::{Echo, Haul, LIMIT, echoed, finished, proxy_to, tunnel};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_connections_are_cut_off_and_that_is_no_fault() {
    let echo = Echo::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    for signal in [Signal::TERM, Signal::INT] {
        let haul = Haul::new();
        let tunnel = tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
        let mut client = tunnel.client().await;
        echoed(&mut client, "hello").await;
        tunnel.running.signal(signal);
        let ran = tunnel.running.end().await;
        ran.assert_code(0)
            .assert_says("haul: stopped; 1 connection was cut off")
            .assert_says(": stopped, 5 up, 5 down, ");
        assert_eq!(finished(client).await, b"");
    }
}

/// On a terminal they are read from above to below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_connections_come_before_the_end_is_told() {
    let echo = Echo::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = Haul::new();
    let mut tunnel = tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = tunnel.client().await;
        echoed(&mut client, "hello").await;
        clients.push(client);
    }
    // After a line others gather for a while before they are written.
    finished(clients.remove(0)).await;
    tunnel.running.until(": closed, ").await;
    let ran = tunnel.end().await;
    ran.assert_code(0);
    let (before, told) = ran.stderr.split_once("haul: stopped; ").unwrap();
    assert_eq!(before.matches(": stopped, 5 up, 5 down, ").count(), 5);
    assert_eq!(told, "5 connections were cut off\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_grace_they_may_end_and_what_outlasts_it_is_told() {
    let echo = Echo::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = Haul::new();
    let spec = "0:echo.test:7";
    let mut patient = tunnel(&haul, &["-p", &at, "--grace", "1h", spec], 1).await;
    let mut client = patient.client().await;
    echoed(&mut client, "hello").await;
    patient.running.signal(Signal::TERM);
    patient
        .running
        .until("1 connection has 3600 s to end")
        .await;
    echoed(&mut client, "still").await;
    assert_eq!(finished(client).await, b"");
    patient.running.end().await.assert_code(0);
    let hasty = tunnel(&haul, &["-p", &at, "--grace", "200ms", spec], 1).await;
    let mut client = hasty.client().await;
    echoed(&mut client, "hello").await;
    hasty
        .end()
        .await
        .assert_code(1)
        .assert_says("error: 1 connection was cut off that took longer than 0.2 s")
        .assert_says("hint: --grace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait() {
    let echo = Echo::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = Haul::new();
    let mut tunnel = tunnel(&haul, &["-p", &at, "--grace", "1h", "0:echo.test:7"], 1).await;
    let mut client = tunnel.client().await;
    echoed(&mut client, "hello").await;
    tunnel.running.signal(Signal::INT);
    tunnel.running.until("once more to stop at once").await;
    tunnel.running.signal(Signal::TERM);
    let ran = tunnel.running.end().await;
    ran.assert_code(130)
        .assert_says("haul: stopping at once; 1 connection was cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_manager_is_told() {
    let haul = Haul::new();
    let manager = UnixDatagram::bind(haul.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let place = haul.path("notify").to_str().unwrap().to_owned();
    let haul = haul.with("NOTIFY_SOCKET", &place);
    let mut tunnel = tunnel(&haul, &["-p", "127.0.0.1:1", "0:echo.test:7"], 1).await;
    tunnel.hangs_up("haul: reloaded").await;
    tunnel.end().await.assert_code(0);
    let mut told = Vec::new();
    let mut buffer = [0; 256];
    for _ in 0..4 {
        let length = manager.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]);
        told.push(text.split(['\n', ' ']).next().unwrap().to_owned());
    }
    assert_eq!(told, ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]);
}

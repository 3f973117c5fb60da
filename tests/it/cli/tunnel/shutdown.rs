//! How a tunnel stops: at once without --grace, and at once after a second signal.

use std::os::unix::net::UnixDatagram;

use haul_lab::within;
use rustix::process::Signal;

use super::super::harness::{connect_when_listening, full_pipe, send_signal};
use super::super::soak_server::poll_until_ok;
use super::{
    EchoServer, HaulDirectory, LIMIT, assert_echo, proxy_to, shutdown_and_read, start_tunnel,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_connections_are_cut_off_and_the_exit_code_is_0() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    for signal in [Signal::TERM, Signal::INT] {
        let haul = HaulDirectory::new();
        let tunnel = start_tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
        let mut client = tunnel.connect().await;
        assert_echo(&mut client, "hello").await;
        tunnel.running.signal(signal);
        let output = tunnel.running.wait().await;
        output
            .assert_code(0)
            .assert_stderr_has("haul: stopped; 1 connection was cut off")
            .assert_stderr_has(": stopped, 5 up, 5 down, ");
        assert_eq!(shutdown_and_read(client).await, b"");
    }
}

/// A user reads the last message as the end of the output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_lines_of_connections_come_before_the_last_message() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let mut tunnel = start_tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = tunnel.connect().await;
        assert_echo(&mut client, "hello").await;
        clients.push(client);
    }
    // The log writes lines in groups, so after a first line others wait for a moment.
    shutdown_and_read(clients.remove(0)).await;
    tunnel.running.wait_for_line(": closed, ").await;
    let output = tunnel.stop().await;
    output.assert_code(0);
    let (before, last_line) = output.stderr.split_once("haul: stopped; ").unwrap();
    assert_eq!(before.matches(": stopped, 5 up, 5 down, ").count(), 5);
    assert_eq!(last_line, "5 connections were cut off\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_grace_connections_may_end_and_the_rest_is_reported() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let spec = "0:echo.test:7";
    let mut patient = start_tunnel(&haul, &["-p", &at, "--grace", "1h", spec], 1).await;
    let mut client = patient.connect().await;
    assert_echo(&mut client, "hello").await;
    patient.running.signal(Signal::TERM);
    patient
        .running
        .wait_for_line("1 connection has 3600 s to finish")
        .await;
    assert_echo(&mut client, "still").await;
    assert_eq!(shutdown_and_read(client).await, b"");
    patient.running.wait().await.assert_code(0);
    let hasty = start_tunnel(&haul, &["-p", &at, "--grace", "200ms", spec], 1).await;
    let mut client = hasty.connect().await;
    assert_echo(&mut client, "hello").await;
    hasty
        .stop()
        .await
        .assert_code(1)
        .assert_stderr_has("error: 1 connection was cut off after 0.2 s")
        .assert_stderr_has("hint: --grace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let mut tunnel = start_tunnel(&haul, &["-p", &at, "--grace", "1h", "0:echo.test:7"], 1).await;
    let mut client = tunnel.connect().await;
    assert_echo(&mut client, "hello").await;
    tunnel.running.signal(Signal::INT);
    tunnel
        .running
        .wait_for_line("a second signal stops at once")
        .await;
    tunnel.running.signal(Signal::TERM);
    let output = tunnel.running.wait().await;
    output
        .assert_code(130)
        .assert_stderr_has("haul: stopping at once; 1 connection was cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_standard_error_blocks_nothing() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let haul = HaulDirectory::new();
    let write_config = |socket: &str| {
        let proxy = proxy.address();
        let tunnel =
            |socket| format!("[[tunnel]]\nlisten = \"unix:{socket}\"\ntarget = \"echo.test:7\"\n");
        let (first, second) = (tunnel("t.sock"), tunnel(socket));
        haul.write("t.toml", format!("proxy = \"{proxy}\"\n{first}{second}"))
    };
    write_config("a.sock");
    let (_reader, full) = full_pipe();
    let mut command = haul.command(&["tunnel", "--config", "t.toml"]);
    let mut child = command.stderr(full).spawn().unwrap();
    let socket = haul.path("t.sock");
    let mut client = connect_when_listening(&socket).await;
    assert_echo(&mut client, "hello").await;
    write_config("b.sock");
    assert!(send_signal(&child, Signal::HUP));
    poll_until_ok("the settings were not read again", || {
        haul.path("a.sock")
            .exists()
            .then(|| "the old ones are used".to_owned())
    });
    assert_echo(&mut client, "still").await;
    assert_echo(&mut connect_when_listening(&socket).await, "new").await;
    assert!(send_signal(&child, Signal::TERM));
    // INT, because a second TERM could be merged with the first one.
    assert!(send_signal(&child, Signal::INT));
    let status = within(LIMIT, child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_manager_is_notified() {
    let haul = HaulDirectory::new();
    let manager = UnixDatagram::bind(haul.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let socket = haul.path("notify").to_str().unwrap().to_owned();
    let haul = haul.with_variable("NOTIFY_SOCKET", &socket);
    let mut tunnel = start_tunnel(&haul, &["-p", "127.0.0.1:1", "0:echo.test:7"], 1).await;
    tunnel.reload("haul: reloaded").await;
    tunnel.stop().await.assert_code(0);
    let mut notifications = Vec::new();
    let mut buffer = [0; 256];
    for _ in 0..4 {
        let length = manager.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]);
        notifications.push(text.split(['\n', ' ']).next().unwrap().to_owned());
    }
    assert_eq!(
        notifications,
        ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    );
}

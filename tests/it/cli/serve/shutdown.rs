//! D14: how a server ends, and what does not end it.

use std::os::unix::net::UnixDatagram;

use haul_lab::within;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::harness::{connect_when_listening, file_names, full_pipe, send_signal};
use super::super::soak_server::poll_until_ok;
use super::{LIMIT, ServeProcess, assert_status, start_server, test_folder};

/// A running upload: the server has received its first half.
async fn half_an_upload(served: &ServeProcess) -> TcpStream {
    let mut stream = TcpStream::connect(&served.address).await.unwrap();
    let head =
        "PUT /up.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // That it goes on says that the request has begun.
    let mut answer = [0; 64];
    let length = within(LIMIT, stream.read(&mut answer)).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 100"));
    stream.write_all(b"01234").await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d14_requests_in_progress_are_finished() {
    for signal in [Signal::TERM, Signal::INT] {
        let haul = test_folder();
        let mut served = start_server(&haul, &["-w"]).await;
        let mut upload = half_an_upload(&served).await;
        served.running.signal(signal);
        let line = served.running.wait_for_line("stopping").await;
        assert!(line.contains("have 10 s to finish"), "{line}");
        upload.write_all(b"56789").await.unwrap();
        let mut answer = String::new();
        within(LIMIT, upload.read_to_string(&mut answer))
            .await
            .unwrap();
        assert_status(&answer, 201);
        // As clients do; the server lingers for one that may still be sending.
        drop(upload);
        served.running.wait().await.assert_code(0);
        assert_eq!(std::fs::read(haul.path("d/up.txt")).unwrap(), b"0123456789");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d14_requests_longer_than_the_grace_are_cut_off_and_reported() {
    let haul = test_folder();
    let served = start_server(&haul, &["-w", "--grace", "200ms"]).await;
    let _upload = half_an_upload(&served).await;
    let output = served.stop().await;
    output
        .assert_code(1)
        .assert_stderr_has("error: 1 connection was cut off after 0.2 s")
        .assert_stderr_has("hint: --grace");
    assert!(!haul.path("d/up.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait() {
    let haul = test_folder();
    let mut served = start_server(&haul, &["-w", "--grace", "1h"]).await;
    let _upload = half_an_upload(&served).await;
    served.running.signal(Signal::INT);
    served.running.wait_for_line("have 3600 s to finish").await;
    served.running.signal(Signal::TERM);
    let output = served.running.wait().await;
    output
        .assert_code(130)
        .assert_stderr_has("haul: stopping at once; 1 connection was cut off");
    assert!(!haul.path("d/up.txt").exists());
}

/// Two signals that arrive together, before the server has begun to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_signals_at_once_cut_off_uploads_and_remove_their_files() {
    let haul = test_folder();
    let served = start_server(&haul, &["-w", "--grace", "1h"]).await;
    let _upload = half_an_upload(&served).await;
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        served.running.signal(signal);
    }
    let ran = served.running.wait().await;
    ran.assert_code(130)
        .assert_stderr_has("haul: stopping at once; 1 connection was cut off");
    let names = file_names(&haul.path("d/.haul"));
    assert_eq!(names, ["lock"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_reloads_files_and_ends_nothing() {
    let haul = test_folder();
    let log = haul.path("log");
    let mut served = start_server(&haul, &["--access-log", log.to_str().unwrap()]).await;
    assert_status(&served.request("GET /a.txt", "").await, 200);
    std::fs::rename(&log, haul.path("log.1")).unwrap();
    served.running.signal(Signal::HUP);
    served.running.wait_for_line("haul: reloaded").await;
    assert_status(&served.request("GET /later.txt", "").await, 404);
    served.stop().await.assert_code(0);
    let read = |name| std::fs::read_to_string(haul.path(name)).unwrap();
    let line = read("log");
    assert!(line.contains("\"GET /later.txt HTTP/1.1\" 404 "), "{line}");
    // Lines gather for a moment, so the first may be in either.
    let all = read("log.1") + &line;
    assert!(all.contains("\"GET /a.txt HTTP/1.1\" 200 5"), "{all}");
}

/// A server starts, reopens its log on every SIGHUP and stops, also if its messages cannot be printed.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_standard_error_blocks_nothing() {
    let haul = test_folder();
    let (_reader, full) = full_pipe();
    let args = ["serve", "d", "-l", "unix:s.sock", "--access-log", "log"];
    let mut command = haul.command(&args);
    let mut child = command.stderr(full).spawn().unwrap();
    let get = async |status| {
        let mut stream = connect_when_listening(&haul.path("s.sock")).await;
        let head = "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        within(LIMIT, stream.read_to_string(&mut response))
            .await
            .unwrap();
        assert_status(&response, status);
    };
    get(200).await;
    for old_log in ["log.1", "log.2"] {
        poll_until_ok("the log was not reopened", || {
            let is_missing = !haul.path("log").exists();
            is_missing.then(|| format!("no log before {old_log}"))
        });
        std::fs::rename(haul.path("log"), haul.path(old_log)).unwrap();
        assert!(send_signal(&child, Signal::HUP));
    }
    poll_until_ok("the log was not reopened", || {
        let is_missing = !haul.path("log").exists();
        is_missing.then(|| "no log at the end".to_owned())
    });
    get(200).await;
    // A warning of the threads that serve.
    std::fs::remove_dir_all(haul.path("d")).unwrap();
    for _ in 0..8 {
        get(500).await;
    }
    assert!(send_signal(&child, Signal::TERM));
    let status = within(LIMIT, child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(!haul.path("s.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_may_be_standard_output() {
    let haul = test_folder();
    let flags = ["--access-log", "-", "--log-format", "json"];
    let served = start_server(&haul, &flags).await;
    assert_status(&served.request("GET /a.txt", "").await, 200);
    let output = served.stop().await;
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{output:#?}");
    assert!(lines[0].starts_with('{') && lines[0].contains("/a.txt"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_while_serving_are_reported_without_a_flag() {
    let haul = test_folder();
    let mut served = start_server(&haul, &["--access-log", "/dev/full"]).await;
    assert_status(&served.request("GET /a.txt", "").await, 200);
    let warning = served
        .running
        .wait_for_line("cannot write the access log /dev/full: ")
        .await;
    assert!(warning.starts_with("haul: warning: "), "{warning}");
    let output = served.stop().await;
    output
        .assert_code(0)
        .assert_stderr_has("warning: the access log is incomplete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_folder_is_reported() {
    let haul = test_folder();
    let mut served = start_server(&haul, &[]).await;
    std::fs::remove_dir_all(haul.path("d")).unwrap();
    assert_status(&served.request("GET /a.txt", "").await, 500);
    let message = served.running.wait_for_line("was removed").await;
    assert_eq!(
        message,
        "haul: error: the served folder was removed: create it again, then restart the server (path=d)"
    );
    served.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_manager_is_notified() {
    let haul = test_folder();
    let manager = UnixDatagram::bind(haul.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let place = haul.path("notify").to_str().unwrap().to_owned();
    let haul = haul.with_variable("NOTIFY_SOCKET", &place);
    let mut served = start_server(&haul, &[]).await;
    served.running.signal(Signal::HUP);
    served.running.wait_for_line("haul: reloaded").await;
    served.stop().await.assert_code(0);
    // All of it waits in the socket by now.
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

/// Closing the terminal that started the server stops the server.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_terminal_ends_the_server() {
    use std::io::{BufRead as _, BufReader, Read as _};

    use rustix::fs::{CWD, Mode, mkfifoat};
    let haul = test_folder();
    let path = haul.path("stderr");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    // Whoever runs the tests may ignore the signal, and that is inherited.
    let line = format!(
        "exec env --default-signal=HUP {} serve d -l 127.0.0.1:0 2>stderr",
        env!("CARGO_BIN_EXE_haul")
    );
    let mut terminal = haul.terminal_command(&line).spawn().unwrap();
    let begun = tokio::task::spawn_blocking(move || {
        let mut stderr = BufReader::new(std::fs::File::open(path).unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(
                stderr.read_line(&mut line).unwrap() > 0,
                "it does not listen"
            );
        }
        stderr
    });
    let mut stderr = within(LIMIT, begun).await.unwrap();
    terminal.kill().await.unwrap();
    // To its end, which comes with that of the server.
    let ended = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest)
    });
    let rest = within(LIMIT, ended).await.unwrap().unwrap();
    assert!(rest.contains("haul: stopping"), "{rest}");
}

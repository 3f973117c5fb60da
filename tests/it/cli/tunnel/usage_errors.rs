//! Command lines with which the tunnel does not start, and their messages (row E14).

use std::net::TcpListener;

use haul_lab::{SilentListener, within};

use super::{HaulDirectory, LIMIT, start_tunnel, wait_for_listeners};
use crate::cli::harness::RunningHaul;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let haul = HaulDirectory::new();
    let spec = format!("{port}:echo.test:7");
    let output = haul
        .run(&["tunnel", "-p", "127.0.0.1:1", "0:echo.test:7", &spec])
        .await;
    output
        .assert_code(5)
        .assert_stderr_has(&format!(
            "error: 127.0.0.1:{port} is taken by another server"
        ))
        .assert_stderr_has("hint: stop it or take another port");
    assert!(!output.stderr.contains("listening"), "{output:#?}");
    let socks = port.to_string();
    haul.run(&["tunnel", "-p", "127.0.0.1:1", "--socks", &socks])
        .await
        .assert_code(5)
        .assert_stderr_has(&format!("127.0.0.1:{port} is taken"));
}

/// It is tried ten times a second, while connections that hold descriptors are waited for.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_missing_descriptors_are_reported_once() {
    let silent = SilentListener::start().unwrap();
    let line = format!(
        "ulimit -n 40; exec \"$0\" tunnel -p {} --connect-timeout 1s --max-connections 100 0:echo.test:7",
        silent.address()
    );
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_haul")])
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let running = RunningHaul::from_child(command.spawn().unwrap());
    let mut tunnel = wait_for_listeners(running, 1).await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(tunnel.connect().await);
    }
    tunnel.running.wait_for_line("cannot accept").await;
    // A second later.
    let more = async {
        let mut more = 0;
        while let Some(line) = tunnel.running.stderr.next_line().await.unwrap() {
            more += usize::from(line.contains("cannot accept"));
            if line.contains("in time") {
                break;
            }
        }
        more
    };
    assert_eq!(within(LIMIT, more).await, 0);
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_given_twice_is_a_usage_error() {
    let haul = HaulDirectory::new();
    let spec = "unix:s.sock:echo.test:7";
    let args = ["tunnel", "-p", "127.0.0.1:1", spec, spec];
    haul.run(&args)
        .await
        .assert_code(2)
        .assert_stderr_has("unix:s.sock is already used by another tunnel of this command");
    assert!(haul.listing().is_empty(), "{:?}", haul.listing());
    let admin = ["--admin", "unix:s.sock"];
    let args = [&args[..4], &admin].concat();
    haul.run(&args)
        .await
        .assert_code(2)
        .assert_stderr_has("--admin unix:s.sock is already used by another SPEC of this command");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_other_machines_can_connect_only_on_request_and_with_a_warning() {
    let haul = HaulDirectory::new();
    let mut public = start_tunnel(
        &haul,
        &["-p", "127.0.0.1:1", "*:0:echo.test:7", "--socks", ":0"],
        2,
    )
    .await;
    assert!(
        !public
            .addresses
            .iter()
            .any(|address| address.starts_with("127.")),
        "{:?}",
        public.stderr_lines
    );
    let warned = public
        .running
        .wait_for_line("warning: everybody who can reach")
        .await;
    assert!(warned.contains("can connect to echo.test:7"), "{warned}");
    let warned = public
        .running
        .wait_for_line("warning: everybody who can reach")
        .await;
    assert!(
        warned.contains("can use this proxy in your name"),
        "{warned}"
    );
    public.stop().await.assert_code(0);
    let private = start_tunnel(
        &haul,
        &["-p", "127.0.0.1:1", "0:echo.test:7", "--socks", "0"],
        2,
    )
    .await;
    assert!(
        private
            .addresses
            .iter()
            .all(|address| address.starts_with("127.0.0.1:"))
    );
    let output = private.stop().await;
    assert!(
        !output.assert_code(0).stderr.contains("everybody"),
        "{output:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_lines_that_cannot_be_used() {
    let haul = HaulDirectory::new();
    let p = &["tunnel", "-p", "p.test:1"][..];
    let mut outputs = Vec::new();
    for (before, line) in [
        (p, ""),
        (p, "9993:imap.test"),
        (p, "9993:imap.test:imaps"),
        (p, "x:imap.test:993"),
        (p, "1:t.test:1 --stdio t.test:1"),
        (p, "--stdio t.test"),
        (p, "--stdio t.test:ssh"),
        (p, "--socks nowhere"),
        (p, "1:t.test:1 --warm-idle 5s"),
        (p, "1:t.test:1 --cacert x"),
        (p, "1:t.test:1 --proxy-cacert x"),
        (p, "1:t.test:1 -H X"),
        (p, "1:t.test:1 -q --log-format json"),
        (p, "1:t.test:1 --log-format xml"),
        (p, "1:t.test:1 --admin systemd"),
        (p, "1:t.test:1 -4 -6"),
        (p, "1:t.test:1 --config nowhere.toml"),
        (p, "1:t.test:1 --idle-timeout 5x"),
        (p, "1:t.test:1 --warm 5000"),
        (p, "systemd:t.test:1"),
        (p, "status:t.test:1"),
        (p, "status x"),
        (p, "1:t.test:1 status"),
        (&["tunnel"], "1:t.test:1"),
        (&["tunnel"], "-p ftp://me:s3cret@p 1:t.test:1"),
        (&["tunnel"], "-p me:s3cret@p:1,me:s3cret@q:1 1:t.test:1"),
        (&["tunnel"], "-p corp 1:t.test:1"),
        (&["tunnel"], "-p p.test:port 1:t.test:1"),
        (&["tunnel"], "-p http://p.test:1/?x 1:t.test:1"),
        (p, "1:t.test:1 --no-proxy .lan,1.2.3.4/99"),
        (&["tunnel"], "-p a:1, 1:t.test:1"),
        (&["tunnel"], "me:s3cret 1:t.test:1 -p p:1"),
        (&["tunnel"], "-p p.test:1 -U :s3cret 1:t.test:1"),
        (&["tunnel"], "-p p.test:1 -U me 1:t.test:1"),
        (&["tunnel"], "-x p.test 1:t.test:1"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = haul.run(&[before, &words].concat()).await;
        assert!(
            !output.assert_code(2).stderr.contains("s3cret"),
            "{line}: {output:#?}"
        );
        assert_eq!(output.stdout, "");
        outputs.push(format!(
            "{} {line}\n{}",
            before.join(" "),
            output.stderr_text(&haul, None)
        ));
    }
    insta::assert_snapshot!(outputs.join("\n"));
}

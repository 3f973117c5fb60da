//! `--stdio`: both directions, their ends, exit codes, and a real ssh.

use std::process::Stdio;

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{EchoServer, HaulDirectory, LIMIT, proxy_to};
use crate::cli::harness::HaulOutput;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_output_has_the_targets_bytes_and_nothing_else() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let args = ["tunnel", "-p", &at, "--stdio", "echo.test:7"];
    let mut child = haul.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // Each piece arrives before the next one is sent.
    for word in ["one", "two\n"] {
        let mut received = vec![0; word.len()];
        let turn = async {
            stdin.write_all(word.as_bytes()).await.unwrap();
            stdout.read_exact(&mut received).await.unwrap();
        };
        within(LIMIT, turn).await;
        assert_eq!(received, word.as_bytes());
    }
    let large = vec![7; 3 << 20];
    let sent = large.clone();
    let send = async {
        stdin.write_all(&sent).await.unwrap();
        drop(stdin);
    };
    let mut back = Vec::new();
    let (_, read) = within(LIMIT, async {
        tokio::join!(send, stdout.read_to_end(&mut back))
    })
    .await;
    read.unwrap();
    assert!(back == large);
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    assert_eq!(output.assert_code(0).stderr, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_target_is_seen_while_standard_input_stays_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let args = ["tunnel", "-p", "", "--stdio", &target];
    let mut child = haul.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut far, _) = within(LIMIT, listener.accept()).await.unwrap();
    far.write_all(b"banner").await.unwrap();
    far.shutdown().await.unwrap();
    let mut received = Vec::new();
    within(LIMIT, stdout.read_to_end(&mut received))
        .await
        .unwrap();
    assert_eq!(received, b"banner");
    // The other direction goes on to its end.
    stdin.write_all(b"late").await.unwrap();
    drop(stdin);
    let mut received = Vec::new();
    within(LIMIT, far.read_to_end(&mut received)).await.unwrap();
    assert_eq!(received, b"late");
    HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap()).assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_by_the_target_ends_it_while_standard_input_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let args = ["tunnel", "-p", "", "--stdio", &target];
    let mut child = haul.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    // Kept: it is neither written to nor closed.
    let _stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut far, _) = within(LIMIT, listener.accept()).await.unwrap();
    far.write_all(b"banner").await.unwrap();
    let mut banner = [0; 6];
    within(LIMIT, stdout.read_exact(&mut banner)).await.unwrap();
    let far = far.into_std().unwrap();
    rustix::net::sockopt::set_socket_linger(&far, Some(std::time::Duration::ZERO)).unwrap();
    drop(far);
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    output.assert_code(5).assert_stderr_has("reset by target");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_cannot_be_reached_is_reported_on_standard_error() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    for (proxy, target, says) in [
        ("127.0.0.1:1", "echo.test:7", "hint: is the proxy up"),
        ("", "127.0.0.1:1", "hint: is the host up"),
        (&at, "other.test:7", "cannot reach other.test:7"),
    ] {
        let args = ["tunnel", "-q", "-p", proxy, "--stdio", target];
        // It must not wait for standard input either.
        let mut child = haul.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let _stdin = child.stdin.take();
        let output =
            HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
        output.assert_code(5).assert_stderr_has(says);
        assert_eq!(output.stdout, "");
    }
}

/// That a proxy is needed is the last thing to say when there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_distinguish_a_server_that_is_not_a_proxy_from_a_proxy_that_is_down() {
    let stalls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closes = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let odd = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let places = [at(&stalls), at(&closes), at(&odd)];
    let mut proxies = tokio::task::JoinSet::new();
    proxies.spawn(async move {
        loop {
            let (mut stream, banner) = tokio::select! {
                accepted = closes.accept() => (accepted.unwrap().0, ""),
                accepted = odd.accept() => (accepted.unwrap().0, "SSH-2.0-x\r\n\r\n"),
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(banner.as_bytes()).await;
        }
    });
    let haul = HaulDirectory::new();
    for (proxy, says) in places.iter().zip([
        "hint: the proxy accepts connections and does not respond: ",
        "hint: is this an HTTP proxy, and its port correct? ",
        "hint: is this an HTTP proxy, and its port correct? ",
    ]) {
        let args = ["tunnel", "-p", proxy, "--connect-timeout", "1s"];
        let args = [&args[..], &["--stdio", "echo.test:7"]].concat();
        haul.run(&args).await.assert_code(5).assert_stderr_has(says);
    }
    drop(stalls);
}

/// A script that checks only the exit code must not take a part for the whole.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let args = ["tunnel", "-p", "", "--stdio", &target];
    let child = haul
        .command(&args)
        .stdin(Stdio::null())
        .stdout(full.unwrap())
        .spawn()
        .unwrap();
    let (mut far, _) = within(LIMIT, listener.accept()).await.unwrap();
    far.write_all(b"banner").await.unwrap();
    drop(far);
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    output
        .assert_code(4)
        .assert_stderr_has("cannot write to standard output")
        .assert_stderr_has("hint: ");
}

/// The reader knows that it has closed the pipe, so no message says so. A target that goes on sending must not keep the program running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_standard_output_ends_the_tunnel_without_a_message() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let args = ["tunnel", "-p", "", "--stdio", &target];
    let mut child = haul.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    // Kept open, so that this direction has not ended.
    let _stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut far, _) = within(LIMIT, listener.accept()).await.unwrap();
    far.write_all(b"banner").await.unwrap();
    let mut received = [0; 6];
    within(LIMIT, stdout.read_exact(&mut received))
        .await
        .unwrap();
    drop(stdout);
    // Until the tunnel closes the connection to the target.
    within(LIMIT, async {
        while far.write_all(&[7; 4096]).await.is_ok() {}
    })
    .await;
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    assert_eq!(output.assert_code(141).stderr, "");
}

/// At a terminal nothing that is typed would be read any more.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_terminal_the_end_of_the_target_ends_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let line = format!(
        "{} tunnel -p '' --stdio {target}",
        env!("CARGO_BIN_EXE_haul")
    );
    let mut command = haul.terminal_command(&line);
    // script(1) ends the terminal's input with its own.
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let _stdin = child.stdin.take().unwrap();
    let (mut far, _) = within(LIMIT, listener.accept()).await.unwrap();
    far.write_all(b"banner").await.unwrap();
    drop(far);
    let output = within(LIMIT, child.wait_with_output()).await.unwrap();
    let output = HaulOutput::from_output(output);
    assert!(
        output.assert_code(0).stdout.contains("banner"),
        "{output:#?}"
    );
}

/// A stream that cannot be used is neither one that has ended nor one that has taken all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_open_in_the_wrong_direction_are_refused() {
    let haul = HaulDirectory::new();
    haul.write("f", "");
    let open = |writes: bool| {
        let mut options = std::fs::File::options();
        options
            .read(!writes)
            .write(writes)
            .open(haul.path("f"))
            .unwrap()
    };
    for (input, output, says) in [
        (true, true, "standard input is open for writing only"),
        (false, false, "standard output is open for reading only"),
    ] {
        let child = haul
            .command(&["tunnel", "-p", "", "--stdio", "127.0.0.1:1"])
            .stdin(open(input))
            .stdout(open(output))
            .spawn()
            .unwrap();
        let output =
            HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
        output.assert_code(4).assert_stderr_has(says);
    }
}

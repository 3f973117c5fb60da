//! The connection log: its targets. When it cannot be written, connections go on, and one message names the file and says what happens to
//! its lines.

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::harness::connect_when_listening;
use super::{
    EchoServer, HaulDirectory, LIMIT, assert_echo, proxy_to, shutdown_and_read, start_tunnel,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_may_be_a_file_standard_output_or_none() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    for (flags, json) in [
        (&["--log", "l.log"][..], false),
        (&["--log", "-", "--log-format", "json"], true),
        (&["-q"], false),
        (&["-q", "--log", "l.log", "--log-format", "json"], true),
    ] {
        let _ = std::fs::remove_file(haul.path("l.log"));
        // With -q the tunnel does not print its address, so the test chooses it.
        let spec = "unix:s.sock:echo.test:7";
        let args = [&["tunnel", "-p", &at, spec], flags].concat();
        let running = haul.start(&args);
        let mut client = connect_when_listening(&haul.path("s.sock")).await;
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = Vec::new();
        within(LIMIT, client.read_to_end(&mut received))
            .await
            .unwrap();
        assert_eq!(received, b"hello");
        let output = super::TunnelProcess {
            running,
            addresses: Vec::new(),
            stderr_lines: Vec::new(),
        }
        .stop()
        .await;
        output.assert_code(0);
        let file = std::fs::read_to_string(haul.path("l.log")).unwrap_or_default();
        let is_named = flags.contains(&"--log");
        if flags.contains(&"-q") {
            assert_eq!(output.stderr, "", "{flags:?}")
        } else {
            assert_eq!(output.stderr.lines().count(), 1, "{flags:?}: {output:#?}")
        }
        let logged = if flags.contains(&"-") {
            &output.stdout
        } else {
            &file
        };
        assert_eq!(
            logged.lines().count(),
            usize::from(is_named),
            "{flags:?}: {logged}"
        );
        if is_named {
            let words = if json {
                "\"end\":\"closed\""
            } else {
                ": closed, 5 up, 5 down, "
            };
            assert!(logged.contains(words), "{flags:?}: {logged}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_costs_lines_but_no_connections_and_is_reported_once() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let args = ["-p", &at, "--log", "/dev/full", "0:echo.test:7"];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    let warning = "haul: warning: cannot write the connection log /dev/full: No space left on device (os error 28): \
                haul continues, and drops and counts lines until that works again";
    let one_more = async |tunnel: &super::TunnelProcess| {
        let mut client = tunnel.connect().await;
        assert_echo(&mut client, "hello").await;
        assert_eq!(shutdown_and_read(client).await, b"");
    };
    one_more(&tunnel).await;
    assert_eq!(
        tunnel.running.wait_for_line("cannot write the ").await,
        warning
    );
    one_more(&tunnel).await;
    let output = tunnel.stop().await;
    output
        .assert_code(0)
        .assert_stderr_has("warning: the connection log is incomplete: 2 lines were dropped");
    // It lacks the lines that were read above.
    assert_eq!(output.stderr.matches("warning: ").count(), 1, "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_folder_leaves_the_old_file_in_use() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("logs")).unwrap();
    let args = ["-p", &at, "--log", "logs/l.log", "0:echo.test:7"];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    std::fs::rename(haul.path("logs"), haul.path("moved")).unwrap();
    let warning = tunnel.reload("cannot reopen the ").await;
    assert!(
        warning
            .contains("haul: warning: cannot reopen the connection log logs/l.log: No such file"),
        "{warning}"
    );
    assert!(
        warning.ends_with("haul keeps writing to the old file; SIGHUP tries again"),
        "{warning}"
    );
    let mut client = tunnel.connect().await;
    assert_echo(&mut client, "hello").await;
    assert_eq!(shutdown_and_read(client).await, b"");
    tunnel.stop().await.assert_code(0);
    let log = std::fs::read_to_string(haul.path("moved/l.log")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
}

/// With -q the tunnel reports the error, but not that the log is written again.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_works_again_is_reported_unless_quiet() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    for flags in [&[][..], &["-q"]] {
        let haul = HaulDirectory::new();
        std::os::unix::fs::symlink("/dev/full", haul.path("l.log")).unwrap();
        let args = ["tunnel", "-p", &at, "--log", "l.log"];
        let spec = "unix:s.sock:echo.test:7";
        let mut running = haul.start(&[&args[..], &[spec], flags].concat());
        let one_more = async || {
            let mut client = connect_when_listening(&haul.path("s.sock")).await;
            client.shutdown().await.unwrap();
            within(LIMIT, client.read_to_end(&mut Vec::new()))
                .await
                .unwrap();
        };
        one_more().await;
        running.wait_for_line("cannot write the ").await;
        std::fs::remove_file(haul.path("l.log")).unwrap();
        running.signal(rustix::process::Signal::HUP);
        crate::cli::soak_server::poll_until_ok("the log was not reopened", || {
            let log_exists = haul.path("l.log").exists();
            (!log_exists).then(|| "none".to_owned())
        });
        one_more().await;
        running.signal(rustix::process::Signal::TERM);
        let output = running.wait().await;
        output
            .assert_code(0)
            .assert_stderr_has("warning: the connection log is incomplete: 1 line was dropped");
        let message = "haul: the connection log l.log is written again: 1 line was dropped";
        assert_eq!(
            output.stderr.contains(message),
            flags.is_empty(),
            "{output:#?}"
        );
        assert!(haul.path("l.log").metadata().unwrap().len() > 0);
    }
}

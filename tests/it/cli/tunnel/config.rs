//! `--config`, and its reload by SIGHUP while connections go on.

use haul_lab::within;
use tokio::io::AsyncReadExt as _;

use super::{
    EchoServer, HaulDirectory, LIMIT, assert_echo, connect_to, proxy_to, shutdown_and_read,
    start_tunnel,
};

/// A file with two tunnels, one of them to the given target.
pub(super) fn config_file(proxy: &str, target: &str) -> String {
    format!(
        r#"
        proxy = "corp"
        [proxies.corp]
        url = "{proxy}"
        [[tunnel]]
        listen = "0"
        target = "{target}"
        [[tunnel]]
        listen = "unix:s.sock"
        kind = "socks"
        "#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_and_the_flags_both_name_tunnels() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("etc")).unwrap();
    haul.write("etc/t.toml", config_file(&at, "echo.test:7"));
    let mut tunnel = start_tunnel(&haul, &["--config", "etc/t.toml", "0:echo.test:7"], 2).await;
    for address in tunnel.addresses.clone() {
        assert_echo(&mut connect_to(&address).await, "hello").await;
    }
    // A path in the file is relative to the file.
    let socket = tunnel.wait_for_listener().await;
    assert!(socket.ends_with("/etc/s.sock"), "{socket}");
    assert!(haul.path("etc/s.sock").exists());
    tunnel.stop().await.assert_code(0);
    assert_eq!(
        crate::cli::harness::file_names(&haul.path("etc")),
        ["t.toml"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_changes_targets_and_keeps_connections() {
    let (echo, other) = (EchoServer::start().await, EchoServer::start().await);
    let proxy = haul_lab::HttpProxy::builder()
        .route("echo.test:7", echo.address)
        .route("other.test:7", other.address)
        .start()
        .await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    haul.write("t.toml", config_file(&at, "echo.test:7"));
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml", "--log", "l.log"], 2).await;
    let mut old = tunnel.connect().await;
    assert_echo(&mut old, "before").await;
    let more = "[[tunnel]]\nlisten = \"127.0.0.2:0\"\ntarget = \"echo.test:7\"\n";
    let text = config_file(&at, "other.test:7")
        .replace(
            "[[tunnel]]\n        listen = \"unix",
            "[[gone]]\n        listen = \"unix",
        )
        .split("[[gone]]")
        .next()
        .unwrap()
        .to_owned()
        + more;
    haul.write("t.toml", text);
    std::fs::rename(haul.path("l.log"), haul.path("l.log.1")).unwrap();
    tunnel.running.signal(rustix::process::Signal::HUP);
    let opened = tunnel.wait_for_listener().await;
    tunnel
        .running
        .wait_for_line("haul: no longer listening on unix:")
        .await;
    tunnel.running.wait_for_line("haul: reloaded").await;
    assert!(!haul.path("s.sock").exists());
    assert_echo(&mut connect_to(&opened).await, "new").await;
    // The same port with another target: existing connections are not disturbed.
    assert_echo(&mut tunnel.connect().await, "after").await;
    assert_echo(&mut old, "still").await;
    assert_eq!(shutdown_and_read(old).await, b"");
    let requests = proxy.requests();
    // Two clients, and the try at the start.
    let count = |target: &str| {
        requests
            .iter()
            .filter(|request| request.target == target)
            .count()
    };
    assert_eq!((count("echo.test:7"), count("other.test:7")), (3, 1));
    tunnel.stop().await.assert_code(0);
    let log = std::fs::read_to_string(haul.path("l.log")).unwrap();
    assert!(log.contains(" > other.test:7 "), "{log}");
    assert!(
        log.contains(" > echo.test:7 ") && log.contains("11 up, 11 down"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_changes_nothing() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken
        .local_addr()
        .map(|local| (local.port(), taken))
        .unwrap();
    let haul = HaulDirectory::new();
    let good = config_file(&at, "echo.test:7");
    haul.write("t.toml", &good);
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.connect().await;
    assert_echo(&mut old, "before").await;
    let more = format!(
        "[[tunnel]]\nlisten = \"0\"\ntarget = \"t:1\"\n[[tunnel]]\nlisten = \"{}\"\ntarget = \"t:1\"\n",
        taken.0
    );
    for (text, says) in [
        (format!("prosy = 1\n{good}"), "t.toml:1: prosy: unknown key"),
        (format!("{good}\n{more}"), "is taken by another server"),
    ] {
        haul.write("t.toml", text);
        tunnel.reload("warning: nothing has changed").await;
        tunnel.running.wait_for_line(says).await;
        assert_echo(&mut old, "still").await;
        assert_echo(&mut tunnel.connect().await, "new").await;
        assert!(haul.path("s.sock").exists());
    }
    // The failed reload does not affect the next one.
    haul.write("t.toml", &good);
    tunnel.reload("haul: reloaded").await;
    let output = tunnel.stop().await;
    output.assert_code(0);
    assert!(!output.stderr.contains("reloaded"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_reads_password_files_again() {
    let echo = EchoServer::start().await;
    let proxy = haul_lab::HttpProxy::builder()
        .route("echo.test:7", echo.address)
        .require_login(haul_lab::faults::RequiredLogin::basic("me", "right"))
        .start()
        .await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    haul.write("password", "wrong");
    let args = [
        "-p",
        &at,
        "-U",
        "me",
        "--proxy-password-file",
        "password",
        "0:echo.test:7",
    ];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    // It stays until it is sent away.
    let mut refused = tunnel.connect().await;
    let mut nothing = Vec::new();
    let _ = within(LIMIT, refused.read_to_end(&mut nothing)).await;
    assert!(nothing.is_empty());
    tunnel.running.wait_for_line(": failed: ").await;
    haul.write("password", "right");
    tunnel.reload("haul: reloaded").await;
    within(LIMIT, async {
        assert_echo(&mut tunnel.connect().await, "hello").await
    })
    .await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_system_names_the_line_of_the_file() {
    let haul = HaulDirectory::new();
    let tunnel = "[[tunnel]]\nlisten = \"0\"\ntarget = \"t.test:1\"\n";
    haul.write(
        "t.toml",
        format!("proxy = \"\"\nlog = \"nowhere/l.log\"\n{tunnel}"),
    );
    haul.run(&["tunnel", "--config", "t.toml"])
        .await
        .assert_code(4)
        .assert_stderr_has("haul: error: t.toml:2: log: ");
    // By a flag it is that flag's.
    let args = ["tunnel", "--config", "t.toml", "--log", "nowhere/m.log"];
    let output = haul.run(&args).await;
    output.assert_code(4);
    assert!(!output.stderr.contains("t.toml"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdio_warns_of_options_for_listeners() {
    let haul = HaulDirectory::new();
    haul.write("t.toml", "proxy = \"\"\nlog = \"l.log\"\nwarm = 2\n");
    let args = ["tunnel", "--config", "t.toml", "--stdio", "127.0.0.1:1"];
    let output = haul.run(&args).await;
    output.assert_code(5).assert_stderr_has(
        "warning: t.toml: --stdio does not use log, warm, which are for listeners",
    );
    assert!(!haul.path("l.log").exists());
    let output = haul.run(&[&args[..], &["-q"]].concat()).await;
    assert!(
        !output.assert_code(5).stderr.contains("warning"),
        "{output:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_listener_at_the_admin_endpoint_is_a_conflict_of_this_process() {
    let haul = HaulDirectory::new();
    let good = config_file("127.0.0.1:1", "echo.test:7");
    haul.write("t.toml", &good);
    let args = ["--config", "t.toml", "--admin", "127.0.0.1:0"];
    let mut tunnel = start_tunnel(&haul, &args, 2).await;
    let line = tunnel
        .running
        .wait_for_line("metrics at http://127.0.0.1:")
        .await;
    let port = line.trim_end_matches("/metrics").rsplit(':').next();
    let more = format!(
        "[[tunnel]]\nlisten = \"{}\"\ntarget = \"t:1\"\n",
        port.unwrap()
    );
    haul.write("t.toml", format!("{good}\n{more}"));
    tunnel
        .reload("is already used by another --admin of this command")
        .await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_that_need_a_restart_are_named() {
    let haul = HaulDirectory::new();
    let of = |top: &str| format!("{top}\n{}", config_file("127.0.0.1:1", "echo.test:7"));
    haul.write("t.toml", of("threads = 2"));
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    for (top, message) in [
        ("threads = 3", "warning: threads stays unchanged until "),
        (
            "grace = \"9s\"\nlog = \"l.log\"",
            "warning: grace, log and threads stay unchanged until ",
        ),
        ("threads = 2", "haul: reloaded"),
    ] {
        haul.write("t.toml", of(top));
        tunnel.reload(message).await;
    }
    let output = tunnel.stop().await;
    output.assert_code(0);
    assert!(!output.stderr.contains("warning"), "{output:#?}");
}

//! `haul tunnel status`, the admin endpoint, and the sockets by which tunnels are found.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use super::{EchoServer, HaulDirectory, assert_echo, proxy_to, start_tunnel};

fn with_runtime_folder() -> HaulDirectory {
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("run")).unwrap();
    let folder = haul.path("run").to_str().unwrap().to_owned();
    haul.with_variable("XDG_RUNTIME_DIR", &folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_shows_tunnels_and_connections_of_the_user() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = with_runtime_folder();
    let status = ["tunnel", "status"];
    haul.run(&status)
        .await
        .assert_code(1)
        .assert_stderr_has("error: no haul tunnel of this user is running");
    let one = start_tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
    let other = start_tunnel(&haul, &["-p", &at, "--socks", "0"], 1).await;
    let mut client = one.connect().await;
    assert_echo(&mut client, "hello").await;
    let output = haul.run(&status).await;
    let status = &output.assert_code(0).stdout;
    assert_eq!(output.stderr, "");
    let listen = &one.addresses[0];
    assert!(
        status.contains(&format!("{listen} -> echo.test:7\n")),
        "{status}"
    );
    assert!(
        status.contains(&format!(
            "{} -> SOCKS5\nno connections\n",
            other.addresses[0]
        )),
        "{status}"
    );
    let line = status
        .lines()
        .find(|line| line.contains(" echo.test:7  "))
        .unwrap();
    let client_at = client.local_addr().unwrap().to_string();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..5], ["5", "B", "5", "B"], "{line}");
    assert_eq!(
        words[5..],
        [client_at.as_str(), "echo.test:7", &at, listen],
        "{line}"
    );
    let output = haul.run(&["tunnel", "status", "--json"]).await;
    let objects: Vec<serde_json::Value> = output
        .assert_code(0)
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 2);
    let connections = |object: &serde_json::Value| object["connections"].as_array().unwrap().len();
    assert_eq!(objects.iter().map(connections).sum::<usize>(), 1);
    let mode = |name: &str| haul.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run/haul"), 0o700);
    let names = crate::cli::harness::file_names(&haul.path("run/haul"));
    assert_eq!(names.len(), 2);
    assert_eq!(mode(&format!("run/haul/{}", names[0])), 0o600);
    drop(client);
    one.stop().await.assert_code(0);
    other.stop().await.assert_code(0);
    assert!(crate::cli::harness::file_names(&haul.path("run/haul")).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_of_a_dead_process_is_removed() {
    let haul = with_runtime_folder();
    let mut dead = start_tunnel(&haul, &["-p", "127.0.0.1:1", "0:echo.test:7"], 1).await;
    // The socket exists when the service manager would be notified, shortly after the banner.
    let folder = haul.path("run/haul");
    crate::cli::soak_server::poll_until_ok("there is no socket", || {
        let socket_exists = folder
            .read_dir()
            .is_ok_and(|mut names| names.next().is_some());
        (!socket_exists).then(|| "none".to_owned())
    });
    dead.running.child.kill().await.unwrap();
    haul.write("run/haul/other.sock", "");
    // A tunnel that has just started refuses connections too, until it listens. So a new socket is not removed.
    haul.run(&["tunnel", "status"]).await.assert_code(1);
    let names = crate::cli::harness::file_names(&folder);
    assert_eq!(names.len(), 2, "{names:?}");
    let line = "exec touch -h -d '1 minute ago' run/haul/tunnel-*.sock";
    haul.shell(line).await.assert_code(0);
    haul.run(&["tunnel", "status"]).await.assert_code(1);
    assert_eq!(crate::cli::harness::file_names(&folder), ["other.sock"]);
}

/// The output lacks a tunnel that does not respond, so the user is warned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_no_tunnel_is_warned_of() {
    let haul = with_runtime_folder();
    let tunnel = start_tunnel(&haul, &["-p", "127.0.0.1:1", "0:echo.test:7"], 1).await;
    let folder = haul.path("run/haul");
    crate::cli::soak_server::poll_until_ok("there is no socket", || {
        let socket_exists = folder
            .read_dir()
            .is_ok_and(|mut names| names.next().is_some());
        (!socket_exists).then(|| "none".to_owned())
    });
    let odd = UnixListener::bind(folder.join("tunnel-4711.sock")).unwrap();
    let _odd = std::thread::spawn(move || {
        for mut stream in odd.incoming().flatten() {
            // Unread bytes would make the close a reset.
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    let status = ["tunnel", "status"];
    let output = haul.run(&status).await;
    output
        .assert_code(1)
        .assert_stderr_has("warning: process 4711: this is not a haul tunnel (");
    assert!(output.stdout.contains(" -> echo.test:7"), "{output:#?}");
    tunnel.stop().await.assert_code(0);
    let output = haul.run(&status).await;
    output
        .assert_code(1)
        .assert_stderr_has("error: none of this user's haul tunnels responds")
        .assert_stderr_has("warning: process 4711: this is not a haul tunnel (");
    assert!(!output.stderr.contains("is running"), "{output:#?}");
    // An unknown process: the user must not be told to kill it.
    assert!(!output.stderr.contains("hint: "), "{output:#?}");
    assert_eq!(output.stdout, "");
}

/// The hint names a process to continue or kill only if it is known to own the socket; a socket's name alone is not enough.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hint_about_a_hanging_process_needs_its_identity() {
    let own = std::process::id();
    let hint = format!(
        "hint: continue a stopped process with `kill -CONT {own}`, or end one that hangs with `kill -9 {own}`"
    );
    let status_of = async |named: u32| {
        let haul = with_runtime_folder();
        std::fs::create_dir(haul.path("run/haul")).unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(haul.path("run/haul"), private).unwrap();
        let socket = haul.path(&format!("run/haul/tunnel-{named}.sock"));
        let _silent = UnixListener::bind(socket).unwrap();
        let output = haul.run(&["tunnel", "status"]).await;
        output
            .assert_code(1)
            .assert_stderr_has(&format!("process {named}: does not respond within 5 s ("));
        output.stderr
    };
    let (known, other) = tokio::join!(status_of(own), status_of(own + 1));
    assert!(known.contains(&hint), "{known}");
    assert!(!other.contains("hint: "), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_the_target_is_shown_at_the_start_and_by_status() {
    let haul = with_runtime_folder();
    let args = ["-p", "127.0.0.1:1", "--target-tls", "0:echo.test:7"];
    let tunnel = start_tunnel(&haul, &[&args[..], &["--socks", "0"]].concat(), 2).await;
    let [first, second] = &tunnel.addresses[..] else {
        panic!("{:?}", tunnel.addresses);
    };
    let via = "via 127.0.0.1:1";
    assert_eq!(
        tunnel.stderr_lines,
        [
            format!("haul: listening on {first} -> echo.test:7 (TLS) {via}"),
            format!("haul: listening on {second} (SOCKS5, TLS with targets) {via}"),
        ]
    );
    crate::cli::soak_server::poll_until_ok("there is no socket", || {
        let names = haul.path("run/haul").read_dir();
        let socket_exists = names.is_ok_and(|mut names| names.next().is_some());
        (!socket_exists).then(|| "none".to_owned())
    });
    let output = haul.run(&["tunnel", "status"]).await;
    let expected = format!("{first} -> echo.test:7 (TLS)\n{second} -> SOCKS5 (TLS)\n");
    assert!(
        output.assert_code(0).stdout.contains(&expected),
        "{output:#?}"
    );
    let output = haul.run(&["tunnel", "status", "--json"]).await;
    assert!(
        output.stdout.contains(r#""to":"echo.test:7","tls":true"#),
        "{output:#?}"
    );
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unusable_runtime_folder_is_warned_of() {
    let haul = with_runtime_folder();
    haul.write("run/haul", "no folder");
    let args = ["-p", "127.0.0.1:1", "0:echo.test:7"];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    tunnel
        .running
        .wait_for_line("warning: haul tunnel status cannot find this tunnel: ")
        .await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_endpoint_has_the_status_too() {
    let haul = HaulDirectory::new();
    let args = [
        "-p",
        "127.0.0.1:1",
        "0:echo.test:7",
        "--admin",
        "127.0.0.1:0",
    ];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    let line = tunnel.running.wait_for_line("metrics at ").await;
    let admin = line
        .split("//")
        .nth(1)
        .unwrap()
        .strip_suffix("/metrics")
        .unwrap();
    let output = haul.run(&["tunnel", "status", "--admin", admin]).await;
    assert!(
        output.assert_code(0).stdout.contains(" -> echo.test:7"),
        "{output:#?}"
    );
    let request = |line: &'static str| super::super::serve::request(admin, line, "");
    let metrics = request("GET /metrics").await;
    for name in [
        "haul_tunnel_connections 0",
        "haul_build_info",
        "haul_connection_log_lines_written_total",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    assert!(request("GET /healthz").await.starts_with("HTTP/1.1 200"));
    tunnel.stop().await.assert_code(0);
    let output = haul
        .run(&["tunnel", "status", "--admin", "127.0.0.1:1"])
        .await;
    output
        .assert_code(5)
        .assert_stderr_has("--admin 127.0.0.1:1: ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_runtime_folder_status_finds_tunnels_in_the_temporary_one() {
    let haul = HaulDirectory::new();
    let args = ["-p", "127.0.0.1:1", "0:echo.test:7"];
    let tunnel = start_tunnel(&haul, &args, 1).await;
    // A session that has a folder of its own finds a tunnel that was started without one.
    let with_session = ["", "XDG_RUNTIME_DIR=/nowhere "];
    for variable in with_session {
        let line = format!(
            "{variable}TMPDIR=. exec {} tunnel status",
            env!("CARGO_BIN_EXE_haul")
        );
        let output = haul.shell(&line).await;
        let listen = format!("{} -> echo.test:7\n", tunnel.addresses[0]);
        assert!(
            output.assert_code(0).stdout.contains(&listen),
            "{output:#?}"
        );
    }
    // Somebody else could have made this folder.
    let folder = format!("haul-{}", rustix::process::geteuid().as_raw());
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(haul.path(&folder), open).unwrap();
    haul.run(&["tunnel", "status"])
        .await
        .assert_code(1)
        .assert_stderr_has("no haul tunnel of this user is running");
    tunnel.stop().await.assert_code(0);
}

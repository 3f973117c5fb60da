//! Sockets that a service manager hands over: taken by name, and kept when settings that name them cannot be used.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use super::{EchoServer, HaulDirectory, RunningHaul, TunnelProcess, echoed, listening, proxy_to};

/// `haul tunnel` with a socket that is called `mail`.
async fn handed(haul: &HaulDirectory, listener: TcpListener, args: &[&str]) -> TunnelProcess {
    let line = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=mail; exec \"$0\" tunnel \"$@\"";
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_haul")])
        .args(args)
        .current_dir(haul.dir.path())
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    listening(RunningHaul::of(command.spawn().unwrap()), 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_was_handed_over_is_taken() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let args = ["-p", &at, "systemd:mail:echo.test:7"];
    let tunnel = handed(&HaulDirectory::new(), listener, &args).await;
    assert_eq!(tunnel.addresses, [address]);
    echoed(&mut tunnel.client().await, "hello").await;
    tunnel.end().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_be_used_do_not_lose_it() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let haul = HaulDirectory::new();
    let write = |listens: &[&str]| {
        let of = |listen| format!("[[tunnel]]\nlisten = \"{listen}\"\ntarget = \"echo.test:7\"\n");
        let tunnels: Vec<String> = listens.iter().map(of).collect();
        let text = format!("proxy = \"{}\"\n{}", proxy.address(), tunnels.concat());
        haul.write("t.toml", text)
    };
    write(&["0"]);
    let mut tunnel = handed(&haul, listener, &["--config", "t.toml"]).await;
    write(&["0", "systemd:mail", "systemd:none"]);
    tunnel.hangs_up("warning: nothing is changed").await;
    tunnel.running.until("systemd:none: no such socket").await;
    write(&["0", "systemd:mail"]);
    tunnel.running.signal(rustix::process::Signal::HUP);
    assert_eq!(tunnel.listens().await, address);
    tunnel.running.until("haul: reloaded").await;
    echoed(&mut super::connected(&address).await, "hello").await;
    tunnel.end().await.assert_code(0);
}

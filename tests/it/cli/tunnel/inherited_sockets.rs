//! Sockets that a service manager hands over: taken by name, and kept when settings that name them cannot be used.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use super::{
    EchoServer, HaulDirectory, RunningHaul, TunnelProcess, assert_echo, proxy_to,
    wait_for_listeners,
};

/// `haul tunnel` with a socket that is called `mail`.
async fn start_with_inherited_socket(
    haul: &HaulDirectory,
    listener: TcpListener,
    args: &[&str],
) -> TunnelProcess {
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
    wait_for_listeners(RunningHaul::from_child(command.spawn().unwrap()), 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inherited_socket_is_used() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let args = ["-p", &at, "systemd:mail:echo.test:7"];
    let tunnel = start_with_inherited_socket(&HaulDirectory::new(), listener, &args).await;
    assert_eq!(tunnel.addresses, [address]);
    assert_echo(&mut tunnel.connect().await, "hello").await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_settings_do_not_lose_an_inherited_socket() {
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
    let mut tunnel = start_with_inherited_socket(&haul, listener, &["--config", "t.toml"]).await;
    write(&["0", "systemd:mail", "systemd:none"]);
    tunnel.reload("warning: nothing has changed").await;
    tunnel
        .running
        .wait_for_line("systemd:none: no such socket")
        .await;
    write(&["0", "systemd:mail"]);
    tunnel.running.signal(rustix::process::Signal::HUP);
    assert_eq!(tunnel.wait_for_listener().await, address);
    tunnel.running.wait_for_line("haul: reloaded").await;
    assert_echo(&mut super::connect_to(&address).await, "hello").await;
    tunnel.stop().await.assert_code(0);
}

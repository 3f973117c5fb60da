//! Listeners that make room for others when settings are read again, or are left alone where that would be in vain.

use super::config::config_file;
use super::{EchoServer, HaulDirectory, assert_echo, connect_to, proxy_to, start_tunnel};

/// What is to go makes room for what overlaps it; a port of every interface and of one cannot be had at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_may_replace_one_that_it_overlaps() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let of = |listen: &str, mode: &str| {
        config_file(&at, "echo.test:7")
            .replace("listen = \"0\"", &format!("listen = \"{listen}\""))
            .replace("s.sock", &format!("s.sock{mode}"))
    };
    haul.write("t.toml", of("0", ""));
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.connect().await;
    assert_echo(&mut old, "before").await;
    let port = tunnel.addresses[0].split(':').nth(1).unwrap().to_owned();
    haul.write("t.toml", of(&format!("0.0.0.0:{port}"), "?mode=600"));
    tunnel.running.signal(rustix::process::Signal::HUP);
    assert_eq!(tunnel.wait_for_listener().await, format!("0.0.0.0:{port}"));
    tunnel.running.wait_for_line("haul: reloaded").await;
    assert_echo(&mut connect_to(&format!("127.0.0.2:{port}")).await, "new").await;
    let mode = haul.path("s.sock").metadata().unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    assert_echo(&mut old, "still").await;
    // And back, which leaves what lies beside it free.
    haul.write("t.toml", of(&port, "?mode=600"));
    tunnel.reload("haul: reloaded").await;
    drop(std::net::TcpListener::bind(format!("127.0.0.2:{port}")).unwrap());
    assert_echo(&mut tunnel.connect().await, "new").await;
    assert_echo(&mut old, "still").await;
    drop(old);
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_made_room_in_vain_is_opened_again() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    haul.write("t.toml", config_file(&at, "echo.test:7"));
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.connect().await;
    assert_echo(&mut old, "before").await;
    let port = tunnel.addresses[0].split(':').nth(1).unwrap().to_owned();
    let _taken = std::net::TcpListener::bind(format!("127.0.0.2:{port}")).unwrap();
    let text = config_file(&at, "echo.test:7");
    let text = text.replace("listen = \"0\"", &format!("listen = \"0.0.0.0:{port}\""));
    haul.write("t.toml", text);
    tunnel.reload("warning: nothing has changed").await;
    let told = tunnel.running.wait_for_line("error: ").await;
    assert!(
        told.ends_with(&format!("0.0.0.0:{port} is taken by another server")),
        "{told}"
    );
    assert_echo(&mut tunnel.connect().await, "new").await;
    assert_echo(&mut old, "still").await;
    // It is still what the settings say, and so nothing opens or closes.
    haul.write("t.toml", config_file(&at, "echo.test:7"));
    tunnel.reload("haul: reloaded").await;
    drop(old);
    let ran = tunnel.stop().await;
    ran.assert_code(0);
    assert!(!ran.stderr.contains("listening on"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_in_place_of_a_socket_leaves_the_old_listener() {
    let haul = HaulDirectory::new();
    let good = config_file("127.0.0.1:1", "echo.test:7");
    haul.write("t.toml", &good);
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    std::fs::remove_file(haul.path("s.sock")).unwrap();
    haul.write("s.sock", "dear to somebody");
    haul.write("t.toml", good.replace("s.sock", "s.sock?mode=600"));
    tunnel.reload("warning: nothing has changed").await;
    let told = tunnel.running.wait_for_line("error: ").await;
    assert!(
        told.ends_with("s.sock is there already and is not a stream socket"),
        "{told}"
    );
    // It is still what the settings say, and is not opened again.
    haul.write("t.toml", &good);
    tunnel.reload("haul: reloaded").await;
    let ran = tunnel.stop().await;
    ran.assert_code(0);
    assert!(!ran.stderr.contains("listening on"), "{ran:#?}");
    let kept = std::fs::read_to_string(haul.path("s.sock")).unwrap();
    assert_eq!(kept, "dear to somebody");
}

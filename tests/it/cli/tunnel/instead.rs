//! Listeners that make room for others when settings are read again, or are left alone where that would be in vain.

use super::config::file;
use super::{EchoServer, HaulDirectory, connected, echoed, proxy_to, tunnel};

/// What is to go makes room for what overlaps it; a port of every interface and of one cannot be had at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_may_take_the_place_of_one_that_it_overlaps() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let of = |listen: &str, mode: &str| {
        file(&at, "echo.test:7")
            .replace("listen = \"0\"", &format!("listen = \"{listen}\""))
            .replace("s.sock", &format!("s.sock{mode}"))
    };
    haul.write("t.toml", of("0", ""));
    let mut tunnel = tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.client().await;
    echoed(&mut old, "before").await;
    let port = tunnel.addresses[0].split(':').nth(1).unwrap().to_owned();
    haul.write("t.toml", of(&format!("0.0.0.0:{port}"), "?mode=600"));
    tunnel.running.signal(rustix::process::Signal::HUP);
    assert_eq!(tunnel.listens().await, format!("0.0.0.0:{port}"));
    tunnel.running.until("haul: reloaded").await;
    echoed(&mut connected(&format!("127.0.0.2:{port}")).await, "new").await;
    let mode = haul.path("s.sock").metadata().unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    echoed(&mut old, "still").await;
    // And back, which leaves what lies beside it free.
    haul.write("t.toml", of(&port, "?mode=600"));
    tunnel.hangs_up("haul: reloaded").await;
    drop(std::net::TcpListener::bind(format!("127.0.0.2:{port}")).unwrap());
    echoed(&mut tunnel.client().await, "new").await;
    echoed(&mut old, "still").await;
    drop(old);
    tunnel.end().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_made_room_in_vain_is_opened_again() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    haul.write("t.toml", file(&at, "echo.test:7"));
    let mut tunnel = tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.client().await;
    echoed(&mut old, "before").await;
    let port = tunnel.addresses[0].split(':').nth(1).unwrap().to_owned();
    let _taken = std::net::TcpListener::bind(format!("127.0.0.2:{port}")).unwrap();
    let text = file(&at, "echo.test:7");
    let text = text.replace("listen = \"0\"", &format!("listen = \"0.0.0.0:{port}\""));
    haul.write("t.toml", text);
    tunnel.hangs_up("warning: nothing is changed").await;
    let told = tunnel.running.until("error: ").await;
    assert!(
        told.ends_with(&format!("0.0.0.0:{port} is taken by another server")),
        "{told}"
    );
    echoed(&mut tunnel.client().await, "new").await;
    echoed(&mut old, "still").await;
    // It is still what the settings say, and so nothing opens or closes.
    haul.write("t.toml", file(&at, "echo.test:7"));
    tunnel.hangs_up("haul: reloaded").await;
    drop(old);
    let ran = tunnel.end().await;
    ran.assert_code(0);
    assert!(!ran.stderr.contains("listening on"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_in_the_place_of_a_socket_leaves_the_old_listener() {
    let haul = HaulDirectory::new();
    let good = file("127.0.0.1:1", "echo.test:7");
    haul.write("t.toml", &good);
    let mut tunnel = tunnel(&haul, &["--config", "t.toml"], 2).await;
    std::fs::remove_file(haul.path("s.sock")).unwrap();
    haul.write("s.sock", "dear to somebody");
    haul.write("t.toml", good.replace("s.sock", "s.sock?mode=600"));
    tunnel.hangs_up("warning: nothing is changed").await;
    let told = tunnel.running.until("error: ").await;
    assert!(
        told.ends_with("s.sock is there already and is not a stream socket"),
        "{told}"
    );
    // It is still what the settings say, and is not opened again.
    haul.write("t.toml", &good);
    tunnel.hangs_up("haul: reloaded").await;
    let ran = tunnel.end().await;
    ran.assert_code(0);
    assert!(!ran.stderr.contains("listening on"), "{ran:#?}");
    let kept = std::fs::read_to_string(haul.path("s.sock")).unwrap();
    assert_eq!(kept, "dear to somebody");
}

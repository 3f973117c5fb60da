//! Listeners that a reload cannot open because of those that are open, or because of files.

use super::config::config_file;
use super::{EchoServer, HaulDirectory, assert_echo, proxy_to, start_tunnel};

/// New listeners open before old ones close, so an address cannot replace one that it overlaps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_overlaps_an_open_listener_changes_nothing() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let proxy_address = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let good = config_file(&proxy_address, "echo.test:7");
    haul.write("t.toml", &good);
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    let mut old = tunnel.connect().await;
    assert_echo(&mut old, "before").await;
    let port = tunnel.addresses[0].split(':').nth(1).unwrap().to_owned();
    let every_interface = format!("0.0.0.0:{port}");
    for (listen, replacement) in [
        ("listen = \"0\"", format!("listen = \"{every_interface}\"")),
        ("s.sock", "s.sock?mode=600".to_owned()),
    ] {
        haul.write("t.toml", good.replace(listen, &replacement));
        tunnel.reload("warning: nothing has changed").await;
        let error = tunnel.running.wait_for_line("error: ").await;
        assert!(
            error.ends_with(" is already used by another tunnel of this command"),
            "{error}"
        );
        tunnel
            .running
            .wait_for_line("restart haul to replace")
            .await;
        assert_echo(&mut tunnel.connect().await, "new").await;
        assert_echo(&mut old, "still").await;
        assert!(haul.path("s.sock").exists());
    }
    // Two new listeners with one address: a restart would not help.
    let twice = "[[tunnel]]\nlisten = \"unix:new.sock\"\ntarget = \"echo.test:7\"\n".repeat(2);
    haul.write("t.toml", format!("{good}{twice}"));
    tunnel.reload("warning: nothing has changed").await;
    tunnel.running.wait_for_line("hint: leave one out").await;
    assert!(!haul.path("new.sock").exists());
    // Nothing opens or closes with the same settings as at the start.
    haul.write("t.toml", &good);
    tunnel.reload("haul: reloaded").await;
    drop(old);
    let output = tunnel.stop().await;
    output.assert_code(0);
    assert!(!output.stderr.contains("listening on"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_in_place_of_a_socket_leaves_the_old_listener() {
    let haul = HaulDirectory::new();
    let good = config_file("127.0.0.1:1", "echo.test:7");
    haul.write("t.toml", &good);
    let mut tunnel = start_tunnel(&haul, &["--config", "t.toml"], 2).await;
    std::fs::remove_file(haul.path("s.sock")).unwrap();
    haul.write("s.sock", "contents");
    haul.write("t.toml", good.replace("s.sock", "s.sock?mode=600"));
    tunnel.reload("warning: nothing has changed").await;
    let error = tunnel.running.wait_for_line("error: ").await;
    assert!(
        error.ends_with("s.sock is there already and is not a stream socket"),
        "{error}"
    );
    // The old listener is still open, and is not opened again.
    haul.write("t.toml", &good);
    tunnel.reload("haul: reloaded").await;
    let output = tunnel.stop().await;
    output.assert_code(0);
    assert!(!output.stderr.contains("listening on"), "{output:#?}");
    let kept = std::fs::read_to_string(haul.path("s.sock")).unwrap();
    assert_eq!(kept, "contents");
}

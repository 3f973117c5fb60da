//! Listeners, the status of open connections, metrics and shutdown.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use haul_lab::{HttpProxy, within};
use haul_service::listen::Listener;
use haul_service::observe::render;
use haul_tunnel::{ListenerKind, TunnelConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::harness::*;

#[tokio::test]
async fn a_reconfigured_listener_keeps_its_connections() {
    let (one, other) = (
        ScriptedServer::greeting(b"one").await,
        ScriptedServer::greeting(b"two").await,
    );
    let fixture = EngineFixture::forward(target(one.address), direct());
    let mut old_client = fixture.connect().await;
    assert_eq!(read(&mut old_client, 3).await, b"one");
    let next = TunnelConfig {
        name: "there".into(),
        ..config(ListenerKind::Forward(target(other.address)), direct())
    };
    fixture.listener.reconfigure(next);
    let mut new_client = fixture.connect().await;
    assert_eq!(read(&mut new_client, 3).await, b"two");
    assert_echo(&mut old_client).await;
    let status = fixture.status();
    let names: Vec<_> = status
        .connections
        .iter()
        .map(|connection| {
            (
                connection.listen.as_str(),
                connection.target.clone().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("here", one.address.to_string()),
            ("there", other.address.to_string())
        ]
    );
    assert_eq!(status.tunnels.len(), 1);
    assert_eq!(
        (
            status.tunnels[0].listen.as_str(),
            status.tunnels[0].to.clone()
        ),
        ("there", other.address.to_string())
    );
    fixture.listener.close();
    wait_until(|| std::net::TcpStream::connect(fixture.address).is_err()).await;
    assert_echo(&mut old_client).await;
    assert_echo(&mut new_client).await;
    assert!(fixture.status().tunnels.is_empty());
}

#[tokio::test]
async fn status_and_metrics_show_open_connections() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(echo.address), through_proxy(&proxy.url()));
    let client = fixture.echo().await;
    wait_until(|| {
        fixture
            .status()
            .connections
            .first()
            .is_some_and(|live| live.down == 6)
    })
    .await;
    let live = fixture.status().connections.remove(0);
    assert_eq!((live.id, live.up, live.down), (0, 6, 6));
    assert_eq!(live.client, client.local_addr().unwrap().to_string());
    assert_eq!(live.target, Some(echo.address.to_string()));
    assert_eq!(live.via, Some(proxy.address().to_string()));
    assert_eq!(fixture.status().pid, std::process::id());
    let metrics = render(&[fixture.engine.metrics()]);
    for line in [
        "haul_tunnel_connections 1",
        "haul_tunnel_bytes_total{to=\"target\"} 6",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    drop(client);
    fixture.wait_for_connections(0).await;
    fixture.log.line(0).await;
    let metrics = render(&[fixture.engine.metrics()]);
    for line in [
        "haul_tunnel_connections 0",
        "haul_tunnel_connections_total{end=\"closed\"} 1",
        "haul_tunnel_bytes_total{to=\"client\"} 6",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn shutdown_waits_for_connections_that_end_before_its_timeout() {
    let echo = ScriptedServer::echo().await;
    let fixture = EngineFixture::forward(target(echo.address), direct());
    let mut client = fixture.echo().await;
    let engine = fixture.engine.clone();
    let shutdown = async { engine.shut_down(LIMIT).await };
    let close_client = async {
        within(LIMIT, engine.closing().cancelled()).await;
        // No new connections are accepted, and the open one still works.
        wait_until(|| std::net::TcpStream::connect(fixture.address).is_err()).await;
        assert_echo(&mut client).await;
        drop(client);
    };
    assert_eq!(
        within(LIMIT, async { tokio::join!(shutdown, close_client).0 }).await,
        0
    );
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

#[tokio::test]
async fn shutdown_resets_connections_that_are_open_after_its_timeout() {
    let server = ScriptedServer::echo().await;
    let unresponsive = ScriptedServer::new(|mut stream, _| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let fixture = EngineFixture::forward(target(server.address), direct());
    let mut relayed = fixture.echo().await;
    // A connection that still waits for its target.
    fixture.listener.reconfigure(config(
        ListenerKind::Forward(target("far.test:22")),
        through_proxy(&unresponsive.proxy_url()),
    ));
    let mut connecting = fixture.connect().await;
    wait_until(|| unresponsive.accepted() == 1).await;
    fixture
        .listener
        .reconfigure(config(ListenerKind::Socks, direct()));
    let mut in_socks_handshake = fixture.connect().await;
    fixture.wait_for_connections(3).await;
    assert_eq!(
        within(LIMIT, fixture.engine.shut_down(Duration::from_millis(20))).await,
        3
    );
    assert_eq!(fixture.engine.connection_count(), 0);
    let error = within(LIMIT, relayed.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_closed(&mut connecting).await;
    assert_closed(&mut in_socks_handshake).await;
    for n in 0..3 {
        assert!(fixture.log.line(n).await.contains("\"stopped\""));
    }
}

#[tokio::test]
async fn a_second_shutdown_without_a_timeout_ends_at_once() {
    let echo = ScriptedServer::echo().await;
    let fixture = EngineFixture::forward(target(echo.address), direct());
    let _client = fixture.echo().await;
    let first_shutdown = tokio::time::timeout(
        Duration::from_millis(20),
        fixture.engine.shut_down(LIMIT * 100),
    );
    assert!(first_shutdown.await.is_err());
    assert_eq!(
        within(LIMIT, fixture.engine.shut_down(Duration::ZERO)).await,
        1
    );
}

#[tokio::test]
async fn clients_of_a_unix_socket_are_served() {
    let echo = ScriptedServer::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let fixture = EngineFixture::forward(target(echo.address), direct());
    let local = ListenerKind::Forward(target(echo.address));
    fixture
        .engine
        .listen(vec![Listener::Unix(listener)], config(local, direct()))
        .unwrap();
    let mut client = within(LIMIT, UnixStream::connect(&path)).await.unwrap();
    let all = vec![9; 3 << 20];
    let (mut reader, mut writer) = client.split();
    let send_all = async {
        send(&mut writer, &all).await;
        writer.shutdown().await.unwrap();
    };
    assert!(
        within(LIMIT, async {
            tokio::join!(send_all, read_to_end(&mut reader)).1
        })
        .await
            == all
    );
    assert!(fixture.log.line(0).await.contains("\"client\":\"unix\""));
}

/// The other sockets of the listener do not accept connections either.
#[tokio::test]
async fn a_listener_with_a_socket_that_cannot_be_polled_is_not_opened() {
    let echo = ScriptedServer::echo().await;
    let fixture = EngineFixture::forward(target(echo.address), direct());
    let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    good.set_nonblocking(true).unwrap();
    let address = good.local_addr().unwrap();
    // A file cannot be polled.
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("file")).unwrap();
    let unpollable = UnixListener::from(std::os::fd::OwnedFd::from(file));
    unpollable.set_nonblocking(true).unwrap();
    let local = ListenerKind::Forward(target(echo.address));
    let result = fixture.engine.listen(
        vec![Listener::Tcp(good), Listener::Unix(unpollable)],
        config(local, direct()),
    );
    assert!(result.is_err());
    wait_until(|| std::net::TcpStream::connect(address).is_err()).await;
    assert_eq!(fixture.status().tunnels.len(), 1);
}

#[tokio::test]
async fn a_connection_that_reached_no_target_is_logged() {
    let fixture =
        EngineFixture::forward(target("far.test:22"), through_proxy("http://127.0.0.1:1"));
    assert_closed(&mut TcpStream::connect(fixture.address).await.unwrap()).await;
    let line = fixture.log.line(0).await;
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (parsed["end"].as_str(), parsed["via"].as_str()),
        (Some("unreached"), None)
    );
}

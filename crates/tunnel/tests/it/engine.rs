//! Doors, the table of what is live, metrics, and the end.

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
async fn a_door_leads_elsewhere_and_who_was_in_stays() {
    let (one, other) = (
        ScriptedTarget::greeting(b"one").await,
        ScriptedTarget::greeting(b"two").await,
    );
    let stand = EngineFixture::to(target(one.address), by(&[]));
    let mut before = stand.call().await;
    assert_eq!(next(&mut before, 3).await, b"one");
    let elsewhere = TunnelConfig {
        name: "there".into(),
        ..tunnel(ListenerKind::Forward(target(other.address)), by(&[]))
    };
    stand.door.reconfigure(elsewhere);
    let mut after = stand.call().await;
    assert_eq!(next(&mut after, 3).await, b"two");
    echoed(&mut before).await;
    let status = stand.status();
    let names: Vec<_> = status
        .connections
        .iter()
        .map(|live| (live.listen.as_str(), live.target.clone().unwrap()))
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
    stand.door.close();
    until(|| std::net::TcpStream::connect(stand.address).is_err()).await;
    echoed(&mut before).await;
    echoed(&mut after).await;
    assert!(stand.status().tunnels.is_empty());
}

#[tokio::test]
async fn what_is_live_is_told_as_it_is() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let stand = EngineFixture::to(target(echo.address), by_one(&proxy.url()));
    let client = stand.echoes().await;
    until(|| {
        stand
            .status()
            .connections
            .first()
            .is_some_and(|live| live.down == 6)
    })
    .await;
    let live = stand.status().connections.remove(0);
    assert_eq!((live.id, live.up, live.down), (0, 6, 6));
    assert_eq!(live.client, client.local_addr().unwrap().to_string());
    assert_eq!(live.target, Some(echo.address.to_string()));
    assert_eq!(live.via, Some(proxy.address().to_string()));
    assert_eq!(stand.status().pid, std::process::id());
    let told = render(&[stand.engine.metrics()]);
    for line in [
        "haul_tunnel_connections 1",
        "haul_tunnel_bytes_total{to=\"target\"} 6",
    ] {
        assert!(told.contains(line), "{told}");
    }
    drop(client);
    stand.until_live(0).await;
    stand.lines.line(0).await;
    let told = render(&[stand.engine.metrics()]);
    for line in [
        "haul_tunnel_connections 0",
        "haul_tunnel_connections_total{end=\"closed\"} 1",
        "haul_tunnel_bytes_total{to=\"client\"} 6",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

#[tokio::test]
async fn the_end_waits_for_those_who_are_done_in_time() {
    let echo = ScriptedTarget::echo().await;
    let stand = EngineFixture::to(target(echo.address), by(&[]));
    let mut client = stand.echoes().await;
    let engine = stand.engine.clone();
    let ending = async { engine.shut_down(LIMIT).await };
    let leaving = async {
        within(LIMIT, engine.closing().cancelled()).await;
        // No more are let in, and who is in goes on.
        until(|| std::net::TcpStream::connect(stand.address).is_err()).await;
        echoed(&mut client).await;
        drop(client);
    };
    assert_eq!(
        within(LIMIT, async { tokio::join!(ending, leaving).0 }).await,
        0
    );
    assert!(stand.lines.line(0).await.contains("\"closed\""));
}

#[tokio::test]
async fn the_end_cuts_off_those_who_stay_and_they_see_that_it_was_none() {
    let far = ScriptedTarget::echo().await;
    let mute = ScriptedTarget::doing(|mut stream, _| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let stand = EngineFixture::to(target(far.address), by(&[]));
    let mut relayed = stand.echoes().await;
    // One whose target is being reached yet.
    stand.door.reconfigure(tunnel(
        ListenerKind::Forward(target("far.test:22")),
        by_one(&mute.proxy()),
    ));
    let mut waiting = stand.call().await;
    until(|| mute.accepted() == 1).await;
    stand.door.reconfigure(tunnel(ListenerKind::Socks, by(&[])));
    let mut asking = stand.call().await;
    stand.until_live(3).await;
    assert_eq!(
        within(LIMIT, stand.engine.shut_down(Duration::from_millis(20))).await,
        3
    );
    assert_eq!(stand.engine.connection_count(), 0);
    let error = within(LIMIT, relayed.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    is_gone(&mut waiting).await;
    is_gone(&mut asking).await;
    for n in 0..3 {
        assert!(stand.lines.line(n).await.contains("\"stopped\""));
    }
}

#[tokio::test]
async fn the_end_can_be_hastened() {
    let echo = ScriptedTarget::echo().await;
    let stand = EngineFixture::to(target(echo.address), by(&[]));
    let _client = stand.echoes().await;
    let patient = tokio::time::timeout(
        Duration::from_millis(20),
        stand.engine.shut_down(LIMIT * 100),
    );
    assert!(patient.await.is_err());
    assert_eq!(
        within(LIMIT, stand.engine.shut_down(Duration::ZERO)).await,
        1
    );
}

#[tokio::test]
async fn clients_of_a_socket_file_are_served() {
    let echo = ScriptedTarget::echo().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let stand = EngineFixture::to(target(echo.address), by(&[]));
    let local = ListenerKind::Forward(target(echo.address));
    stand
        .engine
        .listen(vec![Listener::Unix(listener)], tunnel(local, by(&[])))
        .unwrap();
    let mut client = within(LIMIT, UnixStream::connect(&path)).await.unwrap();
    let all = vec![9; 3 << 20];
    let (mut from, mut to) = client.split();
    let said = async {
        say(&mut to, &all).await;
        to.shutdown().await.unwrap();
    };
    assert!(within(LIMIT, async { tokio::join!(said, heard(&mut from)).1 }).await == all);
    assert!(stand.lines.line(0).await.contains("\"client\":\"unix\""));
}

/// A door that is none leaves nothing that accepts.
#[tokio::test]
async fn a_door_of_which_one_listener_is_unfit_is_not_opened() {
    let echo = ScriptedTarget::echo().await;
    let stand = EngineFixture::to(target(echo.address), by(&[]));
    let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    good.set_nonblocking(true).unwrap();
    let address = good.local_addr().unwrap();
    // No file can be watched.
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("file")).unwrap();
    let unfit = UnixListener::from(std::os::fd::OwnedFd::from(file));
    unfit.set_nonblocking(true).unwrap();
    let local = ListenerKind::Forward(target(echo.address));
    let opened = stand.engine.listen(
        vec![Listener::Tcp(good), Listener::Unix(unfit)],
        tunnel(local, by(&[])),
    );
    assert!(opened.is_err());
    until(|| std::net::TcpStream::connect(address).is_err()).await;
    assert_eq!(stand.status().tunnels.len(), 1);
}

#[tokio::test]
async fn a_connection_that_led_nowhere_has_a_line_as_well() {
    let stand = EngineFixture::to(target("far.test:22"), by_one("http://127.0.0.1:1"));
    is_gone(&mut TcpStream::connect(stand.address).await.unwrap()).await;
    let line = stand.lines.line(0).await;
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (parsed["end"].as_str(), parsed["via"].as_str()),
        (Some("unreached"), None)
    );
}

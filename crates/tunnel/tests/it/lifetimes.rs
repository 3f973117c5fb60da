//! Rows E7 to E11: half-closed streams, resets, idle tunnels, clients that disconnect, and connection limits.

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{HttpProxy, within};
use haul_tunnel::{ListenerKind, TunnelConfig, TunnelTimeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::*;

/// Makes the socket send a reset when it is dropped.
fn reset_on_drop(peer: &TcpStream) {
    peer.set_zero_linger().unwrap();
}

#[tokio::test]
async fn e7_either_side_may_half_close_and_receives_the_rest() {
    // One target responds after the end of the client's stream, and the other closes its direction first and keeps reading.
    let byte_counter = ScriptedServer::new(|mut stream, _| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream
            .write_all(format!("{} bytes", all.len()).as_bytes())
            .await
            .unwrap();
    })
    .await;
    let (received_all, received) = (Arc::new(Notify::new()), Arc::new(std::sync::Mutex::new(0)));
    let (notify, count) = (Arc::clone(&received_all), Arc::clone(&received));
    let closing_first = ScriptedServer::new(move |mut stream, _| {
        let (notify, count) = (Arc::clone(&notify), Arc::clone(&count));
        async move {
            stream.write_all(b"done").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            *count.lock().unwrap() = all.len();
            notify.notify_one();
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(byte_counter.address), through_proxy(&proxy.url()));
    let mut client = fixture.connect().await;
    send(&mut client, &[1; 300_000]).await;
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"300000 bytes");
    assert!(
        fixture
            .log
            .line(0)
            .await
            .contains("\"up\":300000,\"down\":12")
    );

    let fixture =
        EngineFixture::forward(target(closing_first.address), through_proxy(&proxy.url()));
    let mut client = fixture.connect().await;
    assert_eq!(read_to_end(&mut client).await, b"done");
    send(&mut client, &[1; 300_000]).await;
    drop(client);
    within(LIMIT, received_all.notified()).await;
    assert_eq!(*received.lock().unwrap(), 300_000);
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

#[tokio::test]
async fn e8_resets_are_forwarded_and_logged() {
    let reset_seen = Arc::new(Notify::new());
    let notify = Arc::clone(&reset_seen);
    let server = ScriptedServer::new(move |mut stream, number| {
        let notify = Arc::clone(&notify);
        async move {
            let byte = stream.read_u8().await.unwrap();
            stream.write_all(&[byte]).await.unwrap();
            if number == 0 {
                let error = stream.read_u8().await.unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                notify.notify_one();
            } else {
                reset_on_drop(&stream);
            }
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(server.address), through_proxy(&proxy.url()));
    let mut client = fixture.connect().await;
    send(&mut client, b"x").await;
    read(&mut client, 1).await;
    reset_on_drop(&client);
    drop(client);
    within(LIMIT, reset_seen.notified()).await;
    assert!(fixture.log.line(0).await.contains("\"reset_by_client\""));

    let mut client = fixture.connect().await;
    send(&mut client, b"x").await;
    let error = within(LIMIT, async {
        while client.read_u8().await? == b'x' {}
        Ok::<(), std::io::Error>(())
    })
    .await;
    assert_eq!(
        error.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert!(fixture.log.line(1).await.contains("\"reset_by_target\""));
}

fn with_timeouts(kind: ListenerKind, timeouts: TunnelTimeouts) -> TunnelConfig {
    TunnelConfig {
        timeouts,
        ..config(kind, direct())
    }
}

#[tokio::test]
async fn e9_an_idle_tunnel_is_reset_after_the_idle_timeout() {
    let echo = ScriptedServer::echo().await;
    let idle = Some(Duration::from_millis(50));
    let options = TunnelTimeouts {
        idle,
        ..TunnelTimeouts::default()
    };
    let fixture = EngineFixture::with_config(with_timeouts(
        ListenerKind::Forward(target(echo.address)),
        options,
    ));
    let mut client = fixture.echo().await;
    let error = within(LIMIT, client.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(fixture.log.line(0).await.contains("\"idle\""));
    fixture.wait_for_connections(0).await;
}

/// The keep-alive timer, in seconds, of a local socket that is connected to this port.
fn keepalive_seconds(local_port: Option<u16>, peer_port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |text: &str| u16::from_str_radix(text.rsplit(':').next()?, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let matches_ports = port(fields[2]) == Some(peer_port)
            && local_port.is_none_or(|local_port| port(fields[1]) == Some(local_port));
        // 02 is the timer for keep-alive.
        let (timer, when) = fields[5].split_once(':')?;
        (matches_ports && timer == "02").then(|| u64::from_str_radix(when, 16).unwrap() / 100)
    })
}

#[tokio::test]
async fn e9_tcp_keepalive_is_set_on_both_sockets() {
    let echo = ScriptedServer::echo().await;
    let options = TunnelTimeouts {
        keepalive: Some(Duration::from_secs(777)),
        ..TunnelTimeouts::default()
    };
    let mut upstream = direct();
    upstream.connector.keepalive = Some(Duration::from_secs(555));
    let local = ListenerKind::Forward(target(echo.address));
    let fixture = EngineFixture::with_config(TunnelConfig {
        timeouts: options,
        ..config(local, upstream)
    });
    let client = fixture.echo().await;
    let is_about = |seconds: Option<u64>, wanted: u64| {
        seconds.is_some_and(|seconds| (wanted - 60..=wanted + 1).contains(&seconds))
    };
    // Another timer runs while bytes are not acknowledged.
    let client_port = client.local_addr().unwrap().port();
    wait_until(|| {
        is_about(
            keepalive_seconds(Some(fixture.address.port()), client_port),
            777,
        )
    })
    .await;
    wait_until(|| is_about(keepalive_seconds(None, echo.address.port()), 555)).await;
}

/// A proxy that responds to CONNECT when `respond` is notified, and notifies `disconnected` if the connection ends before that.
async fn slow_proxy(respond: &Arc<Notify>, disconnected: &Arc<Notify>) -> ScriptedServer {
    let (respond, disconnected) = (Arc::clone(respond), Arc::clone(disconnected));
    ScriptedServer::new(move |mut stream, _| {
        let (respond, disconnected) = (Arc::clone(&respond), Arc::clone(&disconnected));
        async move {
            read_head(&mut stream).await;
            let mut byte = [0];
            tokio::select! {
                () = respond.notified() => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    echo_all(stream).await;
                }
                _ = stream.read(&mut byte) => disconnected.notify_one(),
            }
        }
    })
    .await
}

#[tokio::test]
async fn e10_a_client_that_disconnects_cancels_the_connection_attempt() {
    let (respond, disconnected) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &disconnected).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
    for (n, with_reset) in [false, true].into_iter().enumerate() {
        let client = fixture.connect().await;
        wait_until(|| proxy.accepted() == n + 1).await;
        if with_reset {
            reset_on_drop(&client);
        }
        drop(client);
        within(LIMIT, disconnected.notified()).await;
        assert!(fixture.log.line(n).await.contains("\"left\""));
    }
    // A client that has sent bytes, and resets.
    let mut client = fixture.connect().await;
    send(&mut client, b"hello").await;
    wait_until(|| proxy.accepted() == 3).await;
    reset_on_drop(&client);
    drop(client);
    within(LIMIT, disconnected.notified()).await;
    fixture.wait_for_connections(0).await;
}

#[tokio::test]
async fn e10_a_client_that_half_closes_after_sending_bytes_is_served() {
    let (respond, disconnected) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &disconnected).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    send(&mut client, b"all of the data").await;
    client.shutdown().await.unwrap();
    wait_until(|| proxy.accepted() == 1).await;
    respond.notify_one();
    assert_eq!(read_to_end(&mut client).await, b"all of the data");
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

/// A half-closed stream does not show whether the client has disconnected or waits for a greeting. HAProxy has the same rule.
#[tokio::test]
async fn e10_a_client_that_half_closes_before_any_byte_counts_as_disconnected() {
    let (respond, disconnected) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &disconnected).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    wait_until(|| proxy.accepted() == 1).await;
    client.shutdown().await.unwrap();
    within(LIMIT, disconnected.notified()).await;
    assert_eq!(read_to_end(&mut client).await, b"");
    assert!(fixture.log.line(0).await.contains("\"left\""));
}

#[tokio::test]
async fn e10_bytes_sent_while_connecting_arrive_in_order() {
    let (respond, disconnected) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &disconnected).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
    let (mut reader, mut writer) = fixture.connect().await.into_split();
    let all: Vec<u8> = (0..2_000_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let sent = all.clone();
    let mut sender_tasks = JoinSet::new();
    sender_tasks.spawn(async move {
        send(&mut writer, &sent).await;
        writer.shutdown().await.unwrap();
    });
    wait_until(|| proxy.accepted() == 1).await;
    respond.notify_one();
    assert!(read_to_end(&mut reader).await == all);
}

#[tokio::test]
async fn e11_hundreds_of_connections_work_and_are_all_closed() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(echo.address), through_proxy(&proxy.url()));
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(fixture.connect().await);
    }
    for client in &mut clients {
        assert_echo(client).await;
    }
    assert_eq!(fixture.status().connections.len(), 300);
    for client in &mut clients {
        assert_echo(client).await;
    }
    drop(clients);
    fixture.wait_for_connections(0).await;
    assert!(fixture.status().connections.is_empty());
    wait_until(|| proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn e11_connections_beyond_the_limit_are_closed_and_the_others_stay_open() {
    let echo = ScriptedServer::echo().await;
    let fixture = EngineFixture::with_limit(
        config(ListenerKind::Forward(target(echo.address)), direct()),
        3,
    );
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(fixture.echo().await);
    }
    for n in 0..4 {
        assert_closed(&mut fixture.connect().await).await;
        assert!(fixture.log.line(n).await.contains("\"too_many\""));
    }
    for client in &mut clients {
        assert_echo(client).await;
    }
    assert_eq!((fixture.engine.connection_count(), echo.accepted()), (3, 3));
    drop(clients.pop());
    fixture.wait_for_connections(2).await;
    clients.push(fixture.echo().await);
}

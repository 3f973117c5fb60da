//! Tunnels whose peers end their streams, break, are silent or too many: rows E7 to E11.

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{HttpProxy, within};
use haul_tunnel::{ListenerKind, TunnelConfig, TunnelTimeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::*;

/// Has the socket reset when it is dropped.
fn reset(peer: &TcpStream) {
    peer.set_zero_linger().unwrap();
}

#[tokio::test]
async fn e7_either_side_may_end_first_and_receives_the_rest() {
    // A target that responds when it has received everything, and one that ends its stream first and goes on reading.
    let sums = ScriptedTarget::new(|mut stream, _| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream
            .write_all(format!("{} bytes", all.len()).as_bytes())
            .await
            .unwrap();
    })
    .await;
    let (received_all, received) = (Arc::new(Notify::new()), Arc::new(std::sync::Mutex::new(0)));
    let (ring, count) = (Arc::clone(&received_all), Arc::clone(&received));
    let first = ScriptedTarget::new(move |mut stream, _| {
        let (ring, count) = (Arc::clone(&ring), Arc::clone(&count));
        async move {
            stream.write_all(b"done").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            *count.lock().unwrap() = all.len();
            ring.notify_one();
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(sums.address), through(&proxy.url()));
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

    let fixture = EngineFixture::forward(target(first.address), through(&proxy.url()));
    let mut client = fixture.connect().await;
    assert_eq!(read_to_end(&mut client).await, b"done");
    send(&mut client, &[1; 300_000]).await;
    drop(client);
    within(LIMIT, received_all.notified()).await;
    assert_eq!(*received.lock().unwrap(), 300_000);
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

#[tokio::test]
async fn e8_resets_go_through_and_are_logged() {
    let broken = Arc::new(Notify::new());
    let ring = Arc::clone(&broken);
    let server = ScriptedTarget::new(move |mut stream, number| {
        let ring = Arc::clone(&ring);
        async move {
            let word = stream.read_u8().await.unwrap();
            stream.write_all(&[word]).await.unwrap();
            if number == 0 {
                let error = stream.read_u8().await.unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                ring.notify_one();
            } else {
                reset(&stream);
            }
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(server.address), through(&proxy.url()));
    let mut client = fixture.connect().await;
    send(&mut client, b"x").await;
    read(&mut client, 1).await;
    reset(&client);
    drop(client);
    within(LIMIT, broken.notified()).await;
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
async fn e9_a_silent_tunnel_is_ended_when_that_is_wanted() {
    let echo = ScriptedTarget::echo().await;
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

/// The keep-alive timer of a socket of ours that is connected to this port, in seconds.
fn probes_after(ours: Option<u16>, peers: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |text: &str| u16::from_str_radix(text.rsplit(':').next()?, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it =
            port(fields[2]) == Some(peers) && ours.is_none_or(|ours| port(fields[1]) == Some(ours));
        // 02 is the timer for keep-alive.
        let (timer, when) = fields[5].split_once(':')?;
        (is_it && timer == "02").then(|| u64::from_str_radix(when, 16).unwrap() / 100)
    })
}

#[tokio::test]
async fn e9_both_sockets_are_probed() {
    let echo = ScriptedTarget::echo().await;
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
    let near = |seconds: Option<u64>, wanted: u64| {
        seconds.is_some_and(|seconds| (wanted - 60..=wanted + 1).contains(&seconds))
    };
    // While bytes are not acknowledged another timer runs.
    let caller = client.local_addr().unwrap().port();
    wait_until(|| near(probes_after(Some(fixture.address.port()), caller), 777)).await;
    wait_until(|| near(probes_after(None, echo.address.port()), 555)).await;
}

/// A proxy that responds to a CONNECT when `respond` is notified, and notifies `left` when the connection ends before.
async fn slow_proxy(respond: &Arc<Notify>, left: &Arc<Notify>) -> ScriptedTarget {
    let (respond, left) = (Arc::clone(respond), Arc::clone(left));
    ScriptedTarget::new(move |mut stream, _| {
        let (respond, left) = (Arc::clone(&respond), Arc::clone(&left));
        async move {
            read_head(&mut stream).await;
            let mut byte = [0];
            tokio::select! {
                () = respond.notified() => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    echo_all(stream).await;
                }
                _ = stream.read(&mut byte) => left.notify_one(),
            }
        }
    })
    .await
}

#[tokio::test]
async fn e10_a_client_that_leaves_takes_the_attempt_with_it() {
    let (respond, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &left).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.proxy_url()));
    for (n, leaves_by_reset) in [false, true].into_iter().enumerate() {
        let client = fixture.connect().await;
        wait_until(|| proxy.accepted() == n + 1).await;
        if leaves_by_reset {
            reset(&client);
        }
        drop(client);
        within(LIMIT, left.notified()).await;
        assert!(fixture.log.line(n).await.contains("\"left\""));
    }
    // A client that has sent something, and resets.
    let mut client = fixture.connect().await;
    send(&mut client, b"hello").await;
    wait_until(|| proxy.accepted() == 3).await;
    reset(&client);
    drop(client);
    within(LIMIT, left.notified()).await;
    fixture.wait_for_connections(0).await;
}

#[tokio::test]
async fn e10_a_client_that_has_sent_something_and_ended_its_stream_has_not_left() {
    let (respond, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &left).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    send(&mut client, b"all that I want").await;
    client.shutdown().await.unwrap();
    wait_until(|| proxy.accepted() == 1).await;
    respond.notify_one();
    assert_eq!(read_to_end(&mut client).await, b"all that I want");
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

/// The end of its stream alone does not say whether a client has left or waits for a greeting. HAProxy has the same rule.
#[tokio::test]
async fn e10_a_client_that_ends_its_stream_before_it_has_sent_a_byte_has_left() {
    let (respond, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &left).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    wait_until(|| proxy.accepted() == 1).await;
    client.shutdown().await.unwrap();
    within(LIMIT, left.notified()).await;
    assert_eq!(read_to_end(&mut client).await, b"");
    assert!(fixture.log.line(0).await.contains("\"left\""));
}

#[tokio::test]
async fn e10_much_that_is_sent_meanwhile_arrives_in_order() {
    let (respond, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow_proxy(&respond, &left).await;
    let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.proxy_url()));
    let (mut from, mut to) = fixture.connect().await.into_split();
    let all: Vec<u8> = (0..2_000_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let sent = all.clone();
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        send(&mut to, &sent).await;
        to.shutdown().await.unwrap();
    });
    wait_until(|| proxy.accepted() == 1).await;
    respond.notify_one();
    assert!(read_to_end(&mut from).await == all);
}

#[tokio::test]
async fn e11_hundreds_of_connections_work_and_leave_nothing() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(echo.address), through(&proxy.url()));
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
async fn e11_one_connection_too_many_is_refused_and_the_others_stay() {
    let echo = ScriptedTarget::echo().await;
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

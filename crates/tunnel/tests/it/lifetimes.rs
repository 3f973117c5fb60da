//! What becomes of a tunnel when its peers end, break, are silent or too many: rows E7 to E11.

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{HttpProxy, within};
use haul_tunnel::{ListenerKind, TunnelConfig, TunnelTimeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::*;

/// Leaves with a reset.
fn reset(peer: &TcpStream) {
    peer.set_zero_linger().unwrap();
}

#[tokio::test]
async fn e7_either_side_may_end_first_and_hears_the_rest() {
    // A target that answers when it has heard all, and one that ends first and goes on listening.
    let sums = ScriptedTarget::doing(|mut stream, _| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream
            .write_all(format!("{} bytes", all.len()).as_bytes())
            .await
            .unwrap();
    })
    .await;
    let (hears, told) = (Arc::new(Notify::new()), Arc::new(std::sync::Mutex::new(0)));
    let (ring, count) = (Arc::clone(&hears), Arc::clone(&told));
    let first = ScriptedTarget::doing(move |mut stream, _| {
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
    let stand = EngineFixture::to(target(sums.address), by_one(&proxy.url()));
    let mut client = stand.call().await;
    say(&mut client, &[1; 300_000]).await;
    client.shutdown().await.unwrap();
    assert_eq!(heard(&mut client).await, b"300000 bytes");
    assert!(
        stand
            .lines
            .line(0)
            .await
            .contains("\"up\":300000,\"down\":12")
    );

    let stand = EngineFixture::to(target(first.address), by_one(&proxy.url()));
    let mut client = stand.call().await;
    assert_eq!(heard(&mut client).await, b"done");
    say(&mut client, &[1; 300_000]).await;
    drop(client);
    within(LIMIT, hears.notified()).await;
    assert_eq!(*told.lock().unwrap(), 300_000);
    assert!(stand.lines.line(0).await.contains("\"closed\""));
}

#[tokio::test]
async fn e8_resets_go_through_and_are_told() {
    let broken = Arc::new(Notify::new());
    let ring = Arc::clone(&broken);
    let far = ScriptedTarget::doing(move |mut stream, number| {
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
    let stand = EngineFixture::to(target(far.address), by_one(&proxy.url()));
    let mut client = stand.call().await;
    say(&mut client, b"x").await;
    next(&mut client, 1).await;
    reset(&client);
    drop(client);
    within(LIMIT, broken.notified()).await;
    assert!(stand.lines.line(0).await.contains("\"reset_by_client\""));

    let mut client = stand.call().await;
    say(&mut client, b"x").await;
    let error = within(LIMIT, async {
        while client.read_u8().await? == b'x' {}
        Ok::<(), std::io::Error>(())
    })
    .await;
    assert_eq!(
        error.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert!(stand.lines.line(1).await.contains("\"reset_by_target\""));
}

fn with_options(local: ListenerKind, options: TunnelTimeouts) -> TunnelConfig {
    TunnelConfig {
        timeouts: options,
        ..tunnel(local, by(&[]))
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
    let stand = EngineFixture::with(with_options(
        ListenerKind::Forward(target(echo.address)),
        options,
    ));
    let mut client = stand.echoes().await;
    let error = within(LIMIT, client.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(stand.lines.line(0).await.contains("\"idle\""));
    stand.until_live(0).await;
}

/// What the system is to do about silence: the timer of a socket of ours that is connected to this peer, in seconds.
#[cfg(target_os = "linux")]
fn probes_after(ours: Option<u16>, peers: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |text: &str| u16::from_str_radix(text.rsplit(':').next()?, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it =
            port(fields[2]) == Some(peers) && ours.is_none_or(|ours| port(fields[1]) == Some(ours));
        // The timer that is set is the one for keep-alive.
        let (timer, when) = fields[5].split_once(':')?;
        (is_it && timer == "02").then(|| u64::from_str_radix(when, 16).unwrap() / 100)
    })
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn e9_both_sockets_are_probed() {
    let echo = ScriptedTarget::echo().await;
    let options = TunnelTimeouts {
        keepalive: Some(Duration::from_secs(777)),
        ..TunnelTimeouts::default()
    };
    let mut upstream = by(&[]);
    upstream.connector.keepalive = Some(Duration::from_secs(555));
    let local = ListenerKind::Forward(target(echo.address));
    let stand = EngineFixture::with(TunnelConfig {
        timeouts: options,
        ..tunnel(local, upstream)
    });
    let client = stand.echoes().await;
    let near = |seconds: Option<u64>, wanted: u64| {
        seconds.is_some_and(|seconds| (wanted - 60..=wanted + 1).contains(&seconds))
    };
    // Words that are not acknowledged yet have a timer of their own before it.
    let caller = client.local_addr().unwrap().port();
    until(|| near(probes_after(Some(stand.address.port()), caller), 777)).await;
    until(|| near(probes_after(None, echo.address.port()), 555)).await;
}

/// A proxy that takes a CONNECT, and then waits until it may answer.
async fn slow(answers: &Arc<Notify>, left: &Arc<Notify>) -> ScriptedTarget {
    let (answers, left) = (Arc::clone(answers), Arc::clone(left));
    ScriptedTarget::doing(move |mut stream, _| {
        let (answers, left) = (Arc::clone(&answers), Arc::clone(&left));
        async move {
            head(&mut stream).await;
            let mut byte = [0];
            tokio::select! {
                () = answers.notified() => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    repeat(stream).await;
                }
                _ = stream.read(&mut byte) => left.notify_one(),
            }
        }
    })
    .await
}

#[tokio::test]
async fn e10_a_client_that_leaves_takes_the_attempt_with_it() {
    let (answers, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow(&answers, &left).await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.proxy()));
    for (n, leaves_by_reset) in [false, true].into_iter().enumerate() {
        let client = stand.call().await;
        until(|| proxy.accepted() == n + 1).await;
        if leaves_by_reset {
            reset(&client);
        }
        drop(client);
        within(LIMIT, left.notified()).await;
        assert!(stand.lines.line(n).await.contains("\"left\""));
    }
    // One who has said something, and resets.
    let mut client = stand.call().await;
    say(&mut client, b"hello").await;
    until(|| proxy.accepted() == 3).await;
    reset(&client);
    drop(client);
    within(LIMIT, left.notified()).await;
    stand.until_live(0).await;
}

#[tokio::test]
async fn e10_a_client_that_is_done_speaking_is_no_client_that_left() {
    let (answers, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow(&answers, &left).await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.proxy()));
    let mut client = stand.call().await;
    say(&mut client, b"all that I want").await;
    client.shutdown().await.unwrap();
    until(|| proxy.accepted() == 1).await;
    answers.notify_one();
    assert_eq!(heard(&mut client).await, b"all that I want");
    assert!(stand.lines.line(0).await.contains("\"closed\""));
}

/// It waits for a target that speaks first, as mail servers do; until it leaves as well.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn e10_a_client_that_says_nothing_and_listens_is_no_client_that_left() {
    let (answers, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow(&answers, &left).await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.proxy()));
    let mut client = stand.call().await;
    client.shutdown().await.unwrap();
    until(|| proxy.accepted() == 1).await;
    answers.notify_one();
    assert_eq!(heard(&mut client).await, b"");
    assert!(stand.lines.line(0).await.contains("\"closed\""));
    let mut client = stand.call().await;
    client.shutdown().await.unwrap();
    until(|| proxy.accepted() == 2).await;
    drop(client);
    within(LIMIT, left.notified()).await;
    assert!(stand.lines.line(1).await.contains("\"left\""));
}

#[tokio::test]
async fn e10_much_that_is_said_meanwhile_is_kept_in_its_order() {
    let (answers, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let proxy = slow(&answers, &left).await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.proxy()));
    let (mut from, mut to) = stand.call().await.into_split();
    let all: Vec<u8> = (0..2_000_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let said = all.clone();
    let mut speaking = JoinSet::new();
    speaking.spawn(async move {
        say(&mut to, &said).await;
        to.shutdown().await.unwrap();
    });
    until(|| proxy.accepted() == 1).await;
    answers.notify_one();
    assert!(heard(&mut from).await == all);
}

#[tokio::test]
async fn e11_hundreds_at_once_are_carried_and_leave_nothing() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let stand = EngineFixture::to(target(echo.address), by_one(&proxy.url()));
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(stand.call().await);
    }
    for client in &mut clients {
        echoed(client).await;
    }
    assert_eq!(stand.status().connections.len(), 300);
    for client in &mut clients {
        echoed(client).await;
    }
    drop(clients);
    stand.until_live(0).await;
    assert!(stand.status().connections.is_empty());
    until(|| proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn e11_one_too_many_is_refused_and_the_others_stay() {
    let echo = ScriptedTarget::echo().await;
    let stand = EngineFixture::limited(
        tunnel(ListenerKind::Forward(target(echo.address)), by(&[])),
        3,
    );
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(stand.echoes().await);
    }
    for n in 0..4 {
        is_gone(&mut stand.call().await).await;
        assert!(stand.lines.line(n).await.contains("\"too_many\""));
    }
    for client in &mut clients {
        echoed(client).await;
    }
    assert_eq!((stand.engine.connection_count(), echo.accepted()), (3, 3));
    drop(clients.pop());
    stand.until_live(2).await;
    clients.push(stand.echoes().await);
}

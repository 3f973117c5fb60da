//! Connections that stand ready before anybody asks for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_lab::{HttpProxy, RequestMatcher, faults};
use haul_net::Target;
use haul_tunnel::{
    ListenerKind, TunnelConfig, Upstream, UpstreamOptions, WarmPool, WarmPoolOptions,
};
use tokio::io::AsyncWriteExt;

use crate::harness::*;

/// A forward that keeps so many ready for so long.
fn warm(
    to: &Target,
    upstream: UpstreamOptions,
    (ready, longest): (usize, Duration),
) -> (TunnelConfig, Arc<WarmPool>) {
    let upstream = Arc::new(Upstream::new(upstream).unwrap());
    let warm = Arc::new(WarmPool::new(
        Arc::clone(&upstream),
        to.clone(),
        WarmPoolOptions {
            size: ready,
            max_idle: longest,
        },
    ));
    let tunnel = TunnelConfig {
        upstream,
        warm_pool: Some(Arc::clone(&warm)),
        ..tunnel(ListenerKind::Forward(to.clone()), by(&[]))
    };
    (tunnel, warm)
}

#[tokio::test]
async fn ready_ones_are_used_and_replaced() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let (tunnel, warm) = warm(&target(echo.address), by_one(&proxy.url()), (3, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| warm.ready_count() == 3).await;
    assert_eq!((stand.status().tunnels[0].ready, echo.accepted()), (3, 3));
    for n in 1..6 {
        drop(stand.echoes().await);
        until(|| warm.ready_count() == 3).await;
        // Each is used once.
        assert_eq!(echo.accepted(), 3 + n);
        let line = stand.lines.line(n - 1).await;
        assert!(
            line.contains("\"closed\"") && line.contains(&proxy.address().to_string()),
            "{line}"
        );
    }
}

#[tokio::test]
async fn more_clients_than_are_ready_are_all_served() {
    let echo = ScriptedTarget::echo().await;
    let (tunnel, warm) = warm(&target(echo.address), by(&[]), (2, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| warm.ready_count() == 2).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(stand.call().await);
    }
    for client in &mut clients {
        echoed(client).await;
    }
    until(|| warm.ready_count() == 2).await;
    assert_eq!(echo.accepted(), 22);
}

#[tokio::test]
async fn what_a_target_says_first_is_kept() {
    let far = ScriptedTarget::greeting(b"220 ready\r\n").await;
    let (tunnel, warm) = warm(&target(far.address), by(&[]), (1, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| warm.ready_count() == 1).await;
    for _ in 0..3 {
        let mut client = stand.call().await;
        assert_eq!(next(&mut client, 11).await, b"220 ready\r\n");
        echoed(&mut client).await;
    }
}

/// A banner longer than what is read at once, in part with the proxy's answer.
#[tokio::test]
async fn much_that_a_target_says_first_is_kept_in_its_order() {
    let far = ScriptedTarget::doing(|mut stream, _| async move {
        let all: Vec<u8> = (0..200_000_u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        stream.write_all(&all).await.unwrap();
        repeat(stream).await;
    })
    .await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), |_, reply| {
            reply.body = haul_lab::OriginResponseBody::Bytes(b"hello, ".to_vec())
        })
        .start()
        .await;
    let (tunnel, warm) = warm(&target(far.address), by_one(&proxy.url()), (2, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| warm.ready_count() == 2).await;
    let mut client = stand.call().await;
    let heard = next(&mut client, 200_007).await;
    assert_eq!(&heard[..7], b"hello, ");
    assert!(
        heard[7..]
            .iter()
            .enumerate()
            .all(|(at, byte)| usize::from(*byte) == at % 251)
    );
    echoed(&mut client).await;
}

#[tokio::test]
async fn one_that_its_target_has_closed_is_passed_over() {
    let is_closing = Arc::new(AtomicBool::new(true));
    let closing = Arc::clone(&is_closing);
    let far = ScriptedTarget::doing(move |stream, _| {
        let closing = Arc::clone(&closing);
        async move {
            if !closing.load(Ordering::SeqCst) {
                repeat(stream).await;
            }
        }
    })
    .await;
    let (tunnel, warm) = warm(&target(far.address), by(&[]), (4, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| warm.ready_count() == 4 && far.accepted() == 4).await;
    // The runtime has heard of the ends when it has been idle.
    tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>())
        .await
        .unwrap_err();
    is_closing.store(false, Ordering::SeqCst);
    stand.echoes().await;
    assert!(far.accepted() >= 5);
}

#[tokio::test]
async fn old_ones_are_closed_and_replaced() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let age = Duration::from_millis(30);
    let (tunnel, _warm) = warm(&target(echo.address), by_one(&proxy.url()), (2, age));
    let stand = EngineFixture::with(tunnel);
    until(|| echo.accepted() >= 10).await;
    // No more than those that are ready, and those that are being made and let go.
    assert!(
        proxy.open_connections() <= 6,
        "{}",
        proxy.open_connections()
    );
    stand.echoes().await;
}

#[tokio::test]
async fn failures_are_waited_after_and_clients_are_served_meanwhile() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::first(2), faults::status(503))
        .start()
        .await;
    let (tunnel, warm) = warm(&target(echo.address), by_one(&proxy.url()), (2, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| proxy.requests().len() == 2).await;
    // It rests now; one who comes is not kept waiting for that.
    drop(stand.echoes().await);
    assert!(proxy.requests().len() <= 4, "{}", proxy.requests().len());
    until(|| warm.ready_count() == 2).await;
}

#[tokio::test]
async fn a_door_that_leads_elsewhere_or_closes_leaves_none_open() {
    let (one, other) = (ScriptedTarget::echo().await, ScriptedTarget::echo().await);
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let (tunnel, before) = warm(&target(one.address), by_one(&first.url()), (3, LIMIT));
    let stand = EngineFixture::with(tunnel);
    until(|| before.ready_count() == 3).await;
    let (tunnel, after) = warm(&target(other.address), by_one(&last.url()), (2, LIMIT));
    stand.door.reconfigure(tunnel);
    until(|| after.ready_count() == 2 && first.open_connections() == 0).await;
    assert_eq!(before.ready_count(), 0);
    stand.echoes().await;
    assert!(other.accepted() >= 2);
    stand.door.close();
    until(|| after.ready_count() == 0 && last.open_connections() == 0).await;
    stand.engine.shut_down(LIMIT).await;
}

#[tokio::test]
async fn those_under_way_are_dropped_with_their_door() {
    let mute = ScriptedTarget::doing(|mut stream, _| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let (tunnel, _warm) = warm(&target("far.test:22"), by_one(&mute.proxy()), (3, LIMIT));
    let stand = EngineFixture::with(tunnel);
    // One goes ahead.
    until(|| mute.accepted() == 1).await;
    assert_eq!(stand.engine.shut_down(LIMIT).await, 0);
}

/// One that stands ready for a target is for no other.
#[tokio::test]
async fn a_listener_whose_clients_choose_gets_none_that_leads_elsewhere() {
    let (one, other) = (
        ScriptedTarget::greeting(b"one").await,
        ScriptedTarget::greeting(b"two").await,
    );
    let (tunnel, warm) = warm(&target(one.address), by(&[]), (2, LIMIT));
    let stand = EngineFixture::with(TunnelConfig {
        kind: ListenerKind::Http,
        ..tunnel
    });
    until(|| warm.ready_count() == 2).await;
    let mut client = stand.call().await;
    say(
        &mut client,
        format!("CONNECT {} HTTP/1.1\r\n\r\n", other.address).as_bytes(),
    )
    .await;
    head(&mut client).await;
    assert_eq!(next(&mut client, 3).await, b"two");
}

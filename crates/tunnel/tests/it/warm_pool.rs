//! Connections that are opened before a client needs them.

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

/// A forwarding listener with a warm pool of this size.
fn with_pool(
    to: &Target,
    upstream: UpstreamOptions,
    size: usize,
    max_idle: Duration,
) -> (TunnelConfig, Arc<WarmPool>) {
    let upstream = Arc::new(Upstream::new(upstream).unwrap());
    let pool = Arc::new(WarmPool::new(
        Arc::clone(&upstream),
        to.clone(),
        WarmPoolOptions { size, max_idle },
    ));
    let config = TunnelConfig {
        upstream,
        warm_pool: Some(Arc::clone(&pool)),
        ..config(ListenerKind::Forward(to.clone()), direct())
    };
    (config, pool)
}

#[tokio::test]
async fn warm_connections_are_used_and_replaced() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let (config, pool) = with_pool(&target(echo.address), through_proxy(&proxy.url()), 3, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| pool.ready_count() == 3).await;
    assert_eq!((fixture.status().tunnels[0].ready, echo.accepted()), (3, 3));
    for n in 1..6 {
        drop(fixture.echo().await);
        wait_until(|| pool.ready_count() == 3).await;
        // Each warm connection is used once.
        assert_eq!(echo.accepted(), 3 + n);
        let line = fixture.log.line(n - 1).await;
        assert!(
            line.contains("\"closed\"") && line.contains(&proxy.address().to_string()),
            "{line}"
        );
    }
}

#[tokio::test]
async fn more_clients_than_warm_connections_are_all_served() {
    let echo = ScriptedServer::echo().await;
    let (config, pool) = with_pool(&target(echo.address), direct(), 2, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| pool.ready_count() == 2).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(fixture.connect().await);
    }
    for client in &mut clients {
        assert_echo(client).await;
    }
    wait_until(|| pool.ready_count() == 2).await;
    assert_eq!(echo.accepted(), 22);
}

#[tokio::test]
async fn a_greeting_of_the_target_reaches_the_client() {
    let server = ScriptedServer::greeting(b"220 ready\r\n").await;
    let (config, pool) = with_pool(&target(server.address), direct(), 1, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| pool.ready_count() == 1).await;
    for _ in 0..3 {
        let mut client = fixture.connect().await;
        assert_eq!(read(&mut client, 11).await, b"220 ready\r\n");
        assert_echo(&mut client).await;
    }
}

/// The greeting is longer than one read, and its first bytes arrive with the proxy's response.
#[tokio::test]
async fn a_long_greeting_arrives_in_order() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let all: Vec<u8> = (0..200_000_u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        stream.write_all(&all).await.unwrap();
        echo_all(stream).await;
    })
    .await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), |_, reply| {
            reply.body = haul_lab::OriginResponseBody::Bytes(b"hello, ".to_vec())
        })
        .start()
        .await;
    let (config, pool) = with_pool(
        &target(server.address),
        through_proxy(&proxy.url()),
        2,
        LIMIT,
    );
    let fixture = EngineFixture::with_config(config);
    wait_until(|| pool.ready_count() == 2).await;
    let mut client = fixture.connect().await;
    let received = read(&mut client, 200_007).await;
    assert_eq!(&received[..7], b"hello, ");
    assert!(
        received[7..]
            .iter()
            .enumerate()
            .all(|(at, byte)| usize::from(*byte) == at % 251)
    );
    assert_echo(&mut client).await;
}

#[tokio::test]
async fn a_warm_connection_that_the_target_has_closed_is_not_used() {
    let is_closing = Arc::new(AtomicBool::new(true));
    let closing = Arc::clone(&is_closing);
    let server = ScriptedServer::new(move |stream, _| {
        let closing = Arc::clone(&closing);
        async move {
            if !closing.load(Ordering::SeqCst) {
                echo_all(stream).await;
            }
        }
    })
    .await;
    let (config, pool) = with_pool(&target(server.address), direct(), 4, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| pool.ready_count() == 4 && server.accepted() == 4).await;
    // The runtime sees that they were closed only when it has been idle.
    tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>())
        .await
        .unwrap_err();
    is_closing.store(false, Ordering::SeqCst);
    fixture.echo().await;
    assert!(server.accepted() >= 5);
}

#[tokio::test]
async fn warm_connections_are_replaced_after_their_maximum_idle_time() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder().start().await;
    let age = Duration::from_millis(30);
    let (config, _pool) = with_pool(&target(echo.address), through_proxy(&proxy.url()), 2, age);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| echo.accepted() >= 10).await;
    // At most the ready connections and those that are being opened or closed.
    assert!(
        proxy.open_connections() <= 6,
        "{}",
        proxy.open_connections()
    );
    fixture.echo().await;
}

#[tokio::test]
async fn a_failed_warm_connection_delays_the_pool_and_not_the_clients() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::first(2), faults::status(503))
        .start()
        .await;
    let (config, pool) = with_pool(&target(echo.address), through_proxy(&proxy.url()), 2, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| proxy.requests().len() == 2).await;
    // The pool waits before its next attempt, and a client does not.
    drop(fixture.echo().await);
    assert!(proxy.requests().len() <= 4, "{}", proxy.requests().len());
    wait_until(|| pool.ready_count() == 2).await;
}

#[tokio::test]
async fn a_listener_that_is_reconfigured_or_closed_closes_its_pool() {
    let (one, other) = (ScriptedServer::echo().await, ScriptedServer::echo().await);
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let (config, before) = with_pool(&target(one.address), through_proxy(&first.url()), 3, LIMIT);
    let fixture = EngineFixture::with_config(config);
    wait_until(|| before.ready_count() == 3).await;
    let (config, after) = with_pool(&target(other.address), through_proxy(&last.url()), 2, LIMIT);
    fixture.listener.reconfigure(config);
    wait_until(|| after.ready_count() == 2 && first.open_connections() == 0).await;
    assert_eq!(before.ready_count(), 0);
    fixture.echo().await;
    assert!(other.accepted() >= 2);
    fixture.listener.close();
    wait_until(|| after.ready_count() == 0 && last.open_connections() == 0).await;
    fixture.engine.shut_down(LIMIT).await;
}

#[tokio::test]
async fn shutdown_ends_attempts_to_open_warm_connections() {
    let unresponsive = ScriptedServer::new(|mut stream, _| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let (config, _pool) = with_pool(
        &target("far.test:22"),
        through_proxy(&unresponsive.proxy_url()),
        3,
        LIMIT,
    );
    let fixture = EngineFixture::with_config(config);
    // The pool opens one connection before the others.
    wait_until(|| unresponsive.accepted() == 1).await;
    assert_eq!(fixture.engine.shut_down(LIMIT).await, 0);
}

/// A warm connection is used only for its own target.
#[tokio::test]
async fn a_request_for_another_target_does_not_use_a_warm_connection() {
    let (one, other) = (
        ScriptedServer::greeting(b"one").await,
        ScriptedServer::greeting(b"two").await,
    );
    let (config, pool) = with_pool(&target(one.address), direct(), 2, LIMIT);
    let fixture = EngineFixture::with_config(TunnelConfig {
        kind: ListenerKind::Http,
        ..config
    });
    wait_until(|| pool.ready_count() == 2).await;
    let mut client = fixture.connect().await;
    send(
        &mut client,
        format!("CONNECT {} HTTP/1.1\r\n\r\n", other.address).as_bytes(),
    )
    .await;
    read_head(&mut client).await;
    assert_eq!(read(&mut client, 3).await, b"two");
}

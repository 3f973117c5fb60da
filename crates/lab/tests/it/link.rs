//! The slow link, in front of an origin and of sockets of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, SlowLink, SlowLinkBuilder, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::raw::{ConnectionEnd, LIMIT, RawConnection, content, part, serve};

/// A link to a listener of the test, with both ends of a connection through it.
async fn ends(
    link: impl FnOnce(SocketAddr) -> SlowLinkBuilder,
) -> (SlowLink, RawConnection<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = link(listener.local_addr().unwrap()).start().await;
    let client = RawConnection::to(link.address()).await;
    let (server, _) = within(LIMIT, listener.accept()).await.unwrap();
    (link, client, server)
}

#[tokio::test]
async fn a_link_without_limits_changes_nothing() {
    let origin = serve(OriginResource::new(content())).await;
    let link = SlowLinkBuilder::new(origin.address()).start().await;
    let mut raw = RawConnection::to(link.address()).await;
    for _ in 0..3 {
        assert!(raw.exchange("GET /f.bin", &[]).await.body == content().to_vec());
    }
    assert_eq!(
        (
            link.accepted_connections(),
            link.open_connections(),
            link.refused_connections()
        ),
        (1, 1, 0)
    );
    assert!(link.bytes_to_client() > 3 * content().length());
    drop(raw);
    within(LIMIT, async {
        while link.open_connections() > 0 || origin.open_connections() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn latency_delays_each_direction_and_does_not_limit_the_rate() {
    let latency = Duration::from_millis(40);
    let origin = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(1, 8 << 20)),
        )
        .start()
        .await;
    let link = SlowLinkBuilder::new(origin.address())
        .latency(latency)
        .start()
        .await;
    let mut raw = RawConnection::to(link.address()).await;
    let begun = Instant::now();
    raw.exchange("GET /f.bin", &["Range: bytes=0-0"]).await;
    assert!(begun.elapsed() >= 2 * latency, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < 10 * latency, "{:?}", begun.elapsed());
    // With a pause after each read of 64 KiB this would take five seconds.
    let begun = Instant::now();
    assert!(raw.exchange("GET /f.bin", &[]).await.complete);
    assert!(
        begun.elapsed() >= 2 * latency && begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn small_pieces_are_delayed_without_being_limited() {
    let latency = Duration::from_millis(50);
    let (_link, mut client, mut server) =
        ends(|to| SlowLinkBuilder::new(to).latency(latency)).await;
    let begun = Instant::now();
    let write = async {
        for _ in 0..500 {
            server.write_all(&[7; 1000]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write, client.fill(500_000));
    assert!(
        begun.elapsed() >= latency && begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_hold_for_each_connection_and_in_total() {
    let size = 200_000;
    let origin = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(1, size)),
        )
        .start()
        .await;
    for link in [
        SlowLinkBuilder::new(origin.address()).rate_per_connection(1_000_000),
        SlowLinkBuilder::new(origin.address()).total_rate(2_000_000),
    ] {
        let link = link.start().await;
        let (mut one, mut two) = (
            RawConnection::to(link.address()).await,
            RawConnection::to(link.address()).await,
        );
        let begun = Instant::now();
        let (first, second) = tokio::join!(
            one.exchange("GET /f.bin", &[]),
            two.exchange("GET /f.bin", &[])
        );
        assert!(first.complete && second.complete);
        let time = begun.elapsed();
        assert!(
            time >= Duration::from_millis(190),
            "faster than its limit: {time:?}"
        );
        assert!(time < Duration::from_secs(1), "{time:?}");
    }
}

#[tokio::test]
async fn a_rate_slows_the_origin_down() {
    let (_link, _client, mut server) =
        ends(|to| SlowLinkBuilder::new(to).rate_per_connection(100_000)).await;
    let flood = async {
        let mut written = 0;
        while written < 64 << 20 {
            server.write_all(&[0; 1 << 16]).await.unwrap();
            written += 1 << 16;
        }
    };
    // Sockets hold some MiB, and the link little more.
    assert!(
        tokio::time::timeout(Duration::from_millis(300), flood)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn connections_are_cut_at_the_right_byte() {
    let origin = serve(OriginResource::new(content())).await;
    let head = RawConnection::to(origin.address())
        .await
        .exchange("GET /f.bin", &[])
        .await
        .head
        .len() as u64;
    for (link, end) in [
        (
            SlowLinkBuilder::new(origin.address()).reset_after(head + 1000),
            ConnectionEnd::Reset,
        ),
        (
            SlowLinkBuilder::new(origin.address()).close_after(head + 1000),
            ConnectionEnd::Closed,
        ),
    ] {
        let link = link.start().await;
        let response = RawConnection::to(link.address())
            .await
            .exchange("GET /f.bin", &[])
            .await;
        assert_eq!((response.end, response.complete), (end, false));
        assert!(response.body.len() <= 1000);
        if end == ConnectionEnd::Closed {
            assert_eq!(response.body, part(0..1000));
        }
        assert_eq!(link.bytes_to_client(), head + 1000);
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_reset() {
    let origin = serve(OriginResource::new(content())).await;
    let link = SlowLinkBuilder::new(origin.address())
        .max_connections(2)
        .start()
        .await;
    let (mut one, mut two) = (
        RawConnection::to(link.address()).await,
        RawConnection::to(link.address()).await,
    );
    assert!(one.exchange("GET /f.bin", &[]).await.complete);
    assert!(two.exchange("GET /f.bin", &[]).await.complete);
    assert_eq!(
        RawConnection::to(link.address()).await.rest().await.1,
        ConnectionEnd::Reset
    );
    drop(two);
    within(LIMIT, async {
        while link.open_connections() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut three = RawConnection::to(link.address()).await;
    assert!(three.exchange("GET /f.bin", &[]).await.complete);
    assert_eq!(
        (link.accepted_connections(), link.refused_connections()),
        (3, 1)
    );
}

#[tokio::test]
async fn half_closes_are_passed_on_and_the_other_direction_goes_on() {
    let latency = Duration::from_millis(20);
    let (_link, mut client, mut server) =
        ends(|to| SlowLinkBuilder::new(to).latency(latency)).await;
    client.send("the last words").await;
    client.stream.shutdown().await.unwrap();
    let mut heard = String::new();
    within(LIMIT, server.read_to_string(&mut heard))
        .await
        .unwrap();
    assert_eq!(heard, "the last words");
    server.write_all(b"a response").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(
        client.rest().await,
        (b"a response".to_vec(), ConnectionEnd::Closed)
    );
}

#[tokio::test]
async fn resets_are_passed_on() {
    let (_link, mut client, server) = ends(SlowLinkBuilder::new).await;
    socket2::SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(server);
    assert_eq!(client.rest().await.1, ConnectionEnd::Reset);

    let (_link, client, server) = ends(SlowLinkBuilder::new).await;
    socket2::SockRef::from(&client.stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(client);
    assert_eq!(
        RawConnection::over(server).rest().await.1,
        ConnectionEnd::Reset
    );
}

#[tokio::test]
async fn an_address_without_a_listener_is_a_reset() {
    let [port] = haul_lab::free_ports();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let link = SlowLinkBuilder::new(address).start().await;
    assert_eq!(
        RawConnection::to(link.address()).await.rest().await.1,
        ConnectionEnd::Reset
    );
}

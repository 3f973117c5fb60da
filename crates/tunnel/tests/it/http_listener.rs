//! The HTTP proxy's listener: CONNECT, and what is refused.

use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{HttpProxy, RequestMatcher, within};
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

#[tokio::test]
async fn connect_is_a_tunnel_and_loses_nothing() {
    let far = ScriptedTarget::greeting(b"220 hello\r\n").await;
    let proxy = HttpProxy::builder()
        .route("far.test:25", far.address)
        .start()
        .await;
    let stand = EngineFixture::of(ListenerKind::Http, by_one(&proxy.url()));
    let mut client = stand.call().await;
    say(&mut client, b"CONNECT far.test:25 HTTP/1.1\r\nHost: far.test:25\r\nProxy-Authorization: Basic eDp5\r\n\r\nEHLO").await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(next(&mut client, 15).await, b"220 hello\r\nEHLO");
    // What a client shows to us is not for the next.
    assert_eq!(proxy.requests()[0].header("proxy-authorization"), None);
}

#[tokio::test]
async fn what_is_not_for_a_proxy_is_refused_with_the_reason() {
    let stand = EngineFixture::of(ListenerKind::Http, by(&[]));
    let address = stand.address;
    let many = "X: y\r\n".repeat(200);
    let long = format!("X: {}\r\n", "y".repeat(70_000));
    for (n, (request, status)) in [
        (format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"), 400),
        ("OPTIONS * HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET https://far.test/ HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT far.test HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT far.test:0 HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}".to_owned(), 400),
        ("SSH-2.0-OpenSSH_9\r\n".to_owned(), 400),
        (format!("GET http://far.test/ HTTP/1.1\r\n{many}\r\n"), 400),
        (format!("GET http://far.test/ HTTP/1.1\r\n{long}\r\n"), 431),
        ("POST http://far.test/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = stand.call().await;
        say(&mut client, request.as_bytes()).await;
        client.shutdown().await.unwrap();
        let answer = String::from_utf8(heard(&mut client).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains("haul: "), "{answer}");
        drop(client);
        assert!(stand.lines.line(n).await.contains("\"misunderstood\""));
    }
}

#[tokio::test]
async fn an_unreached_target_is_told_with_a_status_and_no_secret() {
    let forbidding = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(403))
        .start()
        .await;
    let asking = HttpProxy::builder()
        .require_login(RequiredLogin::basic("me", "other"))
        .start()
        .await;
    let closed = "http://127.0.0.1:1".to_owned();
    for (proxy, status) in [
        (forbidding.url(), 403),
        (asking.url_with_login("me", PASSWORD), 502),
        (closed, 502),
    ] {
        let stand = EngineFixture::of(ListenerKind::Http, by_one(&proxy));
        let answer = answer(
            &stand,
            b"CONNECT far.test:22 HTTP/1.1\r\n\r\nand more than was asked",
        )
        .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(
            !answer.contains(PASSWORD) && answer.contains("proxy"),
            "{answer}"
        );
    }
}

/// One who does not go when it is told to is not waited for.
#[tokio::test(start_paused = true)]
async fn a_refused_client_that_stays_is_closed_in_time() {
    for (local, said) in [
        (ListenerKind::Http, &b"GET / HTTP/1.1\r\n\r\n"[..]),
        (ListenerKind::Socks, b"GET / HTTP/1.1\r\n\r\n"),
        (ListenerKind::Http, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n"),
        (
            ListenerKind::Socks,
            b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x01",
        ),
    ] {
        let stand = EngineFixture::of(local, by(&[]));
        let mut client: TcpStream = TcpStream::connect(stand.address).await.unwrap();
        client.write_all(said).await.unwrap();
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all).await;
        let minutes = std::time::Duration::from_secs(120);
        let gone = async {
            while stand.engine.connection_count() > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        within(minutes, gone).await;
    }
}

/// One who never says where to is not waited for either.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_closed_in_time() {
    for local in [ListenerKind::Http, ListenerKind::Socks] {
        let stand = EngineFixture::of(local, by(&[]));
        let mut client = TcpStream::connect(stand.address).await.unwrap();
        let read = within(
            std::time::Duration::from_secs(120),
            client.read(&mut [0; 1]),
        )
        .await;
        assert!(!matches!(read, Ok(1..)));
        // The log is written by a thread of its own, whose time is not ours.
        tokio::time::resume();
        assert!(stand.lines.line(0).await.contains("\"silent\""));
        tokio::time::pause();
    }
}

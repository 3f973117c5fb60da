//! The HTTP listener: CONNECT, refused requests, and clients that are silent or disconnect.

use std::time::Duration;

use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{HttpProxy, RequestMatcher, within};
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

#[tokio::test]
async fn connect_opens_a_tunnel_and_loses_no_byte() {
    let server = ScriptedServer::greeting(b"220 hello\r\n").await;
    let proxy = HttpProxy::builder()
        .route("far.test:25", server.address)
        .start()
        .await;
    let fixture = EngineFixture::http(through_proxy(&proxy.url()));
    let mut client = fixture.connect().await;
    let connect = b"CONNECT far.test:25 HTTP/1.1\r\nHost: far.test:25\r\nProxy-Authorization: Basic eDp5\r\n\r\nEHLO";
    send(&mut client, connect).await;
    let head = read_head(&mut client).await;
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    assert_eq!(read(&mut client, 15).await, b"220 hello\r\nEHLO");
    // The client's login is for this listener, and not for the next proxy.
    assert_eq!(proxy.requests()[0].header("proxy-authorization"), None);
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"");
    let line = fixture.log.line(0).await;
    assert!(line.contains("\"closed\""), "{line}");
}

#[tokio::test]
async fn connect_after_other_requests_opens_a_tunnel() {
    let server = ScriptedServer::echo().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    send(&mut client, b"GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n").await;
    let response = read_response(&mut client).await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    let connect = format!("CONNECT {} HTTP/1.1\r\n\r\n", server.address);
    send(&mut client, connect.as_bytes()).await;
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
    assert_echo(&mut client).await;
    drop(client);
    assert!(fixture.log.line(0).await.contains("\"unreached\""));
    let line = fixture.log.line(1).await;
    assert!(
        line.contains("\"closed\"") && line.contains(&server.address.to_string()),
        "{line}"
    );
}

#[tokio::test]
async fn requests_that_are_not_for_a_proxy_get_a_400_with_the_reason() {
    let fixture = EngineFixture::http(direct());
    let address = fixture.address;
    for (n, request) in [
        format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\n\r\n".to_owned(),
        "GET https://far.test/ HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT far.test HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT far.test:0 HTTP/1.1\r\n\r\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let response = fixture.request(request.as_bytes()).await;
        let is_refused = response.starts_with("HTTP/1.1 400 ");
        assert!(is_refused && response.contains("haul: "), "{response}");
        assert!(fixture.log.line(n).await.contains("\"misunderstood\""));
    }
}

/// hyper refuses these itself, without a body.
#[tokio::test]
async fn malformed_and_oversized_requests_are_refused() {
    let fixture = EngineFixture::http(direct());
    let many = "X: y\r\n".repeat(200);
    let long = format!("X: {}\r\n", "y".repeat(70_000));
    let get = "GET http://far.test/ HTTP/1.1\r\n";
    let post = "POST http://far.test/ HTTP/1.1\r\n";
    for (n, (request, status)) in [
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}".to_owned(), 400),
        ("SSH-2.0-OpenSSH_9\r\n".to_owned(), 400),
        (format!("{get}X : y\r\n\r\n"), 400),
        (format!("{get}X: y\r\n folded\r\n\r\n"), 400),
        (format!("{get}{many}\r\n"), 431),
        (format!("{get}{long}\r\n"), 431),
        (
            format!("{post}Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
            400,
        ),
        (format!("{post}Content-Length: +3\r\n\r\n"), 400),
        (format!("{post}Content-Length: -3\r\n\r\n"), 400),
        (format!("{post}Content-Length: 0x3\r\n\r\n"), 400),
        (format!("{post}Content-Length: 3, 4\r\n\r\n"), 400),
        (format!("{post}Content-Length:\r\n\r\n"), 400),
        (
            format!("{post}Content-Length: 99999999999999999999\r\n\r\n"),
            400,
        ),
        (format!("{post}Transfer-Encoding: identity\r\n\r\n"), 400),
        (
            format!("{post}Transfer-Encoding: chunked, gzip\r\n\r\n"),
            400,
        ),
        (
            format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n"),
            501,
        ),
        (
            "POST http://far.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            400,
        ),
    ]
    .iter()
    .enumerate()
    {
        let response = fixture.request(request.as_bytes()).await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {response}"
        );
        assert!(fixture.log.line(n).await.contains("\"misunderstood\""));
    }
}

#[tokio::test]
async fn an_unreachable_target_gets_a_status_without_secrets() {
    let forbidding = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(403))
        .start()
        .await;
    let with_other_login = HttpProxy::builder()
        .require_login(RequiredLogin::basic("me", "other"))
        .start()
        .await;
    let closed = "http://127.0.0.1:1".to_owned();
    for (proxy, status) in [
        (forbidding.url(), 403),
        (with_other_login.url_with_login("me", PASSWORD), 502),
        (closed, 502),
    ] {
        let fixture = EngineFixture::http(through_proxy(&proxy));
        // Bytes after CONNECT are for the target and must not be taken for a second request.
        let connect =
            b"CONNECT far.test:22 HTTP/1.1\r\n\r\nGET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n";
        let response = fixture.request(connect).await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{response}"
        );
        assert!(response.contains("cannot reach far.test"), "{response}");
        assert!(
            !response.contains(PASSWORD) && response.contains("proxy"),
            "{response}"
        );
        assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
    }
}

/// A refused client that keeps its connection open is closed after a timeout.
#[tokio::test(start_paused = true)]
async fn a_refused_client_that_does_not_close_is_closed_after_a_timeout() {
    for (kind, bytes) in [
        (ListenerKind::Http, &b"GET / HTTP/1.1\r\n\r\n"[..]),
        (ListenerKind::Socks, b"GET / HTTP/1.1\r\n\r\n"),
        (ListenerKind::Http, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n"),
        (
            ListenerKind::Socks,
            b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x01",
        ),
    ] {
        let fixture = EngineFixture::with_kind(kind, direct());
        let mut client = TcpStream::connect(fixture.address).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all).await;
        let wait_for_close = async {
            while fixture.engine.connection_count() > 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        within(Duration::from_secs(120), wait_for_close).await;
    }
}

/// A client that never sends a request is closed after a timeout.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_closed_after_a_timeout() {
    for kind in [ListenerKind::Http, ListenerKind::Socks] {
        let fixture = EngineFixture::with_kind(kind, direct());
        let mut client = TcpStream::connect(fixture.address).await.unwrap();
        let read = within(Duration::from_secs(120), client.read(&mut [0; 1])).await;
        assert!(!matches!(read, Ok(1..)));
        // The log is written by a thread for which time is not paused.
        tokio::time::resume();
        assert!(fixture.log.line(0).await.contains("\"silent\""));
        tokio::time::pause();
    }
}

#[tokio::test]
async fn e10_a_client_that_disconnects_cancels_its_connect() {
    let unresponsive = ScriptedServer::new(|mut stream, _| async move {
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(through_proxy(&unresponsive.proxy_url()));
    for n in 0..2 {
        let mut client = fixture.connect().await;
        send(&mut client, b"CONNECT far.test:22 HTTP/1.1\r\n\r\n").await;
        wait_until(|| unresponsive.accepted() == n + 1).await;
        if n == 1 {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        assert!(fixture.log.line(n).await.contains("\"left\""));
    }
    fixture.wait_for_connections(0).await;
}

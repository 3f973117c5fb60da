//! The SOCKS5 listener (RFC 1928), tested with raw bytes.

use haul_lab::{HttpProxy, RequestMatcher, SocksProxy, SocksQuirk, faults, within};
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// A CONNECT request for an address of this type.
fn socks_request(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, kind], address, &port.to_be_bytes()].concat()
}

fn request_for_name(name: &str, port: u16) -> Vec<u8> {
    socks_request(
        3,
        &[&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat(),
        port,
    )
}

/// Does the SOCKS greeting and sends a request. Returns the client and the reply code.
async fn exchange(fixture: &EngineFixture, request: &[u8]) -> (TcpStream, u8) {
    let mut client = fixture.connect().await;
    send(&mut client, &[5, 2, 0, 2]).await;
    assert_eq!(read(&mut client, 2).await, [5, 0]);
    send(&mut client, request).await;
    let reply = read(&mut client, 10).await;
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    (client, reply[1])
}

#[tokio::test]
async fn targets_of_every_address_type_are_reached() {
    let four = ScriptedServer::echo().await;
    let six = ScriptedServer::at("[::1]:0", |stream, _| echo_all(stream))
        .await
        .unwrap();
    let port = four.address.port();
    let proxy = HttpProxy::builder()
        .route(&format!("far.test:{port}"), four.address)
        .start()
        .await;
    let fixture = EngineFixture::with_kind(ListenerKind::Socks, through_proxy(&proxy.url()));
    let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
    let cases = [
        (
            socks_request(1, &[127, 0, 0, 1], port),
            four.address.to_string(),
        ),
        (
            socks_request(4, &v6, six.address.port()),
            six.address.to_string(),
        ),
        (
            request_for_name("far.test", port),
            format!("far.test:{port}"),
        ),
        (
            request_for_name("127.0.0.1", port),
            four.address.to_string(),
        ),
        (
            request_for_name("::1", six.address.port()),
            six.address.to_string(),
        ),
    ];
    for (n, (request, target)) in cases.into_iter().enumerate() {
        let (mut client, code) = exchange(&fixture, &request).await;
        assert_eq!(code, 0);
        assert_echo(&mut client).await;
        assert_eq!(proxy.requests()[n].target, target);
        drop(client);
        assert!(
            fixture
                .log
                .line(n)
                .await
                .contains(&format!("\"target\":\"{target}\""))
        );
    }
}

#[tokio::test]
async fn a_handshake_may_arrive_in_single_bytes_or_all_at_once() {
    let echo = ScriptedServer::echo().await;
    let fixture = EngineFixture::with_kind(ListenerKind::Socks, direct());
    let request = socks_request(1, &[127, 0, 0, 1], echo.address.port());
    let all = [&[5, 1, 0][..], &request, b"a word"].concat();
    let mut client = fixture.connect().await;
    client.set_nodelay(true).unwrap();
    for byte in &all {
        send(&mut client, &[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&mut client, 12).await[..4], [5, 0, 5, 0]);
    assert_eq!(read(&mut client, 6).await, b"a word");
    // The greeting, the request and the data in one write.
    let mut client = fixture.connect().await;
    let long = [&[5, 1, 0][..], &request, &[b'x'; 100_000]].concat();
    let (mut reader, mut writer) = client.split();
    let both = async { tokio::join!(send(&mut writer, &long), read(&mut reader, 100_012)).1 };
    assert!(both.await[12..] == [b'x'; 100_000]);
}

#[tokio::test]
async fn unsupported_and_malformed_requests_get_a_socks_error_reply() {
    let fixture = EngineFixture::with_kind(ListenerKind::Socks, direct());
    for (n, (bytes, reply, reason)) in [
        (
            &b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00"[..],
            &b""[..],
            "does not speak SOCKS5",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"",
            "does not speak SOCKS5",
        ),
        (b"\x05\x01\x02", b"\x05\xff", "insists on a login"),
        (b"\x05\x00", b"\x05\xff", "insists on a login"),
        (
            b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
            b"\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00",
            "another command",
        ),
        (
            b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50",
            b"\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00",
            "another command",
        ),
        (
            b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50",
            b"\x05\x00\x05\x08\x00\x01\x00\x00\x00\x00\x00\x00",
            "names no target",
        ),
        (
            b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
            b"\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00",
            "names no target",
        ),
        (
            b"\x05\x01\x00\x05\x01\x00\x03\x04a\r\nb\x00\x50",
            b"\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00",
            "names no target",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = fixture.connect().await;
        send(&mut client, bytes).await;
        assert_eq!(read_to_end(&mut client).await, reply, "{bytes:?}");
        drop(client);
        let line = fixture.log.line(n).await;
        assert!(
            line.contains("\"misunderstood\"") && line.contains(reason),
            "{line}"
        );
    }
}

/// A client gets the reply although it sends more bytes after its request.
#[tokio::test]
async fn a_refusal_reaches_a_client_that_keeps_sending() {
    let fixture =
        EngineFixture::with_kind(ListenerKind::Socks, through_proxy("http://127.0.0.1:1"));
    let mut client = fixture.connect().await;
    let request = [
        &[5, 1, 0][..],
        &request_for_name("far.test", 22),
        &[b'x'; 200_000],
    ]
    .concat();
    let (mut reader, mut writer) = client.split();
    let (_, response) = tokio::join!(send(&mut writer, &request), read(&mut reader, 12));
    assert_eq!(response[..4], [5, 0, 5, 1]);
    // The stream ends after the reply without a reset.
    let mut rest = Vec::new();
    assert_eq!(
        within(LIMIT, reader.read_to_end(&mut rest)).await.unwrap(),
        0
    );
    for _ in 0..100 {
        send(&mut writer, b"x").await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_reply_code_shows_whether_the_proxy_or_the_target_refused() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let status = |status| {
        HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
    };
    let socks = |code| {
        SocksProxy::builder()
            .quirk(SocksQuirk::RefuseWith(code))
            .start()
    };
    let (forbidden, bad, late) = (status(403).await, status(502).await, status(504).await);
    let (rules, unreachable) = (socks(2).await, socks(4).await);
    let request = socks_request(1, &[127, 0, 0, 1], closed.port());
    for (upstream, expected) in [
        (direct(), 5),
        (through_proxy(&forbidden.url()), 2),
        (through_proxy(&bad.url()), 4),
        (through_proxy(&late.url()), 4),
        (through_proxy(&rules.url("socks5h")), 2),
        (through_proxy(&unreachable.url("socks5h")), 4),
        // Nothing listens on the proxy's address, so nothing is known about the target.
        (through_proxy(&format!("http://{closed}")), 1),
    ] {
        let fixture = EngineFixture::with_kind(ListenerKind::Socks, upstream);
        let (mut client, code) = exchange(&fixture, &request).await;
        assert_eq!(code, expected);
        assert_eq!(read_to_end(&mut client).await, b"");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_during_the_handshake_is_logged() {
    let fixture = EngineFixture::with_kind(ListenerKind::Socks, direct());
    for (n, bytes) in [
        &b""[..],
        b"\x05",
        b"\x05\x01\x00",
        b"\x05\x01\x00\x05\x01\x00\x03\x20far",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = fixture.connect().await;
        send(&mut client, bytes).await;
        client.shutdown().await.unwrap();
        drop(client);
        let line = fixture.log.line(n).await;
        assert!(line.contains("the client left"), "{line}");
    }
    fixture.wait_for_connections(0).await;
}

//! The SOCKS5 listener, by a client written by hand (RFC 1928).

use haul_lab::{HttpProxy, RequestMatcher, SocksProxy, SocksQuirk, faults, within};
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// A request for an address of some kind.
fn request(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, kind], address, &port.to_be_bytes()].concat()
}

fn named(name: &str, port: u16) -> Vec<u8> {
    request(
        3,
        &[&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat(),
        port,
    )
}

/// Greets, asks, and hears the code of the reply.
async fn ask(stand: &EngineFixture, request: &[u8]) -> (TcpStream, u8) {
    let mut client = stand.call().await;
    say(&mut client, &[5, 2, 0, 2]).await;
    assert_eq!(next(&mut client, 2).await, [5, 0]);
    say(&mut client, request).await;
    let reply = next(&mut client, 10).await;
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    (client, reply[1])
}

#[tokio::test]
async fn every_kind_of_address_is_reached() {
    let four = ScriptedTarget::echo().await;
    let six = ScriptedTarget::at("[::1]:0", |stream, _| repeat(stream))
        .await
        .unwrap();
    let port = four.address.port();
    let proxy = HttpProxy::builder()
        .route(&format!("far.test:{port}"), four.address)
        .start()
        .await;
    let stand = EngineFixture::of(ListenerKind::Socks, by_one(&proxy.url()));
    let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
    let wanted = [
        (request(1, &[127, 0, 0, 1], port), four.address.to_string()),
        (request(4, &v6, six.address.port()), six.address.to_string()),
        (named("far.test", port), format!("far.test:{port}")),
        (named("127.0.0.1", port), four.address.to_string()),
        (named("::1", six.address.port()), six.address.to_string()),
    ];
    for (n, (request, target)) in wanted.into_iter().enumerate() {
        let (mut client, code) = ask(&stand, &request).await;
        assert_eq!(code, 0);
        echoed(&mut client).await;
        assert_eq!(proxy.requests()[n].target, target);
        drop(client);
        assert!(
            stand
                .lines
                .line(n)
                .await
                .contains(&format!("\"target\":\"{target}\""))
        );
    }
}

#[tokio::test]
async fn single_bytes_and_everything_at_once_are_understood() {
    let echo = ScriptedTarget::echo().await;
    let stand = EngineFixture::of(ListenerKind::Socks, by(&[]));
    let request = request(1, &[127, 0, 0, 1], echo.address.port());
    let all = [&[5, 1, 0][..], &request, b"a word"].concat();
    let mut client = stand.call().await;
    client.set_nodelay(true).unwrap();
    for byte in &all {
        say(&mut client, &[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut client, 12).await[..4], [5, 0, 5, 0]);
    assert_eq!(next(&mut client, 6).await, b"a word");
    // And all that follows, in the same breath as the greeting.
    let mut client = stand.call().await;
    let long = [&[5, 1, 0][..], &request, &[b'x'; 100_000]].concat();
    let (mut from, mut to) = client.split();
    let both = async { tokio::join!(say(&mut to, &long), next(&mut from, 100_012)).1 };
    assert!(both.await[12..] == [b'x'; 100_000]);
}

#[tokio::test]
async fn what_is_not_served_is_told_in_the_protocols_words() {
    let stand = EngineFixture::of(ListenerKind::Socks, by(&[]));
    for (n, (said, answer, why)) in [
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
        let mut client = stand.call().await;
        say(&mut client, said).await;
        assert_eq!(heard(&mut client).await, answer, "{said:?}");
        drop(client);
        let line = stand.lines.line(n).await;
        assert!(
            line.contains("\"misunderstood\"") && line.contains(why),
            "{line}"
        );
    }
}

/// What a hasty client sends behind its request does not cost it the answer.
#[tokio::test]
async fn a_refusal_is_heard_by_one_who_goes_on_speaking() {
    let stand = EngineFixture::of(ListenerKind::Socks, by_one("http://127.0.0.1:1"));
    let mut client = stand.call().await;
    let request = [&[5, 1, 0][..], &named("far.test", 22), &[b'x'; 200_000]].concat();
    let (mut from, mut to) = client.split();
    let (_, answer) = tokio::join!(say(&mut to, &request), next(&mut from, 12));
    assert_eq!(answer[..4], [5, 0, 5, 1]);
    // The end comes after it, and no reset.
    let mut rest = Vec::new();
    assert_eq!(within(LIMIT, from.read_to_end(&mut rest)).await.unwrap(), 0);
    for _ in 0..100 {
        say(&mut to, b"x").await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_code_of_a_refusal_says_whose_it_is() {
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
    let request = request(1, &[127, 0, 0, 1], closed.port());
    for (upstream, expected) in [
        (by(&[]), 5),
        (by_one(&forbidden.url()), 2),
        (by_one(&bad.url()), 4),
        (by_one(&late.url()), 4),
        (by_one(&rules.url("socks5h")), 2),
        (by_one(&unreachable.url("socks5h")), 4),
        // Nobody is at the proxy's address: that says nothing of the target.
        (by_one(&format!("http://{closed}")), 1),
    ] {
        let stand = EngineFixture::of(ListenerKind::Socks, upstream);
        let (mut client, code) = ask(&stand, &request).await;
        assert_eq!(code, expected);
        assert_eq!(heard(&mut client).await, b"");
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_is_forgotten() {
    let stand = EngineFixture::of(ListenerKind::Socks, by(&[]));
    for (n, said) in [
        &b""[..],
        b"\x05",
        b"\x05\x01\x00",
        b"\x05\x01\x00\x05\x01\x00\x03\x20far",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = stand.call().await;
        say(&mut client, said).await;
        client.shutdown().await.unwrap();
        drop(client);
        let line = stand.lines.line(n).await;
        assert!(line.contains("the client left"), "{line}");
    }
    stand.until_live(0).await;
}

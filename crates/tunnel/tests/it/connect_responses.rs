//! Responses of proxies to CONNECT: rows E1, E2 and E3.

use haul_lab::{
    HttpProxy, OriginResponseBody, OriginResponseFraming, RequestMatcher, SocksProxy, faults,
};
use haul_tunnel::ListenerKind;

use crate::harness::*;

#[tokio::test]
async fn e1_any_2xx_opens_the_tunnel_whatever_its_headers_are() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder()
        .rule(
            RequestMatcher::matching(|request| request.target.starts_with("old.test")),
            faults::http10,
        )
        .rule(
            RequestMatcher::matching(|request| request.target.starts_with("odd.test")),
            |_, reply| {
                reply.reason = Some("Connection  \u{fc}ber established: ok".into());
                reply.set_header("Proxy-Agent", "something/1.0");
                reply.set_header("Via", "1.1 x");
            },
        )
        .rule(
            RequestMatcher::matching(|request| request.target.starts_with("long.test")),
            |_, reply| {
                reply.set_header("Content-Length", "4");
            },
        )
        .rule(
            RequestMatcher::matching(|request| request.target.starts_with("chunked.test")),
            |_, reply| {
                reply.framing = OriginResponseFraming::Chunked;
            },
        )
        .rule(
            RequestMatcher::matching(|request| request.target.starts_with("both.test")),
            |_, reply| {
                reply.status = 202;
                reply.set_header("Content-Length", "99999999999999999999");
                reply.set_header("Transfer-Encoding", "gzip");
                reply.set_header("Connection", "close");
            },
        );
    let names = [
        "old.test",
        "odd.test",
        "long.test",
        "chunked.test",
        "both.test",
    ];
    let proxy = names
        .iter()
        .fold(proxy, |proxy, name| {
            proxy.route(&format!("{name}:22"), echo.address)
        })
        .start()
        .await;
    for name in names {
        let fixture =
            EngineFixture::forward(target(format!("{name}:22")), through_proxy(&proxy.url()));
        drop(fixture.echo().await);
        let line = fixture.log.line(0).await;
        assert!(
            line.contains("\"end\":\"closed\"") && line.contains("\"up\":6,\"down\":6"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn e2_bytes_that_arrive_with_the_200_reach_the_client_first() {
    // Less than one read, more than one read, and more than socket buffers hold.
    for length in [1, 12, 4000, 70_000, 3_000_000] {
        let early: Vec<u8> = (0..length)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let echo = ScriptedServer::echo().await;
        let sent = early.clone();
        let proxy = HttpProxy::builder()
            .route("far.test:22", echo.address)
            .rule(RequestMatcher::always(), move |_, reply| {
                reply.body = OriginResponseBody::Bytes(sent.clone())
            })
            .start()
            .await;
        for local in [
            ListenerKind::Forward(target("far.test:22")),
            ListenerKind::Socks,
        ] {
            let is_socks = local == ListenerKind::Socks;
            let fixture = EngineFixture::with_kind(local, through_proxy(&proxy.url()));
            let mut client = fixture.connect().await;
            if is_socks {
                // A client that sends everything at once and does not wait for replies.
                send(
                    &mut client,
                    b"\x05\x01\x00\x05\x01\x00\x03\x08far.test\x00\x16a word",
                )
                .await;
                assert_eq!(
                    read(&mut client, 12).await,
                    [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
                );
            } else {
                send(&mut client, b"a word").await;
            }
            assert!(read(&mut client, length).await == early);
            assert_eq!(read(&mut client, 6).await, b"a word");
        }
    }
}

#[tokio::test]
async fn e2_a_target_that_sends_first_is_received_through_every_kind_of_proxy() {
    let server = ScriptedServer::greeting(b"SSH-2.0-lab\r\n").await;
    let http = HttpProxy::builder()
        .route("far.test:22", server.address)
        .start()
        .await;
    let socks = SocksProxy::builder()
        .route("far.test:22", server.address)
        .start()
        .await;
    let with_banner = SocksProxy::builder()
        .route("far.test:22", server.address)
        .banner(b"220 ")
        .start()
        .await;
    let other = HttpProxy::builder().start().await;
    for (upstream, greeting) in [
        (through_proxy(&http.url()), &b"SSH-2.0-lab\r\n"[..]),
        (through_proxy(&socks.url("socks5h")), b"SSH-2.0-lab\r\n"),
        (
            through_proxy(&with_banner.url("socks5h")),
            b"220 SSH-2.0-lab\r\n",
        ),
        (
            proxy_chain(&[&[other.url()], &[with_banner.url("socks5h")]]),
            b"220 SSH-2.0-lab\r\n",
        ),
        (
            proxy_chain(&[&[other.url()], &[http.url()]]),
            b"SSH-2.0-lab\r\n",
        ),
    ] {
        let fixture = EngineFixture::forward(target("far.test:22"), upstream);
        let mut client = fixture.connect().await;
        assert_eq!(read(&mut client, greeting.len()).await, greeting);
        assert_echo(&mut client).await;
    }
}

#[tokio::test]
async fn e3_a_head_in_single_bytes_is_read_and_1xx_responses_are_skipped() {
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::interim_response(100))
        .rule(RequestMatcher::always(), faults::interim_response(103))
        .rule(RequestMatcher::always(), faults::trickled_head(1))
        .start()
        .await;
    let fixture = EngineFixture::forward(target(echo.address), through_proxy(&proxy.url()));
    fixture.echo().await;
}

#[tokio::test]
async fn e3_an_endless_response_head_is_an_error() {
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::endless_head)
        .start()
        .await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.url()));
    let mut client = fixture.connect().await;
    assert_closed(&mut client).await;
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("\"unreached\"") && line.contains("not valid HTTP"),
        "{line}"
    );
}

//! What proxies answer to CONNECT: rows E1, E2 and E3.

use haul_lab::{
    HttpProxy, OriginResponseBody, OriginResponseFraming, RequestMatcher, SocksProxy, faults,
};
use haul_tunnel::ListenerKind;

use crate::harness::*;

#[tokio::test]
async fn e1_any_2xx_is_a_tunnel_whatever_else_the_head_says() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder()
        .rule(
            RequestMatcher::matching(|asked| asked.target.starts_with("old.test")),
            faults::http10,
        )
        .rule(
            RequestMatcher::matching(|asked| asked.target.starts_with("odd.test")),
            |_, reply| {
                reply.reason = Some("Connection  \u{fc}ber established: ok".into());
                reply.set_header("Proxy-Agent", "something/1.0");
                reply.set_header("Via", "1.1 x");
            },
        )
        .rule(
            RequestMatcher::matching(|asked| asked.target.starts_with("long.test")),
            |_, reply| {
                reply.set_header("Content-Length", "4");
            },
        )
        .rule(
            RequestMatcher::matching(|asked| asked.target.starts_with("chunked.test")),
            |_, reply| {
                reply.framing = OriginResponseFraming::Chunked;
            },
        )
        .rule(
            RequestMatcher::matching(|asked| asked.target.starts_with("both.test")),
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
    let proxy = names.iter().fold(proxy, |proxy, name| {
        proxy.route(&format!("{name}:22"), echo.address)
    });
    let proxy = proxy.start().await;
    for name in names {
        let stand = EngineFixture::to(target(format!("{name}:22")), by_one(&proxy.url()));
        drop(stand.echoes().await);
        let line = stand.lines.line(0).await;
        assert!(
            line.contains("\"end\":\"closed\"") && line.contains("\"up\":6,\"down\":6"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn e2_what_comes_with_the_consent_comes_first() {
    // Less than a read, more than one, and more than sockets pass on at once.
    for length in [1, 12, 4000, 70_000, 3_000_000] {
        let early: Vec<u8> = (0..length)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let echo = ScriptedTarget::echo().await;
        let said = early.clone();
        let proxy = HttpProxy::builder()
            .route("far.test:22", echo.address)
            .rule(RequestMatcher::always(), move |_, reply| {
                reply.body = OriginResponseBody::Bytes(said.clone())
            })
            .start()
            .await;
        for local in [
            ListenerKind::Forward(target("far.test:22")),
            ListenerKind::Socks,
        ] {
            let is_socks = local == ListenerKind::Socks;
            let stand = EngineFixture::of(local, by_one(&proxy.url()));
            let mut client = stand.call().await;
            if is_socks {
                // All at once: one who does not wait for answers.
                say(
                    &mut client,
                    b"\x05\x01\x00\x05\x01\x00\x03\x08far.test\x00\x16a word",
                )
                .await;
                assert_eq!(
                    next(&mut client, 12).await,
                    [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
                );
            } else {
                say(&mut client, b"a word").await;
            }
            assert!(next(&mut client, length).await == early);
            assert_eq!(next(&mut client, 6).await, b"a word");
        }
    }
}

#[tokio::test]
async fn e2_a_target_that_speaks_first_is_heard_by_every_kind_of_proxy() {
    let far = ScriptedTarget::greeting(b"SSH-2.0-lab\r\n").await;
    let http = HttpProxy::builder()
        .route("far.test:22", far.address)
        .start()
        .await;
    let socks = SocksProxy::builder()
        .route("far.test:22", far.address)
        .start()
        .await;
    let chatty = SocksProxy::builder()
        .route("far.test:22", far.address)
        .banner(b"220 ")
        .start()
        .await;
    let other = HttpProxy::builder().start().await;
    for (upstream, words) in [
        (by_one(&http.url()), &b"SSH-2.0-lab\r\n"[..]),
        (by_one(&socks.url("socks5h")), b"SSH-2.0-lab\r\n"),
        (by_one(&chatty.url("socks5h")), b"220 SSH-2.0-lab\r\n"),
        (
            by(&[&[other.url()], &[chatty.url("socks5h")]]),
            b"220 SSH-2.0-lab\r\n",
        ),
        (by(&[&[other.url()], &[http.url()]]), b"SSH-2.0-lab\r\n"),
    ] {
        let stand = EngineFixture::to(target("far.test:22"), upstream);
        let mut client = stand.call().await;
        assert_eq!(next(&mut client, words.len()).await, words);
        echoed(&mut client).await;
    }
}

#[tokio::test]
async fn e3_a_head_in_single_bytes_is_read_and_interim_ones_are_skipped() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::interim_response(100))
        .rule(RequestMatcher::always(), faults::interim_response(103))
        .rule(RequestMatcher::always(), faults::trickled_head(1))
        .start()
        .await;
    let stand = EngineFixture::to(target(echo.address), by_one(&proxy.url()));
    stand.echoes().await;
}

#[tokio::test]
async fn e3_a_head_without_end_is_given_up() {
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::endless_head)
        .start()
        .await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.url()));
    let mut client = stand.call().await;
    is_gone(&mut client).await;
    let line = stand.lines.line(0).await;
    assert!(
        line.contains("\"unreached\"") && line.contains("not proper HTTP"),
        "{line}"
    );
}

//! Proxies that will not, and those that are not there: rows E5 and E6.

use std::slice::from_ref;
use std::time::Duration;

use haul_lab::{
    DnsReply, DnsServer, HttpProxy, RequestMatcher, SilentListener, SocksProxy, SocksQuirk, faults,
};
use haul_tunnel::{ListenerKind, UpstreamOptions};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::harness::*;

/// Short enough to be waited for.
const SHORT: Duration = Duration::from_millis(400);

/// Where nobody listens.
fn nobody() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", socket.local_addr().unwrap())
}

#[tokio::test]
async fn e5_a_refusal_closes_the_client_is_told_in_the_log_and_the_next_one_tries_again() {
    let echo = ScriptedTarget::echo().await;
    for (status, words) in [
        (403, "refused with 403"),
        (404, "refused with 404"),
        (502, "cannot reach the target: 502"),
        (503, "cannot reach the target: 503"),
        (504, "cannot reach the target: 504"),
    ] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::first(1), faults::status(status))
            .rule(RequestMatcher::first(1), |_, reply| {
                reply.reason = Some("Blocked by the \"rules\"".into())
            })
            .start()
            .await;
        let stand = EngineFixture::to(target(echo.address), by_one(&proxy.url()));
        assert_eq!(heard(&mut stand.call().await).await, b"");
        let line = stand.lines.line(0).await;
        let known = [
            words,
            "Blocked by the",
            "\"unreached\"",
            &proxy.address().to_string(),
        ];
        assert!(known.iter().all(|words| line.contains(words)), "{line}");
        drop(stand.echoes().await);
        assert!(stand.lines.line(1).await.contains("\"closed\""));
    }
}

#[tokio::test]
async fn e5_squids_own_word_is_told_and_nothing_that_could_break_a_line() {
    let proxy = ScriptedTarget::doing(|mut stream, _| async move {
        head(&mut stream).await;
        let words = b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL \x1b[2J\x07 0\r\n\r\n";
        stream.write_all(words).await.unwrap();
        repeat(stream).await;
    })
    .await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.proxy()));
    is_gone(&mut stand.call().await).await;
    let line = stand.lines.line(0).await;
    assert!(
        line.contains("ERR_DNS_FAIL") && !line.contains(['\x1b', '\x07']),
        "{line:?}"
    );
}

#[tokio::test]
async fn e5_socks_refusals_are_told() {
    for (code, words) in [
        (2, "not allowed by its rules"),
        (4, "host unreachable"),
        (5, "connection refused"),
        (99, "unknown reply"),
    ] {
        let proxy = SocksProxy::builder()
            .quirk(SocksQuirk::RefuseWith(code))
            .start()
            .await;
        let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy.url("socks5h")));
        is_gone(&mut stand.call().await).await;
        let line = stand.lines.line(0).await;
        assert!(line.contains(words), "{line}");
    }
}

#[tokio::test]
async fn e6_a_proxy_that_is_down_is_told_at_once() {
    let stand = EngineFixture::to(target("far.test:22"), by_one(&nobody()));
    is_gone(&mut stand.call().await).await;
    let line = stand.lines.line(0).await;
    assert!(line.contains("cannot connect to the proxy"), "{line}");
}

/// Until the client is closed, and what the log says then.
async fn fails_in_time(upstream: UpstreamOptions) -> String {
    let stand = EngineFixture::to(
        target("far.test:22"),
        UpstreamOptions {
            connector: patient(SHORT),
            ..upstream
        },
    );
    let begun = Instant::now();
    is_gone(&mut stand.call().await).await;
    let passed = begun.elapsed();
    // Far above what a busy machine adds, and below twice any limit that is not kept.
    assert!(passed < SHORT + Duration::from_secs(4), "{passed:?}");
    stand.lines.line(0).await
}

#[tokio::test]
async fn e6_a_proxy_that_is_silent_is_given_up_in_time() {
    let silent = SilentListener::start().unwrap();
    let line = fails_in_time(by_one(&format!("http://{}", silent.address()))).await;
    assert!(line.contains("no connection to the proxy"), "{line}");
    let mute = SocksProxy::builder()
        .quirk(SocksQuirk::Silent)
        .start()
        .await;
    let line = fails_in_time(by_one(&mute.url("socks5h"))).await;
    assert!(
        line.contains("no connection to far.test:22 in time"),
        "{line}"
    );
    // It accepts, and never answers: by itself, within TLS, behind another, and before one.
    let mute = ScriptedTarget::doing(|stream, _| hold(stream)).await;
    let good = HttpProxy::builder().start().await;
    let silent = mute.proxy();
    for places in [
        &[&[silent.clone()][..]][..],
        &[&[silent.replace("http:", "https:")]],
        &[&[good.url()], from_ref(&silent)],
        &[from_ref(&silent), &[good.url()]],
        &[&[good.url()], &[silent.replace("http:", "https:")]],
        &[&[silent.clone(), silent.clone(), silent.clone()]],
    ] {
        fails_in_time(by(places)).await;
    }
}

/// Keeps a connection for as long as the peer does, without a word.
async fn hold(mut stream: tokio::net::TcpStream) {
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

/// The same for a request that is passed on, which goes no further than to the last proxy.
#[tokio::test]
async fn e6_a_request_is_not_held_by_proxies_that_are_silent() {
    let mute = ScriptedTarget::doing(|stream, _| hold(stream)).await;
    let (silent, behind) = (mute.proxy(), nobody());
    for places in [
        &[from_ref(&silent), from_ref(&behind)][..],
        &[
            &[silent.clone(), silent.clone(), silent.clone()],
            from_ref(&behind),
        ],
        &[&[silent.replace("http:", "https:")]],
    ] {
        let upstream = UpstreamOptions {
            connector: patient(SHORT),
            ..by(places)
        };
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        let mut client = stand.call().await;
        let begun = Instant::now();
        say(
            &mut client,
            b"GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\n\r\n",
        )
        .await;
        let answer = head(&mut client).await;
        assert!(begun.elapsed() < SHORT + Duration::from_secs(4));
        assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    }
}

#[tokio::test]
async fn e6_a_proxy_without_an_address_is_told() {
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let mut upstream = by_one("http://proxy.test:3128");
    upstream.connector.dns_servers = vec![names.address()];
    let stand = EngineFixture::to(target("far.test:22"), upstream);
    is_gone(&mut stand.call().await).await;
    let line = stand.lines.line(0).await;
    assert!(line.contains("no such host: proxy.test"), "{line}");
    let silent = DnsServer::start(|_| DnsReply::NoReply).await;
    let mut upstream = by_one("http://proxy.test:3128");
    upstream.connector = patient(SHORT);
    upstream.connector.dns_servers = vec![silent.address()];
    let stand = EngineFixture::to(target("far.test:22"), upstream);
    let begun = Instant::now();
    is_gone(&mut stand.call().await).await;
    assert!(begun.elapsed() < SHORT + Duration::from_secs(4));
}

#[tokio::test]
async fn e6_with_the_fallback_a_target_is_reached_straight_when_no_proxy_can_be() {
    let echo = ScriptedTarget::echo().await;
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let silent = SilentListener::start().unwrap();
    for proxy in [
        nobody(),
        "http://proxy.test:1".to_owned(),
        format!("http://{}", silent.address()),
    ] {
        let mut upstream = UpstreamOptions {
            direct_fallback: true,
            ..by_one(&proxy)
        };
        upstream.connector = patient(SHORT * 4);
        upstream.connector.dns_servers = vec![names.address()];
        let stand = EngineFixture::to(target(echo.address), upstream);
        drop(stand.echoes().await);
        let line = stand.lines.line(0).await;
        assert!(line.contains("\"via\":\"direct\""), "{line}");
    }
}

#[tokio::test]
async fn e6_the_fallback_is_no_way_around_a_proxy_that_is_there() {
    let echo = ScriptedTarget::echo().await;
    for status in [403, 407, 502, 503] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        let upstream = UpstreamOptions {
            direct_fallback: true,
            ..by_one(&proxy.url())
        };
        let stand = EngineFixture::to(target(echo.address), upstream);
        is_gone(&mut stand.call().await).await;
        assert!(
            stand.lines.line(0).await.contains("\"unreached\""),
            "{status}"
        );
    }
    assert_eq!(echo.accepted(), 0);
}

#[tokio::test]
async fn e6_alternatives_are_tried_in_turn_and_the_one_that_worked_is_kept() {
    let echo = ScriptedTarget::echo().await;
    // It is no proxy: it hangs up on whoever comes.
    let broken = ScriptedTarget::doing(|_, _| async {}).await;
    let good = HttpProxy::builder().start().await;
    let upstream = by(&[&[nobody(), broken.proxy(), good.url()]]);
    let stand = EngineFixture::to(target(echo.address), upstream);
    for n in 0..5 {
        drop(stand.echoes().await);
        let line = stand.lines.line(n).await;
        assert!(
            line.contains(&format!("\"via\":\"{}\"", good.address())),
            "{line}"
        );
    }
    assert_eq!((broken.accepted(), good.requests().len()), (1, 5));
    assert_eq!(stand.lines.count(), 5);
}

#[tokio::test]
async fn e6_a_proxy_that_refuses_by_its_rules_is_not_gone_around() {
    let echo = ScriptedTarget::echo().await;
    let strict = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(403))
        .start()
        .await;
    let good = HttpProxy::builder().start().await;
    let stand = EngineFixture::to(target(echo.address), by(&[&[strict.url(), good.url()]]));
    is_gone(&mut stand.call().await).await;
    assert!(good.requests().is_empty());
    // One that cannot reach it may have a neighbour who can.
    let cut_off = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(502))
        .start()
        .await;
    let stand = EngineFixture::to(target(echo.address), by(&[&[cut_off.url(), good.url()]]));
    stand.echoes().await;
}

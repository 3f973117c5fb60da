//! Proxies that refuse, and proxies that cannot be reached: rows E5 and E6.

use std::slice::from_ref;
use std::time::Duration;

use haul_lab::{
    DnsReply, DnsServer, HttpProxy, RequestMatcher, SilentListener, SocksProxy, SocksQuirk, faults,
};
use haul_tunnel::{ListenerKind, UpstreamOptions};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::harness::*;

/// A timeout that a test can wait for.
const SHORT: Duration = Duration::from_millis(400);

/// The URL of a proxy where nothing listens.
fn closed_port() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", socket.local_addr().unwrap())
}

#[tokio::test]
async fn e5_a_refusal_closes_the_client_and_is_logged_and_the_next_client_tries_again() {
    let echo = ScriptedTarget::echo().await;
    for (status, message) in [
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
        let fixture = EngineFixture::forward(target(echo.address), through(&proxy.url()));
        assert_eq!(read_to_end(&mut fixture.connect().await).await, b"");
        let line = fixture.log.line(0).await;
        let expected = [
            message,
            "Blocked by the",
            "\"unreached\"",
            &proxy.address().to_string(),
        ];
        assert!(expected.iter().all(|text| line.contains(text)), "{line}");
        drop(fixture.echo().await);
        assert!(fixture.log.line(1).await.contains("\"closed\""));
    }
}

#[tokio::test]
async fn e5_squids_own_reason_is_logged_and_no_control_character_of_it() {
    let proxy = ScriptedTarget::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL \x1b[2J\x07 0\r\n\r\n";
        stream.write_all(response).await.unwrap();
        echo_all(stream).await;
    })
    .await;
    let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.proxy_url()));
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("ERR_DNS_FAIL") && !line.contains(['\x1b', '\x07']),
        "{line:?}"
    );
}

#[tokio::test]
async fn e5_socks_refusals_are_logged() {
    for (code, message) in [
        (2, "not allowed by its rules"),
        (4, "host unreachable"),
        (5, "connection refused"),
        (99, "unknown reply"),
    ] {
        let proxy = SocksProxy::builder()
            .quirk(SocksQuirk::RefuseWith(code))
            .start()
            .await;
        let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy.url("socks5h")));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(line.contains(message), "{line}");
    }
}

#[tokio::test]
async fn e6_a_proxy_that_is_down_is_logged_at_once() {
    let fixture = EngineFixture::forward(target("far.test:22"), through(&closed_port()));
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(line.contains("cannot connect to the proxy"), "{line}");
}

/// Waits until the client is closed, and returns the line of the log.
async fn fails_in_time(upstream: UpstreamOptions) -> String {
    let fixture = EngineFixture::forward(
        target("far.test:22"),
        UpstreamOptions {
            connector: connect_timeout(SHORT),
            ..upstream
        },
    );
    let begun = Instant::now();
    assert_closed(&mut fixture.connect().await).await;
    let elapsed = begun.elapsed();
    // More than a busy machine adds, and less than a timeout that is not kept.
    assert!(elapsed < SHORT + Duration::from_secs(4), "{elapsed:?}");
    fixture.log.line(0).await
}

#[tokio::test]
async fn e6_a_proxy_that_is_silent_is_given_up_in_time() {
    let silent = SilentListener::start().unwrap();
    let line = fails_in_time(through(&format!("http://{}", silent.address()))).await;
    assert!(line.contains("no connection to the proxy"), "{line}");
    let mute = SocksProxy::builder()
        .quirk(SocksQuirk::Silent)
        .start()
        .await;
    let line = fails_in_time(through(&mute.url("socks5h"))).await;
    assert!(
        line.contains("no connection to far.test:22 in time"),
        "{line}"
    );
    // A proxy that accepts and never responds: alone, within TLS, behind another proxy, and before one.
    let mute = ScriptedTarget::new(|stream, _| hold(stream)).await;
    let good = HttpProxy::builder().start().await;
    let silent = mute.proxy_url();
    for places in [
        &[&[silent.clone()][..]][..],
        &[&[silent.replace("http:", "https:")]],
        &[&[good.url()], from_ref(&silent)],
        &[from_ref(&silent), &[good.url()]],
        &[&[good.url()], &[silent.replace("http:", "https:")]],
        &[&[silent.clone(), silent.clone(), silent.clone()]],
    ] {
        fails_in_time(chain(places)).await;
    }
}

/// Keeps a connection for as long as the peer does, and sends nothing.
async fn hold(mut stream: tokio::net::TcpStream) {
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

/// The same for a request in absolute-form, which goes to the last proxy and no further.
#[tokio::test]
async fn e6_a_request_is_not_held_by_proxies_that_are_silent() {
    let mute = ScriptedTarget::new(|stream, _| hold(stream)).await;
    let (silent, behind) = (mute.proxy_url(), closed_port());
    for places in [
        &[from_ref(&silent), from_ref(&behind)][..],
        &[
            &[silent.clone(), silent.clone(), silent.clone()],
            from_ref(&behind),
        ],
        &[&[silent.replace("http:", "https:")]],
    ] {
        let upstream = UpstreamOptions {
            connector: connect_timeout(SHORT),
            ..chain(places)
        };
        let fixture = EngineFixture::with_kind(ListenerKind::Http, upstream);
        let mut client = fixture.connect().await;
        let begun = Instant::now();
        send(
            &mut client,
            b"GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\n\r\n",
        )
        .await;
        let response = read_head(&mut client).await;
        assert!(begun.elapsed() < SHORT + Duration::from_secs(4));
        assert!(response.starts_with("HTTP/1.1 50"), "{response}");
    }
}

#[tokio::test]
async fn e6_a_proxy_whose_name_does_not_resolve_is_logged() {
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let mut upstream = through("http://proxy.test:3128");
    upstream.connector.dns_servers = vec![names.address()];
    let fixture = EngineFixture::forward(target("far.test:22"), upstream);
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(line.contains("no such host: proxy.test"), "{line}");
    let silent = DnsServer::start(|_| DnsReply::NoReply).await;
    let mut upstream = through("http://proxy.test:3128");
    upstream.connector = connect_timeout(SHORT);
    upstream.connector.dns_servers = vec![silent.address()];
    let fixture = EngineFixture::forward(target("far.test:22"), upstream);
    let begun = Instant::now();
    assert_closed(&mut fixture.connect().await).await;
    assert!(begun.elapsed() < SHORT + Duration::from_secs(4));
}

#[tokio::test]
async fn e6_with_the_fallback_a_target_is_reached_directly_when_no_proxy_can_be() {
    let echo = ScriptedTarget::echo().await;
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let silent = SilentListener::start().unwrap();
    for proxy in [
        closed_port(),
        "http://proxy.test:1".to_owned(),
        format!("http://{}", silent.address()),
    ] {
        let mut upstream = UpstreamOptions {
            direct_fallback: true,
            ..through(&proxy)
        };
        upstream.connector = connect_timeout(SHORT * 4);
        upstream.connector.dns_servers = vec![names.address()];
        let fixture = EngineFixture::forward(target(echo.address), upstream);
        drop(fixture.echo().await);
        let line = fixture.log.line(0).await;
        assert!(line.contains("\"via\":\"direct\""), "{line}");
    }
}

#[tokio::test]
async fn e6_the_fallback_does_not_go_around_a_proxy_that_responds() {
    let echo = ScriptedTarget::echo().await;
    for status in [403, 407, 502, 503] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        let upstream = UpstreamOptions {
            direct_fallback: true,
            ..through(&proxy.url())
        };
        let fixture = EngineFixture::forward(target(echo.address), upstream);
        assert_closed(&mut fixture.connect().await).await;
        assert!(
            fixture.log.line(0).await.contains("\"unreached\""),
            "{status}"
        );
    }
    assert_eq!(echo.accepted(), 0);
}

#[tokio::test]
async fn e6_alternatives_are_tried_in_turn_and_the_one_that_worked_is_kept() {
    let echo = ScriptedTarget::echo().await;
    // It is no proxy: it closes every connection.
    let broken = ScriptedTarget::new(|_, _| async {}).await;
    let good = HttpProxy::builder().start().await;
    let upstream = chain(&[&[closed_port(), broken.proxy_url(), good.url()]]);
    let fixture = EngineFixture::forward(target(echo.address), upstream);
    for n in 0..5 {
        drop(fixture.echo().await);
        let line = fixture.log.line(n).await;
        assert!(
            line.contains(&format!("\"via\":\"{}\"", good.address())),
            "{line}"
        );
    }
    assert_eq!((broken.accepted(), good.requests().len()), (1, 5));
    assert_eq!(fixture.log.count(), 5);
}

#[tokio::test]
async fn e6_a_proxy_that_refuses_by_its_rules_is_not_gone_around() {
    let echo = ScriptedTarget::echo().await;
    let strict = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(403))
        .start()
        .await;
    let good = HttpProxy::builder().start().await;
    let fixture =
        EngineFixture::forward(target(echo.address), chain(&[&[strict.url(), good.url()]]));
    assert_closed(&mut fixture.connect().await).await;
    assert!(good.requests().is_empty());
    // When a proxy cannot reach the target, another may.
    let cut_off = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(502))
        .start()
        .await;
    let fixture =
        EngineFixture::forward(target(echo.address), chain(&[&[cut_off.url(), good.url()]]));
    fixture.echo().await;
}

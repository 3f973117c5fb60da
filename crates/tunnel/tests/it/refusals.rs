//! Rows E5 and E6: proxies that refuse, and proxies that cannot be reached.

use std::slice::from_ref;
use std::time::Duration;

use haul_lab::{
    DnsReply, DnsServer, HttpProxy, RequestMatcher, SilentListener, SocksProxy, SocksQuirk, faults,
};
use haul_tunnel::{ListenerKind, UpstreamOptions};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::harness::*;

/// A timeout short enough to wait for in a test.
const SHORT: Duration = Duration::from_millis(400);

/// The URL of a proxy where nothing listens.
fn closed_port() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", socket.local_addr().unwrap())
}

#[tokio::test]
async fn e5_a_refusal_closes_the_client_and_is_logged_and_the_proxy_is_used_again() {
    let echo = ScriptedServer::echo().await;
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
        let fixture = EngineFixture::forward(target(echo.address), through_proxy(&proxy.url()));
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
async fn e5_the_x_squid_error_header_is_logged_without_control_characters() {
    let proxy = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL \x1b[2J\x07 0\r\n\r\n";
        stream.write_all(response).await.unwrap();
        echo_all(stream).await;
    })
    .await;
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
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
        let fixture =
            EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.url("socks5h")));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(line.contains(message), "{line}");
    }
}

#[tokio::test]
async fn e6_a_proxy_that_is_down_is_logged_at_once() {
    let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&closed_port()));
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(line.contains("cannot connect to the proxy"), "{line}");
}

/// Asserts that a client is closed within the timeout. Returns the log line.
async fn assert_times_out(upstream: UpstreamOptions) -> String {
    let fixture = EngineFixture::forward(
        target("far.test:22"),
        UpstreamOptions {
            connector: connect_timeout(SHORT),
            ..upstream
        },
    );
    let started = Instant::now();
    assert_closed(&mut fixture.connect().await).await;
    let elapsed = started.elapsed();
    // Enough for a busy machine, and less than the time without a timeout.
    assert!(elapsed < SHORT + Duration::from_secs(4), "{elapsed:?}");
    fixture.log.line(0).await
}

#[tokio::test]
async fn e6_a_silent_proxy_causes_a_connect_timeout() {
    let silent = SilentListener::start().unwrap();
    let line = assert_times_out(through_proxy(&format!("http://{}", silent.address()))).await;
    assert!(line.contains("no connection to the proxy"), "{line}");
    let unresponsive = SocksProxy::builder()
        .quirk(SocksQuirk::Silent)
        .start()
        .await;
    let line = assert_times_out(through_proxy(&unresponsive.url("socks5h"))).await;
    assert!(
        line.contains("no connection to far.test:22 in time"),
        "{line}"
    );
    // A proxy that accepts and never responds: alone, over TLS, after another proxy, and before one.
    let unresponsive = ScriptedServer::new(|stream, _| read_silently(stream)).await;
    let working = HttpProxy::builder().start().await;
    let silent = unresponsive.proxy_url();
    for hops in [
        &[&[silent.clone()][..]][..],
        &[&[silent.replace("http:", "https:")]],
        &[&[working.url()], from_ref(&silent)],
        &[from_ref(&silent), &[working.url()]],
        &[&[working.url()], &[silent.replace("http:", "https:")]],
        &[&[silent.clone(), silent.clone(), silent.clone()]],
    ] {
        assert_times_out(proxy_chain(hops)).await;
    }
}

/// Reads until the peer closes, and sends nothing.
async fn read_silently(mut stream: tokio::net::TcpStream) {
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

/// The same for an absolute-form request, which is sent to the last proxy of the chain.
#[tokio::test]
async fn e6_an_absolute_form_request_to_silent_proxies_times_out() {
    let unresponsive = ScriptedServer::new(|stream, _| read_silently(stream)).await;
    let (silent, closed) = (unresponsive.proxy_url(), closed_port());
    for hops in [
        &[from_ref(&silent), from_ref(&closed)][..],
        &[
            &[silent.clone(), silent.clone(), silent.clone()],
            from_ref(&closed),
        ],
        &[&[silent.replace("http:", "https:")]],
    ] {
        let upstream = UpstreamOptions {
            connector: connect_timeout(SHORT),
            ..proxy_chain(hops)
        };
        let fixture = EngineFixture::with_kind(ListenerKind::Http, upstream);
        let mut client = fixture.connect().await;
        let started = Instant::now();
        send(
            &mut client,
            b"GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\n\r\n",
        )
        .await;
        let response = read_head(&mut client).await;
        assert!(started.elapsed() < SHORT + Duration::from_secs(4));
        assert!(response.starts_with("HTTP/1.1 50"), "{response}");
    }
}

#[tokio::test]
async fn e6_a_proxy_whose_name_does_not_resolve_is_logged() {
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let mut upstream = through_proxy("http://proxy.test:3128");
    upstream.connector.dns_servers = vec![names.address()];
    let fixture = EngineFixture::forward(target("far.test:22"), upstream);
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(line.contains("no such host: proxy.test"), "{line}");
    let silent = DnsServer::start(|_| DnsReply::NoReply).await;
    let mut upstream = through_proxy("http://proxy.test:3128");
    upstream.connector = connect_timeout(SHORT);
    upstream.connector.dns_servers = vec![silent.address()];
    let fixture = EngineFixture::forward(target("far.test:22"), upstream);
    let started = Instant::now();
    assert_closed(&mut fixture.connect().await).await;
    assert!(started.elapsed() < SHORT + Duration::from_secs(4));
}

#[tokio::test]
async fn e6_with_direct_fallback_a_target_is_reached_directly_if_no_proxy_is_reachable() {
    let echo = ScriptedServer::echo().await;
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let silent = SilentListener::start().unwrap();
    for proxy in [
        closed_port(),
        "http://proxy.test:1".to_owned(),
        format!("http://{}", silent.address()),
    ] {
        let mut upstream = UpstreamOptions {
            direct_fallback: true,
            ..through_proxy(&proxy)
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
async fn e6_direct_fallback_is_not_used_if_a_proxy_responds_with_an_error() {
    let echo = ScriptedServer::echo().await;
    for status in [403, 407, 502, 503] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        let upstream = UpstreamOptions {
            direct_fallback: true,
            ..through_proxy(&proxy.url())
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
async fn e6_alternative_proxies_are_tried_in_turn_and_the_working_one_is_kept() {
    let echo = ScriptedServer::echo().await;
    // A server that closes every connection.
    let broken = ScriptedServer::new(|_, _| async {}).await;
    let working = HttpProxy::builder().start().await;
    let upstream = proxy_chain(&[&[closed_port(), broken.proxy_url(), working.url()]]);
    let fixture = EngineFixture::forward(target(echo.address), upstream);
    for n in 0..5 {
        drop(fixture.echo().await);
        let line = fixture.log.line(n).await;
        assert!(
            line.contains(&format!("\"via\":\"{}\"", working.address())),
            "{line}"
        );
    }
    assert_eq!((broken.accepted(), working.requests().len()), (1, 5));
    assert_eq!(fixture.log.count(), 5);
}

#[tokio::test]
async fn e6_an_alternative_is_tried_after_a_502_and_not_after_a_403() {
    let echo = ScriptedServer::echo().await;
    let strict = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(403))
        .start()
        .await;
    let working = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        proxy_chain(&[&[strict.url(), working.url()]]),
    );
    assert_closed(&mut fixture.connect().await).await;
    assert!(working.requests().is_empty());
    // If a proxy cannot reach the target, another may.
    let cut_off = HttpProxy::builder()
        .rule(RequestMatcher::always(), faults::status(502))
        .start()
        .await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        proxy_chain(&[&[cut_off.url(), working.url()]]),
    );
    fixture.echo().await;
}

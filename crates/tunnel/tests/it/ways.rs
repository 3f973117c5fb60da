//! Which way a target is reached by, and what each proxy on it is told: row E12, chains, alternatives.

use haul_lab::{DnsReply, DnsServer, HttpProxy, SocksProxy, SocksTarget};
use haul_net::NoProxy;
use haul_tunnel::UpstreamOptions;

use crate::harness::*;

#[tokio::test]
async fn e12_an_ipv6_address_is_written_in_brackets() {
    let echo = ScriptedTarget::at("[::1]:0", |stream, _| repeat(stream))
        .await
        .unwrap();
    let proxy = HttpProxy::builder().start().await;
    let stand = EngineFixture::to(target(echo.address), by_one(&proxy.url()));
    stand.echoes().await;
    let asked = &proxy.requests()[0];
    let written = format!("[::1]:{}", echo.address.port());
    assert_eq!(
        (asked.target.as_str(), asked.header("host")),
        (written.as_str(), Some(written.as_str()))
    );
    assert_eq!(
        stand.status().connections[0].target.as_deref(),
        Some(written.as_str())
    );
    let socks = SocksProxy::builder().start().await;
    for scheme in ["socks5", "socks5h"] {
        EngineFixture::to(target(echo.address), by_one(&socks.url(scheme)))
            .echoes()
            .await;
        let asked = socks.requests().pop().unwrap().target;
        assert!(
            matches!(asked, Some(SocksTarget::Ip(ip, _)) if ip.is_ipv6()),
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn e12_names_are_the_proxys_affair() {
    let echo = ScriptedTarget::echo().await;
    let names = DnsServer::start(|_| DnsReply::Addresses(vec![[127, 0, 0, 1].into()], 60)).await;
    let port = echo.address.port();
    let far = format!("far.test:{port}");
    let http = HttpProxy::builder().route(&far, echo.address).start().await;
    let socks = SocksProxy::builder()
        .route(&far, echo.address)
        .start()
        .await;
    let by_name = [
        by_one(&http.url()),
        by_one(&socks.url("socks5h")),
        by(&[&[http.url()], &[socks.url("socks5h")]]),
        UpstreamOptions {
            direct_fallback: true,
            ..by_one(&http.url())
        },
        // Looked at as a name, and not by its address.
        UpstreamOptions {
            no_proxy: NoProxy::parse("127.0.0.0/8"),
            ..by_one(&http.url())
        },
    ];
    for mut upstream in by_name {
        upstream.connector.dns_servers = vec![names.address()];
        EngineFixture::to(target(&far), upstream).echoes().await;
    }
    assert!(
        names.queried_names().is_empty(),
        "{:?}",
        names.queried_names()
    );
    // This one is asked for an address.
    let mut upstream = by_one(&socks.url("socks5"));
    upstream.connector.dns_servers = vec![names.address()];
    EngineFixture::to(target(&far), upstream).echoes().await;
    assert!(!names.queried_names().is_empty());
}

#[tokio::test]
async fn e12_what_needs_no_proxy_is_reached_straight() {
    let echo = ScriptedTarget::echo().await;
    let names = DnsServer::start(|_| DnsReply::Addresses(vec![[127, 0, 0, 1].into()], 60)).await;
    let proxy = HttpProxy::builder().start().await;
    for (rule, host) in [
        ("127.0.0.1", "127.0.0.1"),
        (".test", "far.test"),
        ("*", "far.test"),
        ("127.0.0.0/8", "127.0.0.1"),
    ] {
        let mut upstream = UpstreamOptions {
            no_proxy: NoProxy::parse(rule),
            ..by_one(&proxy.url())
        };
        upstream.connector.dns_servers = vec![names.address()];
        let stand = EngineFixture::to(target(format!("{host}:{}", echo.address.port())), upstream);
        drop(stand.echoes().await);
        assert!(stand.lines.line(0).await.contains("\"via\":\"direct\""));
    }
    assert!(proxy.requests().is_empty());
}

#[tokio::test]
async fn a_proxy_of_a_chain_that_cannot_be_reached_is_named() {
    let first = HttpProxy::builder().start().await;
    let chain = [&[first.url()][..], &["http://127.0.0.1:1".to_owned()]];
    let stand = EngineFixture::to(target("far.test:22"), by(&chain));
    let mut client = stand.call().await;
    assert_eq!(heard(&mut client).await, b"");
    let line = stand.lines.line(0).await;
    assert!(
        line.contains("cannot reach the next proxy 127.0.0.1:1"),
        "{line}"
    );
}

#[tokio::test]
async fn each_proxy_of_a_chain_is_asked_for_the_next_and_has_its_own_login() {
    use haul_lab::faults::RequiredLogin;
    let echo = ScriptedTarget::echo().await;
    let login = |url: String, who: &str| url.replacen("://", &format!("://{who}:{PASSWORD}@"), 1);
    let first = HttpProxy::builder()
        .require_login(RequiredLogin::digest("one", PASSWORD))
        .start()
        .await;
    let last = HttpProxy::builder()
        .require_login(RequiredLogin::basic("two", PASSWORD))
        .start()
        .await;
    let socks = SocksProxy::builder()
        .require_login("three", PASSWORD)
        .start()
        .await;
    let socks_url = |scheme: &str| login(socks.url(scheme), "three");
    for chain in [
        &[
            &[login(first.url(), "one")][..],
            &[login(last.url(), "two")],
        ][..],
        &[&[login(first.url(), "one")], &[socks_url("socks5h")]],
        &[&[socks_url("socks5")], &[login(last.url(), "two")]],
        &[
            &[socks_url("socks5h")],
            &[login(first.url(), "one")],
            &[login(last.url(), "two")],
        ],
    ] {
        let stand = EngineFixture::to(target(echo.address), by(chain));
        drop(stand.echoes().await);
        let line = stand.lines.line(0).await;
        assert!(
            line.contains(" > ") && line.contains("\"closed\""),
            "{line}"
        );
        drop(stand.echoes().await);
    }
    assert!(
        first
            .requests()
            .iter()
            .any(|asked| asked.target == last.address().to_string())
    );
    assert!(
        first
            .requests()
            .iter()
            .any(|asked| asked.target == socks.address().to_string())
    );
    assert!(
        last.requests()
            .iter()
            .all(|asked| asked.target == echo.address.to_string())
    );
    let leaked = |asked: &haul_lab::RecordedRequest, who: &str| {
        let shown = asked.header("proxy-authorization").unwrap_or_default();
        shown.starts_with("Digest") && !shown.contains(who)
    };
    assert!(!first.requests().iter().any(|asked| leaked(asked, "one")));
}

#[tokio::test]
async fn header_fields_go_to_the_proxy_that_they_are_for() {
    let echo = ScriptedTarget::echo().await;
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let mut upstream = by(&[&[first.url()], &[last.url()]]);
    upstream.proxies[0][0]
        .headers
        .insert("x-first", "1".parse().unwrap());
    upstream.proxies[1][0]
        .headers
        .append("x-last", "2".parse().unwrap());
    upstream.proxies[1][0]
        .headers
        .append("x-last", "3".parse().unwrap());
    EngineFixture::to(target(echo.address), upstream)
        .echoes()
        .await;
    let (first, last) = (first.requests(), last.requests());
    assert_eq!(
        (first[0].header("x-first"), first[0].header("x-last")),
        (Some("1"), None)
    );
    let values: Vec<&str> = last[0]
        .headers
        .iter()
        .filter(|(name, _)| name == "x-last")
        .map(|(_, v)| v.as_str())
        .collect();
    assert_eq!((values, last[0].header("x-first")), (vec!["2", "3"], None));
}

#[tokio::test]
async fn alternatives_of_several_places_are_tried_each_with_each() {
    let echo = ScriptedTarget::echo().await;
    let broken = ScriptedTarget::doing(|_, _| async {}).await;
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let upstream = by(&[
        &[broken.proxy(), first.url()],
        &[broken.proxy(), last.url()],
    ]);
    let stand = EngineFixture::to(target(echo.address), upstream);
    for n in 0..3 {
        drop(stand.echoes().await);
        let line = stand.lines.line(n).await;
        assert!(
            line.contains(&format!("{} > {}", first.address(), last.address())),
            "{line}"
        );
    }
    assert_eq!(last.requests().len(), 3);
}

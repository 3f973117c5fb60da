//! Row E12: name resolution, `no_proxy`, chains of proxies and alternative proxies.

use haul_lab::{DnsReply, DnsServer, HttpProxy, SocksProxy, SocksTarget};
use haul_net::NoProxy;
use haul_tunnel::UpstreamOptions;

use crate::harness::*;

#[tokio::test]
async fn e12_an_ipv6_address_is_written_in_brackets() {
    let echo = ScriptedServer::at("[::1]:0", |stream, _| echo_all(stream))
        .await
        .unwrap();
    let proxy = HttpProxy::builder().start().await;
    let fixture = EngineFixture::forward(target(echo.address), through_proxy(&proxy.url()));
    fixture.echo().await;
    let request = &proxy.requests()[0];
    let authority = format!("[::1]:{}", echo.address.port());
    assert_eq!(
        (request.target.as_str(), request.header("host")),
        (authority.as_str(), Some(authority.as_str()))
    );
    assert_eq!(
        fixture.status().connections[0].target.as_deref(),
        Some(authority.as_str())
    );
    let socks = SocksProxy::builder().start().await;
    for scheme in ["socks5", "socks5h"] {
        EngineFixture::forward(target(echo.address), through_proxy(&socks.url(scheme)))
            .echo()
            .await;
        let request = socks.requests().pop().unwrap().target;
        assert!(
            matches!(request, Some(SocksTarget::Ip(ip, _)) if ip.is_ipv6()),
            "{request:?}"
        );
    }
}

#[tokio::test]
async fn e12_names_are_resolved_by_the_proxy() {
    let echo = ScriptedServer::echo().await;
    let names = DnsServer::start(|_| DnsReply::Addresses(vec![[127, 0, 0, 1].into()], 60)).await;
    let port = echo.address.port();
    let far = format!("far.test:{port}");
    let http = HttpProxy::builder().route(&far, echo.address).start().await;
    let socks = SocksProxy::builder()
        .route(&far, echo.address)
        .start()
        .await;
    let by_name = [
        through_proxy(&http.url()),
        through_proxy(&socks.url("socks5h")),
        proxy_chain(&[&[http.url()], &[socks.url("socks5h")]]),
        UpstreamOptions {
            direct_fallback: true,
            ..through_proxy(&http.url())
        },
        // `no_proxy` is compared with the name and not with its address.
        UpstreamOptions {
            no_proxy: NoProxy::parse("127.0.0.0/8"),
            ..through_proxy(&http.url())
        },
    ];
    for mut upstream in by_name {
        upstream.connector.dns_servers = vec![names.address()];
        EngineFixture::forward(target(&far), upstream).echo().await;
    }
    assert!(
        names.queried_names().is_empty(),
        "{:?}",
        names.queried_names()
    );
    // With the scheme `socks5`, haul resolves the name.
    let mut upstream = through_proxy(&socks.url("socks5"));
    upstream.connector.dns_servers = vec![names.address()];
    EngineFixture::forward(target(&far), upstream).echo().await;
    assert!(!names.queried_names().is_empty());
}

#[tokio::test]
async fn e12_targets_of_no_proxy_are_reached_directly() {
    let echo = ScriptedServer::echo().await;
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
            ..through_proxy(&proxy.url())
        };
        upstream.connector.dns_servers = vec![names.address()];
        let fixture =
            EngineFixture::forward(target(format!("{host}:{}", echo.address.port())), upstream);
        drop(fixture.echo().await);
        assert!(fixture.log.line(0).await.contains("\"via\":\"direct\""));
    }
    assert!(proxy.requests().is_empty());
}

#[tokio::test]
async fn an_unreachable_proxy_of_a_chain_is_named_in_the_log() {
    let first = HttpProxy::builder().start().await;
    let hops = [&[first.url()][..], &["http://127.0.0.1:1".to_owned()]];
    let fixture = EngineFixture::forward(target("far.test:22"), proxy_chain(&hops));
    let mut client = fixture.connect().await;
    assert_eq!(read_to_end(&mut client).await, b"");
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("cannot reach the next proxy 127.0.0.1:1"),
        "{line}"
    );
}

#[tokio::test]
async fn each_proxy_of_a_chain_connects_to_the_next_with_its_own_login() {
    use haul_lab::faults::RequiredLogin;
    let echo = ScriptedServer::echo().await;
    let login = |url: String, user: &str| url.replacen("://", &format!("://{user}:{PASSWORD}@"), 1);
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
    for hops in [
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
        let fixture = EngineFixture::forward(target(echo.address), proxy_chain(hops));
        drop(fixture.echo().await);
        let line = fixture.log.line(0).await;
        assert!(
            line.contains(" > ") && line.contains("\"closed\""),
            "{line}"
        );
        drop(fixture.echo().await);
    }
    let got_request_for = |proxy: &HttpProxy, target: String| {
        let requests = proxy.requests();
        requests.iter().any(|request| request.target == target)
    };
    assert!(got_request_for(&first, last.address().to_string()));
    assert!(got_request_for(&first, socks.address().to_string()));
    let target = echo.address.to_string();
    assert!(
        last.requests()
            .iter()
            .all(|request| request.target == target)
    );
    // The first proxy got only its own login.
    for request in first.requests() {
        let login = request.header("proxy-authorization").unwrap_or_default();
        assert!(
            !login.starts_with("Digest") || login.contains("one"),
            "{login}"
        );
    }
}

#[tokio::test]
async fn proxy_headers_are_sent_to_their_proxy_only() {
    let echo = ScriptedServer::echo().await;
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let mut upstream = proxy_chain(&[&[first.url()], &[last.url()]]);
    upstream.proxies[0][0]
        .headers
        .insert("x-first", "1".parse().unwrap());
    upstream.proxies[1][0]
        .headers
        .append("x-last", "2".parse().unwrap());
    upstream.proxies[1][0]
        .headers
        .append("x-last", "3".parse().unwrap());
    EngineFixture::forward(target(echo.address), upstream)
        .echo()
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
async fn alternatives_of_several_hops_are_tried_in_every_combination() {
    let echo = ScriptedServer::echo().await;
    let broken = ScriptedServer::new(|_, _| async {}).await;
    let (first, last) = (
        HttpProxy::builder().start().await,
        HttpProxy::builder().start().await,
    );
    let upstream = proxy_chain(&[
        &[broken.proxy_url(), first.url()],
        &[broken.proxy_url(), last.url()],
    ]);
    let fixture = EngineFixture::forward(target(echo.address), upstream);
    for n in 0..3 {
        drop(fixture.echo().await);
        let line = fixture.log.line(n).await;
        assert!(
            line.contains(&format!("{} > {}", first.address(), last.address())),
            "{line}"
        );
    }
    assert_eq!(last.requests().len(), 3);
}

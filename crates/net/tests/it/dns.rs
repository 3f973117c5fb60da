//! Name lookups, with a scripted name server.

use std::time::Duration;

use futures_util::future::join_all;
use haul_lab::{DnsReply, DnsServer, Origin, OriginResource, ResourceContent};
use haul_net::{Client, ClientConfig, ConnectorConfig, Kind};

use crate::{body, client, get};

/// Starts a scripted name server, and builds a client that uses it.
async fn client_with_dns(
    script: impl Fn(&str) -> DnsReply + Send + 'static,
) -> (DnsServer, Client) {
    let server = DnsServer::start(script).await;
    let connector = ConnectorConfig {
        connect_timeout: Duration::from_secs(1),
        dns_servers: vec![server.address()],
        ..ConnectorConfig::default()
    };
    let client = client(ClientConfig {
        connector,
        ..ClientConfig::default()
    });
    (server, client)
}

fn resolve_to_loopback(_: &str) -> DnsReply {
    DnsReply::Addresses(vec![[127, 0, 0, 1].into()], 60)
}

/// Starts an origin. The closure returns its URL with any host name.
async fn origin_by_name() -> (Origin, impl Fn(&str) -> String) {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(ResourceContent::random(1, 1_000)))
        .start()
        .await;
    let port = origin.address().port();
    (origin, move |name: &str| format!("http://{name}:{port}/f"))
}

#[tokio::test]
async fn each_name_is_looked_up_once_and_many_names_in_parallel() {
    let (server, client) = client_with_dns(resolve_to_loopback).await;
    let (origin, url) = origin_by_name().await;
    let urls: Vec<String> = (0..300)
        .map(|n| url(&format!("h{}.test", n % 100)))
        .collect();
    for response in join_all(urls.iter().map(|url| get(&client, url))).await {
        assert_eq!(body(response.unwrap()).await.unwrap().len(), 1_000);
    }
    let mut names = server.queried_names();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), server.queried_names().len()), (100, 100));
    assert_eq!(origin.requests().len(), 300);
}

#[tokio::test]
async fn both_address_families_are_looked_up_and_dead_addresses_are_skipped() {
    let (_server, client) = client_with_dns(|_| {
        let unreachable = "fd00::dead".parse().unwrap();
        DnsReply::Addresses(vec![unreachable, [127, 0, 0, 1].into()], 60)
    })
    .await;
    let (_origin, url) = origin_by_name().await;
    let response = get(&client, &url("a.test")).await.unwrap();
    assert!(response.peer.unwrap().is_ipv4());
}

#[tokio::test]
async fn b8_nxdomain_is_cached_and_a_server_failure_is_not() {
    let (server, client) = client_with_dns(|name| match name {
        "none.test" => DnsReply::NxDomain,
        "empty.test" => DnsReply::Addresses(Vec::new(), 60),
        _ => DnsReply::ServFail,
    })
    .await;
    for (name, transient) in [
        ("none.test", false),
        ("empty.test", false),
        ("bad.test", true),
    ] {
        let url = format!("http://{name}/f");
        let error = get(&client, &url).await.unwrap_err();
        let expected = if transient {
            Kind::Resolve(name.into())
        } else {
            Kind::NoSuchHost(name.into())
        };
        assert_eq!((error.kind(), error.is_transient()), (&expected, transient));
        let request_count = server.queried_names().len();
        get(&client, &url).await.unwrap_err();
        assert_eq!(
            server.queried_names().len(),
            request_count,
            "failed lookups are cached for a moment"
        );
    }
}

#[tokio::test]
async fn b8_a_silent_name_server_takes_no_longer_than_the_connect_timeout() {
    let (_server, client) = client_with_dns(|name| match name {
        "silent.test" => DnsReply::NoReply,
        _ => resolve_to_loopback(name),
    })
    .await;
    let (_origin, url) = origin_by_name().await;
    let silent = url("silent.test");
    let other = url("a.test");
    // The silent lookup does not delay the other one.
    let (silent, other) = tokio::join!(get(&client, &silent), get(&client, &other));
    assert_eq!(other.unwrap().status, 200);
    let error = silent.unwrap_err();
    assert_eq!(*error.kind(), Kind::Resolve("silent.test".into()));
    assert!(error.is_transient());
}

#[tokio::test]
async fn b8_hanging_lookups_do_not_use_up_the_timeout_of_queued_ones() {
    let (_server, client) = client_with_dns(|name| match name {
        "good.test" => resolve_to_loopback(name),
        _ => DnsReply::NoReply,
    })
    .await;
    let (_origin, url) = origin_by_name().await;
    // Twice the number of parallel lookups: the last name is looked up when a whole connect timeout is over.
    let silent: Vec<String> = (0..128).map(|n| url(&format!("h{n}.test"))).collect();
    let silent = join_all(silent.iter().map(|url| get(&client, url)));
    let answered = url("good.test");
    let (silent, answered) = tokio::join!(silent, get(&client, &answered));
    assert_eq!(answered.unwrap().status, 200);
    for result in silent {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), Kind::Resolve(_)), "{error:?}");
    }
}

#[tokio::test]
async fn local_names_are_not_sent_to_name_servers() {
    let (server, client) = client_with_dns(|_| DnsReply::NxDomain).await;
    let (_origin, url) = origin_by_name().await;
    for host in ["localhost", "a.localhost", "a.b.LOCALHOST", "a.localhost."] {
        assert_eq!(
            get(&client, &url(host)).await.unwrap().status,
            200,
            "{host}"
        );
    }
    assert!(server.queried_names().is_empty());
    let other = get(&client, &url("localhost.test")).await.unwrap_err();
    assert!(matches!(other.kind(), Kind::NoSuchHost(_)));
    assert!(!server.queried_names().is_empty());
}

//! How often names are looked up, and what becomes of lookups that no connection waits for.

use futures_util::FutureExt;
use haul_lab::{DnsReply, DnsServer, within};
use tokio::time::Instant;

use super::*;
use crate::connector::ResolverChoice;

/// The connect timeout of these tests.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(5);

fn target(host: &str, port: u16) -> Target {
    Target {
        host: host.into(),
        port,
    }
}

fn with_system_resolver(pinned_addresses: Vec<PinnedAddress>) -> DnsResolver {
    DnsResolver::new(&ConnectorConfig {
        pinned_addresses,
        resolver: ResolverChoice::System,
        ..ConnectorConfig::default()
    })
}

fn with_server(server: &DnsServer) -> DnsResolver {
    DnsResolver::new(&ConnectorConfig {
        dns_servers: vec![server.address()],
        connect_timeout: CONNECT_TIMEOUT,
        ..ConnectorConfig::default()
    })
}

#[tokio::test]
async fn pinned_and_literal_addresses_are_never_looked_up() {
    let dns = with_system_resolver(vec![PinnedAddress {
        host: "Pinned.test".into(),
        port: 80,
        addresses: vec![[127, 0, 0, 9].into()],
    }]);
    // They do not wait for other lookups either.
    let _blocked = dns.lookups.block_lookups().await;
    let (pinned, literal) = (target("pinned.TEST", 80), target("::1", 443));
    for target in [&pinned, &literal] {
        within(LIMIT, dns.wait_for_slot(target)).await;
    }
    assert_eq!(
        *dns.lookup(&pinned).await.unwrap(),
        [IpAddr::from([127, 0, 0, 9])]
    );
    assert_eq!(
        *dns.lookup(&literal).await.unwrap(),
        ["::1".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(dns.lookups.task_count(), 0);
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_all_connections() {
    let dns = with_system_resolver(Vec::new());
    let host = target("localhost", 80);
    let (a, b) = tokio::join!(dns.lookup(&host), dns.lookup(&host));
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(dns.lookups.task_count(), 1);
}

#[tokio::test]
async fn b8_a_name_that_hangs_is_remembered_also_when_its_connection_is_dropped() {
    let server = DnsServer::start(|_| DnsReply::NoReply).await;
    let dns = with_server(&server);
    let host = target("silent.test", 80);
    let started = Instant::now();
    let mut first = Box::pin(dns.lookup(&host));
    assert!((&mut first).now_or_never().is_none());
    within(LIMIT, dns.wait_for_slot(&host)).await;
    drop(first);
    // The second waits for the rest of the time, and the third does not wait at all.
    let failure = within(LIMIT, dns.lookup(&host)).await.unwrap_err();
    assert!(failure.is_transient);
    let elapsed = started.elapsed();
    assert!(elapsed < CONNECT_TIMEOUT, "{elapsed:?}");
    let third = dns.lookup(&host).now_or_never();
    assert!(third.is_some_and(|third| third.is_err()));
    assert_eq!(server.queried_names().len(), 1);
}

#[tokio::test]
async fn a_queued_name_that_no_connection_waits_for_is_not_looked_up() {
    let server = DnsServer::start(|_| DnsReply::Addresses(vec![[10, 0, 0, 1].into()], 60)).await;
    let dns = with_server(&server);
    let (abandoned, other) = (target("abandoned.test", 80), target("other.test", 80));
    let blocked = dns.lookups.block_lookups().await;
    for target in [&abandoned, &other] {
        assert!(dns.wait_for_slot(target).now_or_never().is_none());
    }
    let mut lookup = Box::pin(dns.lookup(&other));
    assert!((&mut lookup).now_or_never().is_none());
    drop(blocked);
    assert_eq!(*lookup.await.unwrap(), [IpAddr::from([10, 0, 0, 1])]);
    assert_eq!(server.queried_names(), ["other.test"]);
    // The next connection starts the lookup again.
    dns.lookup(&abandoned).await.unwrap();
    assert_eq!(server.queried_names(), ["other.test", "abandoned.test"]);
}

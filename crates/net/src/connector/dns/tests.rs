//! What is looked up how often, and what becomes of look-ups that nobody waits for.

use futures_util::FutureExt;
use haul_lab::{DnsReply, DnsServer, within};
use tokio::time::Instant;

use super::*;

/// What a connection may take in these tests.
const CONNECT: Duration = Duration::from_millis(400);

/// Long enough for anything that is to come.
const LIMIT: Duration = Duration::from_secs(5);

fn target(host: &str, port: u16) -> Target {
    Target {
        host: host.into(),
        port,
    }
}

fn plain() -> DnsResolver {
    DnsResolver::new(Vec::new(), (ResolverChoice::System, Vec::new()), LIMIT)
}

fn asking(server: &DnsServer) -> DnsResolver {
    let servers = vec![server.address()];
    DnsResolver::new(Vec::new(), (ResolverChoice::Auto, servers), CONNECT)
}

#[tokio::test]
async fn pins_and_literals_are_never_looked_up() {
    let pin = PinnedAddress {
        host: "Pinned.test".into(),
        port: 80,
        addresses: vec![[127, 0, 0, 9].into()],
    };
    let dns = DnsResolver::new(vec![pin], (ResolverChoice::System, Vec::new()), LIMIT);
    // Nor do they wait for those that are.
    let _held = dns.lookups.block_lookups().await;
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
async fn a_name_is_looked_up_once_for_all_who_ask() {
    let dns = plain();
    let host = target("localhost", 80);
    let (a, b) = tokio::join!(dns.lookup(&host), dns.lookup(&host));
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(dns.lookups.task_count(), 1);
}

#[tokio::test]
async fn b8_a_name_that_hangs_is_remembered_though_whoever_asked_gave_up() {
    let server = DnsServer::start(|_| DnsReply::NoReply).await;
    let dns = asking(&server);
    let host = target("silent.test", 80);
    let begun = Instant::now();
    let mut first = Box::pin(dns.lookup(&host));
    assert!((&mut first).now_or_never().is_none());
    within(LIMIT, dns.wait_for_slot(&host)).await;
    drop(first);
    // The next waits for the rest of the time, and not from the beginning; whoever comes after that does not wait at all.
    let failure = within(LIMIT, dns.lookup(&host)).await.unwrap_err();
    assert!(failure.is_transient);
    assert!(begun.elapsed() < CONNECT, "{:?}", begun.elapsed());
    let third = dns.lookup(&host).now_or_never();
    assert!(third.is_some_and(|third| third.is_err()));
    assert_eq!(server.queried_names().len(), 1);
}

#[tokio::test]
async fn a_name_that_nobody_waits_for_when_its_turn_comes_is_not_looked_up() {
    let server = DnsServer::start(|_| DnsReply::Addresses(vec![[10, 0, 0, 1].into()], 60)).await;
    let dns = asking(&server);
    let (given_up, other) = (target("given-up.test", 80), target("other.test", 80));
    let held = dns.lookups.block_lookups().await;
    for target in [&given_up, &other] {
        assert!(dns.wait_for_slot(target).now_or_never().is_none());
    }
    let waits = dns.lookup(&other);
    let mut waits = Box::pin(waits);
    assert!((&mut waits).now_or_never().is_none());
    drop(held);
    assert_eq!(*waits.await.unwrap(), [IpAddr::from([10, 0, 0, 1])]);
    assert_eq!(server.queried_names(), ["other.test"]);
    // It is begun again for the next who asks.
    dns.lookup(&given_up).await.unwrap();
    assert_eq!(server.queried_names(), ["other.test", "given-up.test"]);
}

//! What the built-in resolver makes of the answers of name servers.

use haul_lab::{DnsReply, DnsServer};
use hickory_resolver::config::ResolverConfig;

use super::*;

#[test]
fn local_names_are_left_to_the_system() {
    for local in ["printer", "printer.", "Printer.LOCAL", "a.localhost"] {
        assert!(is_local_name(local), "{local}");
    }
    for other in ["a.test", "local.test", "a.test.", "a.locale"] {
        assert!(!is_local_name(other), "{other}");
    }
}

#[test]
fn addresses_without_a_route_go_last() {
    let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
    assert_eq!(
        order_by_reachability(vec![v6, v4], |_| true).as_ref(),
        [v6, v4]
    );
    assert_eq!(
        order_by_reachability(vec![v6, v4], |_| false).as_ref(),
        [v4, v6]
    );
    assert_eq!(order_by_reachability(vec![v4], |_| false).as_ref(), [v4]);
}

#[test]
fn the_shortest_time_to_live_counts_within_the_bounds() {
    assert_eq!(ttl([300, 60, 3_600].into_iter()).as_secs(), 60);
    assert_eq!(ttl([300, 0].into_iter()), MIN_TTL);
    assert_eq!(ttl([u32::MAX].into_iter()), MAX_TTL);
    assert_eq!(ttl(std::iter::empty()), MIN_TTL);
}

#[test]
fn the_system_resolver_is_used_on_request_unless_servers_are_given() {
    let server = [SocketAddr::from(([127, 0, 0, 1], 53))];
    assert!(NameServerClient::new(ResolverChoice::System, &[]).is_none());
    let client = NameServerClient::new(ResolverChoice::Auto, &server);
    assert!(client.is_some_and(|client| client.is_user_chosen));
}

#[tokio::test]
async fn the_system_is_asked_after_a_failure_unless_the_user_chose_the_servers() {
    let script = |name: &str| match name {
        "none.test" => DnsReply::NxDomain,
        _ => DnsReply::ServFail,
    };
    let server = DnsServer::start(script).await;
    let mut client = NameServerClient::new(ResolverChoice::Auto, &[server.address()]).unwrap();
    let failed = client.resolve("bad.test").await;
    assert!(matches!(failed, Err(NameServerError::Final(error)) if error.is_transient));
    client.is_user_chosen = false;
    let failed = client.resolve("bad.test").await;
    assert!(matches!(failed, Err(NameServerError::Unavailable)));
    let none = client.resolve("none.test").await;
    assert!(matches!(none, Err(NameServerError::Final(error)) if !error.is_transient));
    let local = client.resolve("localhost").await;
    assert!(matches!(local, Err(NameServerError::LeaveToSystem)));
}

#[tokio::test]
async fn names_of_the_hosts_file_are_left_to_the_system_in_both_by_family() {
    let script = |_: &str| DnsReply::Addresses(vec!["fd00::1".parse().unwrap()], 60);
    let server = DnsServer::start(script).await;
    let mut client = NameServerClient::new(ResolverChoice::Auto, &[server.address()]).unwrap();
    let lines: &[u8] = b"127.0.0.1 only4.test Alias.test\n";
    client.hosts.read_hosts_conf(lines).unwrap();
    for name in ["only4.test", "ALIAS.test", "alias.test."] {
        assert!(
            matches!(
                client.resolve(name).await,
                Err(NameServerError::LeaveToSystem)
            ),
            "{name}"
        );
    }
    assert!(server.queried_names().is_empty());
    assert!(client.resolve("other.test").await.is_ok());
}

fn no_addresses() -> DnsReply {
    DnsReply::Addresses(Vec::new(), 60)
}

/// One reply for each address family.
fn by_family(v4: DnsReply, v6: DnsReply) -> DnsReply {
    DnsReply::ByFamily {
        v4: Box::new(v4),
        v6: Box::new(v6),
    }
}

/// A client of a system that is configured with this server and this search list.
fn with_search_list(server: &DnsServer, list: &[&str]) -> NameServerClient {
    let mut config = ResolverConfig::from_name_servers(vec![name_server(&server.address())]);
    for domain in list {
        config.add_search(Name::from_utf8(domain).unwrap());
    }
    let mut options = ResolverOpts::default();
    (options.timeout, options.attempts) = (Duration::from_millis(50), 1);
    NameServerClient::from_config(config, options, false).unwrap()
}

#[tokio::test]
async fn b8_a_host_does_not_exist_only_if_both_families_are_known_to_have_no_address() {
    let server = DnsServer::start(|name| match name {
        "v4-fails.test" => by_family(DnsReply::ServFail, no_addresses()),
        "v4-silent.test" => by_family(DnsReply::NoReply, no_addresses()),
        "v6-fails.test" => by_family(no_addresses(), DnsReply::ServFail),
        "none-v4-fails.test" => by_family(DnsReply::ServFail, DnsReply::NxDomain),
        "none-and-nothing.test" => by_family(no_addresses(), DnsReply::NxDomain),
        _ => no_addresses(),
    })
    .await;
    let mut client = with_search_list(&server, &[]);
    for is_user_chosen in [false, true] {
        client.is_user_chosen = is_user_chosen;
        for name in [
            "v4-fails.test",
            "v4-silent.test",
            "v6-fails.test",
            "none-v4-fails.test",
        ] {
            let is_transient = match client.resolve(name).await {
                Err(NameServerError::Unavailable) => !is_user_chosen,
                Err(NameServerError::Final(error)) => is_user_chosen && error.is_transient,
                _ => false,
            };
            assert!(is_transient, "{name} {is_user_chosen}");
        }
        for name in ["nothing.test", "none-and-nothing.test"] {
            let result = client.resolve(name).await;
            assert!(
                matches!(result, Err(NameServerError::Final(error)) if !error.is_transient),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn b8_addresses_of_one_family_expire_soon_if_the_query_for_the_other_failed() {
    let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
    let address = |address, ttl| DnsReply::Addresses(vec![address], ttl);
    let server = DnsServer::start(move |name| match name {
        "v6-alone.test" => by_family(no_addresses(), address(v6, 600)),
        "v4-silent.test" => by_family(DnsReply::NoReply, address(v6, 600)),
        "v6-fails.test" => by_family(address(v4, 600), DnsReply::ServFail),
        _ => by_family(address(v4, 600), address(v6, 60)),
    })
    .await;
    let client = with_search_list(&server, &[]);
    let mut results = Vec::new();
    for name in [
        "both.test",
        "v6-alone.test",
        "v4-silent.test",
        "v6-fails.test",
    ] {
        let Ok(found) = client.resolve(name).await else {
            panic!("{name} has an address");
        };
        let mut addresses = found.addresses.to_vec();
        addresses.sort();
        results.push((addresses, found.ttl.as_secs()));
    }
    let shortest = MIN_TTL.as_secs();
    let expected = [
        (vec![v4, v6], 60),
        (vec![v6], 600),
        (vec![v6], shortest),
        (vec![v4], shortest),
    ];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn b8_search_lists_are_left_to_the_system() {
    let server = DnsServer::start(|name| match name {
        "www.bad.test" => DnsReply::ServFail,
        "www.found.test" => DnsReply::Addresses(vec![[10, 0, 0, 1].into()], 60),
        _ => DnsReply::NxDomain,
    })
    .await;
    let mut client = with_search_list(&server, &["corp.lan."]);
    assert!(client.resolve("www.found.test").await.is_ok());
    let failed = client.resolve("www.bad.test").await;
    assert!(matches!(failed, Err(NameServerError::Unavailable)));
    let relative = client.resolve("www.none.test").await;
    assert!(matches!(relative, Err(NameServerError::LeaveToSystem)));
    let absolute = client.resolve("www.none.test.").await;
    assert!(matches!(absolute, Err(NameServerError::Final(error)) if !error.is_transient));
    // A name with too few dots would be tried with the search list first, so it is not looked up here at all.
    client.search_ndots = Some(3);
    let queried = server.queried_names();
    let short = client.resolve("www.found.test").await;
    assert!(matches!(short, Err(NameServerError::LeaveToSystem)));
    assert_eq!(server.queried_names(), queried);
    assert!(
        queried.iter().all(|name| !name.contains("corp")),
        "{queried:?}"
    );
    let with_root = with_search_list(&server, &["."])
        .resolve("www.none.test")
        .await;
    assert!(matches!(with_root, Err(NameServerError::Final(_))));
}

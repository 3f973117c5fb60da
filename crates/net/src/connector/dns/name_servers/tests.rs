//! What comes of what name servers say.

use haul_lab::{DnsReply, DnsServer};
use hickory_resolver::config::ResolverConfig;

use super::*;

#[test]
fn names_of_this_place_are_the_systems() {
    for local in ["printer", "printer.", "Printer.LOCAL", "a.localhost"] {
        assert!(is_local_name(local), "{local}");
    }
    for other in ["a.test", "local.test", "a.test.", "a.locale"] {
        assert!(!is_local_name(other), "{other}");
    }
}

#[test]
fn addresses_without_a_way_go_last() {
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
fn the_shortest_time_to_live_counts_within_bounds() {
    assert_eq!(ttl([300, 60, 3_600].into_iter()).as_secs(), 60);
    assert_eq!(ttl([300, 0].into_iter()), MIN_TTL);
    assert_eq!(ttl([u32::MAX].into_iter()), MAX_TTL);
    assert_eq!(ttl(std::iter::empty()), MIN_TTL);
}

#[test]
fn the_systems_resolver_is_asked_when_it_is_wanted_and_no_servers_were_named() {
    let server = [SocketAddr::from(([127, 0, 0, 1], 53))];
    assert!(NameServerClient::new(ResolverChoice::System, &[]).is_none());
    assert!(
        NameServerClient::new(ResolverChoice::Auto, &server).is_some_and(|own| own.is_user_chosen)
    );
}

#[tokio::test]
async fn trouble_is_the_systems_to_mend_unless_these_servers_were_wanted() {
    let script = |name: &str| match name {
        "none.test" => DnsReply::NxDomain,
        _ => DnsReply::ServFail,
    };
    let server = DnsServer::start(script).await;
    let mut own = NameServerClient::new(ResolverChoice::Auto, &[server.address()]).unwrap();
    let trouble = own.resolve("bad.test").await;
    assert!(matches!(trouble, Err(NameServerError::Final(failure)) if failure.is_transient));
    own.is_user_chosen = false;
    let trouble = own.resolve("bad.test").await;
    assert!(matches!(trouble, Err(NameServerError::Unavailable)));
    let none = own.resolve("none.test").await;
    assert!(matches!(none, Err(NameServerError::Final(failure)) if !failure.is_transient));
    let local = own.resolve("localhost").await;
    assert!(matches!(local, Err(NameServerError::LeaveToSystem)));
}

#[tokio::test]
async fn names_of_the_hosts_file_are_the_systems_in_both_families() {
    let script = |_: &str| DnsReply::Addresses(vec!["fd00::1".parse().unwrap()], 60);
    let server = DnsServer::start(script).await;
    let mut own = NameServerClient::new(ResolverChoice::Auto, &[server.address()]).unwrap();
    let lines: &[u8] = b"127.0.0.1 only4.test Alias.test\n";
    own.hosts.read_hosts_conf(lines).unwrap();
    for name in ["only4.test", "ALIAS.test", "alias.test."] {
        assert!(
            matches!(own.resolve(name).await, Err(NameServerError::LeaveToSystem)),
            "{name}"
        );
    }
    assert!(server.queried_names().is_empty());
    assert!(own.resolve("other.test").await.is_ok());
}

fn nothing() -> DnsReply {
    DnsReply::Addresses(Vec::new(), 60)
}

/// The same name, one answer a family.
fn families(v4: DnsReply, v6: DnsReply) -> DnsReply {
    DnsReply::ByFamily {
        v4: Box::new(v4),
        v6: Box::new(v6),
    }
}

/// Asks this server as the system is set up to, with this search list.
fn searching(server: &DnsServer, list: &[&str]) -> NameServerClient {
    let mut config = ResolverConfig::from_name_servers(vec![name_server(&server.address())]);
    for domain in list {
        config.add_search(Name::from_utf8(domain).unwrap());
    }
    let mut options = ResolverOpts::default();
    (options.timeout, options.attempts) = (Duration::from_millis(50), 1);
    NameServerClient::from_config(config, options, false).unwrap()
}

#[tokio::test]
async fn b8_no_such_host_is_said_only_when_both_families_are_known_to_have_nothing() {
    let server = DnsServer::start(|name| match name {
        "v4-fails.test" => families(DnsReply::ServFail, nothing()),
        "v4-silent.test" => families(DnsReply::NoReply, nothing()),
        "v6-fails.test" => families(nothing(), DnsReply::ServFail),
        "none-v4-fails.test" => families(DnsReply::ServFail, DnsReply::NxDomain),
        "none-and-nothing.test" => families(nothing(), DnsReply::NxDomain),
        _ => nothing(),
    })
    .await;
    let mut own = searching(&server, &[]);
    for given in [false, true] {
        own.is_user_chosen = given;
        for name in [
            "v4-fails.test",
            "v4-silent.test",
            "v6-fails.test",
            "none-v4-fails.test",
        ] {
            let passing = match own.resolve(name).await {
                Err(NameServerError::Unavailable) => !given,
                Err(NameServerError::Final(failure)) => given && failure.is_transient,
                _ => false,
            };
            assert!(passing, "{name} {given}");
        }
        for name in ["nothing.test", "none-and-nothing.test"] {
            let lasting = own.resolve(name).await;
            assert!(
                matches!(lasting, Err(NameServerError::Final(failure)) if !failure.is_transient),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn b8_one_familys_addresses_are_kept_for_long_only_if_the_other_is_known() {
    let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
    let has = |address, life| DnsReply::Addresses(vec![address], life);
    let server = DnsServer::start(move |name| match name {
        "v6-alone.test" => families(nothing(), has(v6, 600)),
        "v4-silent.test" => families(DnsReply::NoReply, has(v6, 600)),
        "v6-fails.test" => families(has(v4, 600), DnsReply::ServFail),
        _ => families(has(v4, 600), has(v6, 60)),
    })
    .await;
    let own = searching(&server, &[]);
    let mut came = Vec::new();
    for name in [
        "both.test",
        "v6-alone.test",
        "v4-silent.test",
        "v6-fails.test",
    ] {
        let Ok(found) = own.resolve(name).await else {
            panic!("{name} has an address");
        };
        let mut addresses = found.addresses.to_vec();
        addresses.sort();
        came.push((addresses, found.ttl.as_secs()));
    }
    let least = MIN_TTL.as_secs();
    let expected = [
        (vec![v4, v6], 60),
        (vec![v6], 600),
        (vec![v6], least),
        (vec![v4], least),
    ];
    assert_eq!(came, expected);
}

#[tokio::test]
async fn b8_search_lists_are_the_systems_to_walk() {
    let server = DnsServer::start(|name| match name {
        "www.bad.test" => DnsReply::ServFail,
        "www.there.test" => DnsReply::Addresses(vec![[10, 0, 0, 1].into()], 60),
        _ => DnsReply::NxDomain,
    })
    .await;
    let mut own = searching(&server, &["corp.lan."]);
    assert!(own.resolve("www.there.test").await.is_ok());
    let trouble = own.resolve("www.bad.test").await;
    assert!(matches!(trouble, Err(NameServerError::Unavailable)));
    let longer = own.resolve("www.none.test").await;
    assert!(matches!(longer, Err(NameServerError::LeaveToSystem)));
    let whole = own.resolve("www.none.test.").await;
    assert!(matches!(whole, Err(NameServerError::Final(failure)) if !failure.is_transient));
    // What is appended to first is not asked for here at all.
    own.search_ndots = Some(3);
    let asked = server.queried_names();
    let short = own.resolve("www.there.test").await;
    assert!(matches!(short, Err(NameServerError::LeaveToSystem)));
    assert_eq!(server.queried_names(), asked);
    assert!(asked.iter().all(|name| !name.contains("corp")), "{asked:?}");
    let rooted = searching(&server, &["."]).resolve("www.none.test").await;
    assert!(matches!(rooted, Err(NameServerError::Final(_))));
}

//! A resolver of our own (hickory): it tells how long an answer holds, and takes no thread a look-up.
//!
//! It asks name servers and does nothing else. What only the system can answer as everybody here expects it is left to that:
//! names of the hosts file (where the file has one family alone, the C library asks nobody for the other), names without a dot,
//! and `.local` and `.localhost`. So is everything, where the system is set up to ask others than name servers.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};

use super::nsswitch::is_plain;
use super::{Failure, Found, Resolver};

/// The least that an answer is remembered: some sites say zero, and a batch would ask for every connection.
const LEAST: Duration = Duration::from_secs(5);

/// The most: longer than that no batch relies on what nobody has looked at again.
const MOST: Duration = Duration::from_secs(3_600);

/// The longest that one question waits for its answer, and how often it is put. The system is asked after that, and all must
/// be over within the time that a connection may take.
const PATIENCE: (Duration, usize) = (Duration::from_secs(3), 2);

/// What changes the C library's ways, of which hickory knows nothing.
const VARIABLES: [&str; 3] = ["RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES"];

/// Asks name servers.
pub(super) struct Own {
    resolver: TokioResolver,
    hosts: Hosts,
    /// Whether these servers were named by the user: then nobody else is asked instead.
    given: bool,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").finish_non_exhaustive()
    }
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    /// It is not a name for this resolver.
    NotOurs,
    /// There is none: nobody would find one.
    Final(Failure),
    /// It could not be found out. The system may be asked.
    Trouble,
}

impl Own {
    /// What the settings come to; `None` where the system is to be asked.
    pub(super) fn new(resolver: Resolver, servers: &[SocketAddr]) -> Option<Self> {
        let given = !servers.is_empty();
        let wanted = match resolver {
            Resolver::System => given,
            Resolver::Hickory => true,
            Resolver::Auto => given || is_alike(),
        };
        if !wanted {
            return None;
        }
        let (config, options) = if given {
            let servers = servers.iter().map(server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            (config, ResolverOpts::default())
        } else {
            system_conf::read_system_conf().ok()?
        };
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        *builder.options_mut() = set(options);
        Some(Self {
            resolver: builder.build().ok()?,
            hosts: Hosts::from_system().unwrap_or_default(),
            given,
        })
    }

    /// A name's addresses.
    pub(super) async fn ask(&self, host: &str) -> Result<Found, NoAnswer> {
        let name = Name::from_utf8(host).map_err(|_| NoAnswer::NotOurs)?;
        if is_local(host) || self.is_in_hosts(&name) {
            return Err(NoAnswer::NotOurs);
        }
        let found = self.resolver.lookup_ip(host).await;
        let found = found.map_err(|error| self.no_answer(error))?;
        let records = found.as_lookup().answers();
        Ok(Found {
            addresses: ordered(found.iter().collect(), is_reachable),
            life: life(records.iter().map(|record| record.ttl)),
        })
    }

    fn is_in_hosts(&self, name: &Name) -> bool {
        [RecordType::A, RecordType::AAAA].into_iter().any(|kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query).is_some()
        })
    }

    fn no_answer(&self, error: NetError) -> NoAnswer {
        let no_such_name = error.is_no_records_found();
        if !no_such_name && !self.given {
            return NoAnswer::Trouble;
        }
        NoAnswer::Final(Failure {
            transient: !no_such_name,
            source: Arc::new(io::Error::other(error)),
        })
    }
}

/// Whether the system would do no more than ask these name servers: known of Linux alone.
fn is_alike() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !cfg!(target_os = "linux") || VARIABLES.into_iter().any(is_set) {
        return false;
    }
    match std::fs::read_to_string("/etc/nsswitch.conf") {
        Ok(text) => is_plain(&text),
        // The C libraries' default then.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Names that mean something here alone.
fn is_local(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let last = host.rsplit_once('.').map(|(_, last)| last);
    matches!(last, None | Some("local" | "localhost"))
}

fn set(options: ResolverOpts) -> ResolverOpts {
    let mut set = options;
    set.timeout = set.timeout.min(PATIENCE.0);
    set.attempts = set.attempts.min(PATIENCE.1);
    set.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    // Both are done here, where they are done for the system's answers too.
    set.use_hosts_file = ResolveHosts::Never;
    set.cache_size = 0;
    set
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    NameServerConfig::new(address.ip(), true, both.map(at).into())
}

/// How long an answer of records with these times to live is remembered.
fn life(records: impl Iterator<Item = u32>) -> Duration {
    let shortest = Duration::from_secs(records.min().unwrap_or_default().into());
    shortest.clamp(LEAST, MOST)
}

/// IPv6 goes first only where there is a way to it: to try it first would cost every connection a call that fails
/// (RFC 6724 section 5, rule 1).
fn ordered(mut addresses: Vec<IpAddr>, is_reachable: impl Fn(Ipv6Addr) -> bool) -> Arc<[IpAddr]> {
    let first = addresses.iter().find_map(|address| match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    });
    if first.is_some_and(|first| !is_reachable(first)) {
        addresses.sort_by_key(IpAddr::is_ipv6);
    }
    addresses.into()
}

/// Whether there is a route. No packet is sent: a UDP socket is connected by looking one up.
fn is_reachable(address: Ipv6Addr) -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect((address, 443)))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use haul_lab::{NameReply, NameServer};

    use super::*;

    #[test]
    fn names_of_this_place_are_the_systems() {
        for local in ["printer", "printer.", "Printer.LOCAL", "a.localhost"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["a.test", "local.test", "a.test.", "a.locale"] {
            assert!(!is_local(other), "{other}");
        }
    }

    #[test]
    fn addresses_without_a_way_go_last() {
        let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        assert_eq!(ordered(vec![v6, v4], |_| true).as_ref(), [v6, v4]);
        assert_eq!(ordered(vec![v6, v4], |_| false).as_ref(), [v4, v6]);
        assert_eq!(ordered(vec![v4], |_| false).as_ref(), [v4]);
    }

    #[test]
    fn the_shortest_time_to_live_counts_within_bounds() {
        assert_eq!(life([300, 60, 3_600].into_iter()).as_secs(), 60);
        assert_eq!(life([300, 0].into_iter()), LEAST);
        assert_eq!(life([u32::MAX].into_iter()), MOST);
        assert_eq!(life(std::iter::empty()), LEAST);
    }

    #[test]
    fn the_systems_resolver_is_asked_when_it_is_wanted_and_no_servers_were_named() {
        let server = [SocketAddr::from(([127, 0, 0, 1], 53))];
        assert!(Own::new(Resolver::System, &[]).is_none());
        assert!(Own::new(Resolver::Auto, &server).is_some_and(|own| own.given));
    }

    #[tokio::test]
    async fn trouble_is_the_systems_to_mend_unless_these_servers_were_wanted() {
        let script = |name: &str| match name {
            "none.test" => NameReply::NoSuchName,
            _ => NameReply::Failure,
        };
        let server = NameServer::start(script).await;
        let mut own = Own::new(Resolver::Auto, &[server.address()]).unwrap();
        let trouble = own.ask("bad.test").await;
        assert!(matches!(trouble, Err(NoAnswer::Final(failure)) if failure.transient));
        own.given = false;
        let trouble = own.ask("bad.test").await;
        assert!(matches!(trouble, Err(NoAnswer::Trouble)));
        let none = own.ask("none.test").await;
        assert!(matches!(none, Err(NoAnswer::Final(failure)) if !failure.transient));
        let local = own.ask("localhost").await;
        assert!(matches!(local, Err(NoAnswer::NotOurs)));
    }

    #[tokio::test]
    async fn names_of_the_hosts_file_are_the_systems_in_both_families() {
        let script = |_: &str| NameReply::Addresses(vec!["fd00::1".parse().unwrap()], 60);
        let server = NameServer::start(script).await;
        let mut own = Own::new(Resolver::Auto, &[server.address()]).unwrap();
        let lines: &[u8] = b"127.0.0.1 only4.test Alias.test\n";
        own.hosts.read_hosts_conf(lines).unwrap();
        for name in ["only4.test", "ALIAS.test", "alias.test."] {
            assert!(
                matches!(own.ask(name).await, Err(NoAnswer::NotOurs)),
                "{name}"
            );
        }
        assert!(server.asked().is_empty());
        assert!(own.ask("other.test").await.is_ok());
    }
}

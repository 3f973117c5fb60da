//! The built-in resolver (hickory). It knows how long an answer holds, and takes no thread for a name.
//!
//! It asks name servers and no other source. Names that only the system resolves as every program on this machine expects are
//! left to the system: names of the hosts file (where the file has addresses of one family, the C library does not ask for the
//! other), names without a dot, `.local` and `.localhost`; and all names where the system is configured to ask other sources
//! than name servers.
//!
//! It asks for a name as it is written, once for each address family. It reports that there is no such host only when both
//! families are known to have no address, and never because one of two queries failed. Search lists are left to the system.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};

use super::nsswitch::uses_only_files_and_dns;
use super::{LookupError, ResolvedAddresses};
use crate::connector::config::ResolverChoice;

/// The shortest time that an answer is remembered: some sites say zero, and a batch would ask for every connection.
const MIN_TTL: Duration = Duration::from_secs(5);

/// The longest time that an answer is remembered.
const MAX_TTL: Duration = Duration::from_secs(3_600);

/// The longest wait for the answer to one query. The system's resolver is asked after that, and all of it must fit into the
/// connect timeout.
const MAX_QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a query is sent.
const MAX_QUERY_ATTEMPTS: usize = 2;

/// Variables that change how the C library resolves names, and that hickory does not read.
const RESOLVER_VARIABLES: [&str; 3] = ["RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES"];

/// Asks name servers.
pub(super) struct NameServerClient {
    resolver: TokioResolver,
    hosts: Hosts,
    /// Names with fewer dots than this are tried with the search list before they are tried as they are; `None` without a list.
    search_ndots: Option<usize>,
    /// Whether the user chose these servers: then the system's resolver is not asked after a failure.
    is_user_chosen: bool,
}

impl std::fmt::Debug for NameServerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameServerClient").finish_non_exhaustive()
    }
}

/// Why there is no answer.
pub(super) enum NameServerError {
    /// The name is not one for this resolver.
    LeaveToSystem,
    /// The lookup failed, and the system's resolver would find no more.
    Final(LookupError),
    /// The name servers could not be asked. The system's resolver may be asked.
    Unavailable,
}

impl NameServerClient {
    /// A client by the user's settings; `None` where the system's resolver is to be asked for all names.
    pub(super) fn new(resolver: ResolverChoice, servers: &[SocketAddr]) -> Option<Self> {
        let is_user_chosen = !servers.is_empty();
        let is_wanted = match resolver {
            ResolverChoice::System => is_user_chosen,
            ResolverChoice::BuiltIn => true,
            ResolverChoice::Auto => is_user_chosen || system_uses_only_files_and_dns(),
        };
        if !is_wanted {
            return None;
        }
        let (config, options) = if is_user_chosen {
            let servers = servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            (config, ResolverOpts::default())
        } else {
            system_conf::read_system_conf().ok()?
        };
        Self::from_config(config, options, is_user_chosen)
    }

    fn from_config(
        config: ResolverConfig,
        options: ResolverOpts,
        is_user_chosen: bool,
    ) -> Option<Self> {
        // Without a search list, the machine's own domain is one.
        let mut search_list = config.search().iter().chain(config.domain());
        let has_search_list = search_list.any(|name| !name.is_root());
        let search_ndots = has_search_list.then_some(options.ndots);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        *builder.options_mut() = resolver_options(options);
        Some(Self {
            resolver: builder.build().ok()?,
            hosts: Hosts::from_system().unwrap_or_default(),
            search_ndots,
            is_user_chosen,
        })
    }

    pub(super) async fn resolve(&self, host: &str) -> Result<ResolvedAddresses, NameServerError> {
        let mut name = Name::from_utf8(host).map_err(|_| NameServerError::LeaveToSystem)?;
        let search_ndots = self.search_ndots.filter(|_| !name.is_fqdn());
        let is_searched_first = search_ndots.is_some_and(|ndots| host.matches('.').count() < ndots);
        if is_local_name(host) || is_searched_first || self.is_in_hosts_file(&name) {
            return Err(NameServerError::LeaveToSystem);
        }
        name.set_fqdn(true);
        let (v6, v4) = join(
            self.resolver.lookup(name.clone(), RecordType::AAAA),
            self.resolver.lookup(name, RecordType::A),
        )
        .await;
        combine_families([v6, v4]).map_err(|error| match error.is_transient {
            true if !self.is_user_chosen => NameServerError::Unavailable,
            // The search list may lead to a longer name.
            false if search_ndots.is_some() => NameServerError::LeaveToSystem,
            _ => NameServerError::Final(error),
        })
    }

    fn is_in_hosts_file(&self, name: &Name) -> bool {
        [RecordType::A, RecordType::AAAA].into_iter().any(|kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query).is_some()
        })
    }
}

/// The result of both queries. Addresses of one family are enough; but if the other query failed, the name is soon looked up
/// again.
fn combine_families(
    results: [Result<Lookup, NetError>; 2],
) -> Result<ResolvedAddresses, LookupError> {
    let (mut addresses, mut ttls) = (Vec::new(), Vec::new());
    let (mut failure, mut no_records) = (None, None);
    for result in results {
        match result {
            Ok(lookup) => {
                let records = lookup.answers();
                ttls.extend(records.iter().map(|record| record.ttl));
                addresses.extend(records.iter().filter_map(|record| record.data.ip_addr()));
            }
            Err(error) if is_no_records(&error) => no_records = Some(error),
            Err(error) => {
                ttls.push(0);
                failure = Some(error);
            }
        }
    }
    if !addresses.is_empty() {
        return Ok(ResolvedAddresses {
            addresses: order_by_reachability(addresses, is_reachable),
            ttl: ttl(ttls.into_iter()),
        });
    }
    let is_transient = failure.is_some();
    let source = match failure.or(no_records) {
        Some(error) => io::Error::other(error),
        // There were other records, and no address.
        None => io::ErrorKind::NotFound.into(),
    };
    Err(LookupError {
        is_transient,
        source: Arc::new(source),
    })
}

/// Whether a name server answered that there is no such name, or no such record.
fn is_no_records(error: &NetError) -> bool {
    matches!(
        error,
        NetError::Dns(DnsError::NoRecordsFound(none))
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
    )
}

/// Whether the system's resolver would do no more than read the hosts file and ask name servers.
fn system_uses_only_files_and_dns() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if RESOLVER_VARIABLES.into_iter().any(is_set) {
        return false;
    }
    match std::fs::read_to_string("/etc/nsswitch.conf") {
        Ok(text) => uses_only_files_and_dns(&text),
        // Without the file this is the default of the C libraries.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a name means something on this machine or network alone.
fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let top_level = host.rsplit_once('.').map(|(_, label)| label);
    matches!(top_level, None | Some("local" | "localhost"))
}

fn resolver_options(mut options: ResolverOpts) -> ResolverOpts {
    options.timeout = options.timeout.min(MAX_QUERY_TIMEOUT);
    options.attempts = options.attempts.min(MAX_QUERY_ATTEMPTS);
    // The hosts file is left to the system, and the cache holds the system's answers, too.
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = 0;
    options
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let protocols = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    NameServerConfig::new(address.ip(), true, protocols.map(with_port).into())
}

/// How long an answer with these times to live is remembered.
fn ttl(ttls: impl Iterator<Item = u32>) -> Duration {
    let shortest = Duration::from_secs(ttls.min().unwrap_or_default().into());
    shortest.clamp(MIN_TTL, MAX_TTL)
}

/// IPv6 goes first only where there is a route to it: trying it first would cost every connection a call that fails (RFC 6724
/// section 5, rule 1).
fn order_by_reachability(
    mut addresses: Vec<IpAddr>,
    is_reachable: impl Fn(Ipv6Addr) -> bool,
) -> Arc<[IpAddr]> {
    let first_v6 = addresses.iter().find_map(|address| match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    });
    if first_v6.is_some_and(|address| !is_reachable(address)) {
        addresses.sort_by_key(IpAddr::is_ipv6);
    }
    addresses.into()
}

/// Whether there is a route. No packet is sent: connecting a UDP socket only looks up a route.
fn is_reachable(address: Ipv6Addr) -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect((address, 443)))
        .is_ok()
}

#[cfg(test)]
mod tests;

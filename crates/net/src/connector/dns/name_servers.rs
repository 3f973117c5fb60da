//! A resolver of our own (hickory): it tells how long an answer holds, and takes no thread a look-up.
//!
//! It asks name servers and does nothing else. What only the system can answer as everybody here expects it is left to that:
//! names of the hosts file (where the file has one family alone, the C library asks nobody for the other), names without a dot,
//! and `.local` and `.localhost`. So is everything, where the system is set up to ask others than name servers.
//!
//! A name is asked for as it stands, each family for itself: that there is no such host is said only when both are known to have
//! nothing, and never because one of two questions failed. Search lists are the system's to walk.

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

/// The least that an answer is remembered: some sites say zero, and a batch would ask for every connection.
const MIN_TTL: Duration = Duration::from_secs(5);

/// The most: longer than that no batch relies on what nobody has looked at again.
const MAX_TTL: Duration = Duration::from_secs(3_600);

/// The longest that one question waits for its answer, and how often it is put. The system is asked after that, and all must
/// be over within the time that a connection may take.
const PATIENCE: (Duration, usize) = (Duration::from_secs(3), 2);

/// What changes the C library's ways, of which hickory knows nothing.
const RESOLVER_VARIABLES: [&str; 3] = ["RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES"];

/// Asks name servers.
pub(super) struct NameServerClient {
    resolver: TokioResolver,
    hosts: Hosts,
    /// How many dots a name has at least that is asked for as it stands before anything is appended to it. `None`: nothing is
    /// ever appended.
    search_ndots: Option<usize>,
    /// Whether these servers were named by the user: then nobody else is asked instead.
    is_user_chosen: bool,
}

impl std::fmt::Debug for NameServerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").finish_non_exhaustive()
    }
}

/// Why there is no answer.
pub(super) enum NameServerError {
    /// It is not a name for this resolver.
    LeaveToSystem,
    /// There is none: nobody would find one.
    Final(LookupError),
    /// It could not be found out. The system may be asked.
    Unavailable,
}

impl NameServerClient {
    /// What the settings come to; `None` where the system is to be asked.
    pub(super) fn new(resolver: ResolverChoice, servers: &[SocketAddr]) -> Option<Self> {
        let given = !servers.is_empty();
        let wanted = match resolver {
            ResolverChoice::System => given,
            ResolverChoice::BuiltIn => true,
            ResolverChoice::Auto => given || system_uses_only_files_and_dns(),
        };
        if !wanted {
            return None;
        }
        let (config, options) = if given {
            let servers = servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            (config, ResolverOpts::default())
        } else {
            system_conf::read_system_conf().ok()?
        };
        Self::from_config(config, options, given)
    }

    fn from_config(config: ResolverConfig, options: ResolverOpts, given: bool) -> Option<Self> {
        // Without a list, the domain that the machine is in is one.
        let mut list = config.search().iter().chain(config.domain());
        let search = list.any(|name| !name.is_root()).then_some(options.ndots);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        *builder.options_mut() = resolver_options(options);
        Some(Self {
            resolver: builder.build().ok()?,
            hosts: Hosts::from_system().unwrap_or_default(),
            search_ndots: search,
            is_user_chosen: given,
        })
    }

    /// A name's addresses.
    pub(super) async fn resolve(&self, host: &str) -> Result<ResolvedAddresses, NameServerError> {
        let mut name = Name::from_utf8(host).map_err(|_| NameServerError::LeaveToSystem)?;
        let search = self.search_ndots.filter(|_| !name.is_fqdn());
        let is_appended_to_first = search.is_some_and(|dots| host.matches('.').count() < dots);
        if is_local_name(host) || is_appended_to_first || self.is_in_hosts(&name) {
            return Err(NameServerError::LeaveToSystem);
        }
        name.set_fqdn(true);
        let (v6, v4) = join(
            self.resolver.lookup(name.clone(), RecordType::AAAA),
            self.resolver.lookup(name, RecordType::A),
        )
        .await;
        match combine_families([v6, v4]) {
            Ok(found) => Ok(found),
            Err(failure) if failure.is_transient && !self.is_user_chosen => {
                Err(NameServerError::Unavailable)
            }
            // There may be a longer name.
            Err(failure) if !failure.is_transient && search.is_some() => {
                Err(NameServerError::LeaveToSystem)
            }
            Err(failure) => Err(NameServerError::Final(failure)),
        }
    }

    fn is_in_hosts(&self, name: &Name) -> bool {
        [RecordType::A, RecordType::AAAA].into_iter().any(|kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query).is_some()
        })
    }
}

/// What was said of both families comes to. Addresses of one do, but where it is not known whether the other has some, too,
/// that is asked again soon.
fn combine_families(said: [Result<Lookup, NetError>; 2]) -> Result<ResolvedAddresses, LookupError> {
    let (mut addresses, mut lives, mut failure) = (Vec::new(), Vec::new(), None);
    for said in said {
        match said {
            Ok(lookup) => {
                let answers = lookup.answers();
                lives.extend(answers.iter().map(|record| record.ttl));
                addresses.extend(answers.iter().filter_map(|record| record.data.ip_addr()));
            }
            Err(error) if is_no_records(&error) => {
                failure.get_or_insert((false, error));
            }
            Err(error) => {
                lives.push(0);
                failure = Some((true, error));
            }
        }
    }
    if !addresses.is_empty() {
        return Ok(ResolvedAddresses {
            addresses: order_by_reachability(addresses, is_reachable),
            ttl: ttl(lives.into_iter()),
        });
    }
    // Without a failure there were other records, and no address.
    let (transient, source) = failure.map_or_else(
        || (false, io::ErrorKind::NotFound.into()),
        |(transient, error)| (transient, io::Error::other(error)),
    );
    Err(LookupError {
        is_transient: transient,
        source: Arc::new(source),
    })
}

/// Whether a name server has said that there is nothing: no such name, or no such record.
fn is_no_records(error: &NetError) -> bool {
    matches!(
        error,
        NetError::Dns(DnsError::NoRecordsFound(none))
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
    )
}

/// Whether the system would do no more than ask these name servers: known of Linux alone.
fn system_uses_only_files_and_dns() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !cfg!(target_os = "linux") || RESOLVER_VARIABLES.into_iter().any(is_set) {
        return false;
    }
    match std::fs::read_to_string("/etc/nsswitch.conf") {
        Ok(text) => uses_only_files_and_dns(&text),
        // The C libraries' default then.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Names that mean something here alone.
fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let last = host.rsplit_once('.').map(|(_, last)| last);
    matches!(last, None | Some("local" | "localhost"))
}

fn resolver_options(options: ResolverOpts) -> ResolverOpts {
    let mut set = options;
    set.timeout = set.timeout.min(PATIENCE.0);
    set.attempts = set.attempts.min(PATIENCE.1);
    // Both are done here, where they are done for the system's answers too.
    set.use_hosts_file = ResolveHosts::Never;
    set.cache_size = 0;
    set
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    NameServerConfig::new(address.ip(), true, both.map(at).into())
}

/// How long an answer of records with these times to live is remembered.
fn ttl(records: impl Iterator<Item = u32>) -> Duration {
    let shortest = Duration::from_secs(records.min().unwrap_or_default().into());
    shortest.clamp(MIN_TTL, MAX_TTL)
}

/// IPv6 goes first only where there is a way to it: to try it first would cost every connection a call that fails
/// (RFC 6724 section 5, rule 1).
fn order_by_reachability(
    mut addresses: Vec<IpAddr>,
    is_reachable: impl Fn(Ipv6Addr) -> bool,
) -> Arc<[IpAddr]> {
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
mod tests;

//! Names to addresses. Each name is looked up once, however many connections ask for it, and remembered for its time to live; a
//! failure is remembered for a moment.
//!
//! `name_servers` asks name servers, many at a time, wherever that gives the same addresses as the system's resolver.
//! `system_resolver` is asked for all other names, so that hosts files, search domains and multicast names work as in other
//! programs. The system's configuration is read at the first lookup.
//!
//! A lookup is a task of its own (`lookups`) and does not end with the connection that asked for it. Its result is in the `cache`
//! for the next one.

mod cache;
mod lookups;
mod name_servers;
mod nsswitch;
mod system_resolver;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch::{self, Receiver};
use url::Url;

use super::config::{ConnectorConfig, PinnedAddress};
use crate::error::{Error, Kind};
use crate::target::Target;
use cache::LookupCache;
use lookups::{LookupState, NameLookups};

/// How long a failure is remembered: long enough to spare a thousand jobs the same wait, short enough for a retry.
const FAILURE_TTL: Duration = Duration::from_secs(3);

/// How often one call starts a lookup. A lookup may have been abandoned just before the call joined it.
const MAX_STARTS: usize = 2;

/// The addresses of names below `localhost`.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::LOCALHOST),
];

/// Why a name has no address.
#[derive(Debug, Clone)]
pub(super) struct LookupError {
    /// Whether the name may be found later.
    is_transient: bool,
    source: Arc<io::Error>,
}

impl LookupError {
    /// An error that says nothing about the name.
    fn transient(kind: io::ErrorKind) -> Self {
        Self {
            is_transient: true,
            source: Arc::new(kind.into()),
        }
    }

    pub(super) fn into_error(self, host: &str, url: &Url) -> Error {
        if !self.is_transient {
            // The resolvers word this differently, and none says more.
            return Error::new(Kind::NoSuchHost(host.to_owned()), url);
        }
        let error = Error::new(Kind::Resolve(host.to_owned()), url);
        // An error of the system is made anew from its number: `is_descriptor_limit` would not find it behind the `Arc`.
        match self.source.raw_os_error() {
            Some(number) => error.with_source(io::Error::from_raw_os_error(number)),
            None => error.with_source(self.source),
        }
    }
}

/// A name's addresses, and how long they hold.
#[derive(Debug, Clone)]
struct ResolvedAddresses {
    addresses: Arc<[IpAddr]>,
    ttl: Duration,
}

type LookupResult = Result<ResolvedAddresses, LookupError>;

/// Looks names up, and remembers them.
#[derive(Debug)]
pub(super) struct DnsResolver {
    pinned: Vec<PinnedAddress>,
    cache: Mutex<LookupCache>,
    lookups: NameLookups,
}

impl DnsResolver {
    pub(super) fn new(config: &ConnectorConfig) -> Self {
        Self {
            pinned: config.pinned_addresses.clone(),
            cache: Mutex::default(),
            lookups: NameLookups::new(config),
        }
    }

    /// Waits until the lookup of a target runs, and not for its end. Cancel safe.
    pub(super) async fn wait_for_slot(&self, target: &Target) {
        if self.known_addresses(target).is_none() {
            let mut state = self.lookup_state(&target.host);
            // An abandoned lookup is seen by `lookup`.
            let _ = state
                .wait_for(|state| !matches!(state, LookupState::Queued))
                .await;
        }
    }

    /// A target's addresses, in the resolver's order. Cancel safe: the lookup goes on, and its result is remembered.
    pub(super) async fn lookup(&self, target: &Target) -> Result<Arc<[IpAddr]>, LookupError> {
        if let Some(known) = self.known_addresses(target) {
            return Ok(known);
        }
        for _ in 0..MAX_STARTS {
            let mut state = self.lookup_state(&target.host);
            let finished = state.wait_for(|state| matches!(state, LookupState::Finished(..)));
            if let Ok(state) = finished.await
                && let LookupState::Finished(result, _) = &*state
            {
                return result.clone().map(|found| found.addresses);
            }
        }
        Err(LookupError::transient(io::ErrorKind::Interrupted))
    }

    /// Addresses that need no lookup.
    fn known_addresses(&self, target: &Target) -> Option<Arc<[IpAddr]>> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Some(Arc::new([address]));
        }
        let mut pinned = self.pinned.iter();
        let pinned = pinned.find(|pinned| {
            pinned.port == target.port && pinned.host.eq_ignore_ascii_case(&target.host)
        });
        if let Some(pinned) = pinned {
            return Some(pinned.addresses.as_slice().into());
        }
        is_below_localhost(&target.host).then(|| Arc::new(LOOPBACK) as Arc<[IpAddr]>)
    }

    /// The state of a name's lookup, which this starts if there is none.
    fn lookup_state(&self, host: &str) -> Receiver<LookupState> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = cache.get(host) {
            return state;
        }
        let (sender, state) = watch::channel(LookupState::Queued);
        cache.insert(host, state.clone());
        drop(cache);
        self.lookups.start(host.to_owned(), sender);
        state
    }
}

/// Whether a name is this machine by definition (RFC 6761 6.3): not every system's resolver knows it. For `localhost` itself the
/// hosts file counts, which may give only one of the addresses.
fn is_below_localhost(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let top_level = name.rsplit_once('.').map(|(_, top_level)| top_level);
    top_level.is_some_and(|name| name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests;

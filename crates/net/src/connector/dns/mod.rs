//! Names to addresses: each looked up once, however many ask, and remembered as long as it holds - failures for a moment.
//!
//! `own` asks name servers, many at a time, wherever that gives what the system's resolver would give; that one (`system`) is
//! asked for all else, so that hosts files, search domains and multicast names work as everywhere. What is set up is read
//! at the first look-up.
//!
//! A look-up belongs to nobody who waits for it (`lookups`): whoever gives up leaves it to come to its end, which is then known
//! to the next (`cache`).

mod cache;
mod lookups;
mod name_servers;
mod nsswitch;
mod system_resolver;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch::{self, Receiver};
use url::Url;

use super::config::{PinnedAddress, ResolverChoice};
use crate::error::{Error, Kind};
use crate::target::Target;
use cache::LookupCache;
use lookups::{LookupState, NameLookups};

/// How long a failure is remembered: long enough to spare a thousand jobs the same wait, short enough for a retry.
const FAILURE_TTL: Duration = Duration::from_secs(3);

/// How often a name is begun with for one who asks. What was given up just before somebody asked again is begun once more.
const MAX_STARTS: usize = 2;

/// Why a name has no address.
#[derive(Debug, Clone)]
pub(super) struct LookupError {
    /// Whether the name servers may know more later.
    is_transient: bool,
    source: Arc<io::Error>,
}

impl LookupError {
    /// One that says nothing about the name.
    fn transient(kind: io::ErrorKind) -> Self {
        Self {
            is_transient: true,
            source: Arc::new(kind.into()),
        }
    }

    pub(super) fn into_error(self, host: &str, url: &Url) -> Error {
        if !self.is_transient {
            // Each resolver has words of its own for that, and none says more.
            return Error::new(Kind::NoSuchHost(host.to_owned()), url);
        }
        let kind = Kind::Resolve(host.to_owned());
        // An error of the system's goes by its number, so that whoever looks for a cause finds it under the shared pointer.
        match self.source.raw_os_error() {
            Some(number) => Error::new(kind, url).with_source(io::Error::from_raw_os_error(number)),
            None => Error::new(kind, url).with_source(self.source),
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

/// The cache, and who is asked for what is not in it.
#[derive(Debug)]
pub(super) struct DnsResolver {
    pinned: Vec<PinnedAddress>,
    cache: Mutex<LookupCache>,
    lookups: NameLookups,
}

impl DnsResolver {
    /// `connect_timeout` is what a whole connection may take, its name included.
    pub(super) fn new(
        pinned: Vec<PinnedAddress>,
        (resolver, servers): (ResolverChoice, Vec<SocketAddr>),
        connect_timeout: Duration,
    ) -> Self {
        Self {
            pinned,
            cache: Mutex::default(),
            lookups: NameLookups::new((resolver, servers), connect_timeout),
        }
    }

    /// Waits until it is a target's turn to be looked up, which says nothing about it yet. Cancel safe.
    pub(super) async fn wait_for_slot(&self, target: &Target) {
        if self.known_addresses(target).is_none() {
            let mut state = self.lookup_state(&target.host);
            // Who looks it up sees how it ends.
            let _ = state
                .wait_for(|state| !matches!(state, LookupState::Queued))
                .await;
        }
    }

    /// A target's addresses, in the order of who told them. Cancel safe: the look-up goes on, and its end is remembered.
    pub(super) async fn lookup(&self, target: &Target) -> Result<Arc<[IpAddr]>, LookupError> {
        if let Some(told) = self.known_addresses(target) {
            return Ok(told);
        }
        for _ in 0..MAX_STARTS {
            let mut state = self.lookup_state(&target.host);
            let over = state.wait_for(|state| matches!(state, LookupState::Finished(..)));
            if let Ok(state) = over.await
                && let LookupState::Finished(answer, _) = &*state
            {
                return answer.clone().map(|found| found.addresses);
            }
        }
        Err(LookupError::transient(io::ErrorKind::Interrupted))
    }

    /// Whether there is nothing to be waited for: it is an address.
    pub(super) fn is_address(&self, target: &Target) -> bool {
        target.host.parse::<IpAddr>().is_ok()
    }

    /// Addresses for which nobody is asked.
    fn known_addresses(&self, target: &Target) -> Option<Arc<[IpAddr]>> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Some(Arc::new([address]));
        }
        let pinned = self
            .pinned
            .iter()
            .find(|pin| pin.port == target.port && pin.host.eq_ignore_ascii_case(&target.host));
        pinned.map(|pin| pin.addresses.as_slice().into())
    }

    /// How far a name's look-up is, which is begun if it is not known.
    fn lookup_state(&self, host: &str) -> Receiver<LookupState> {
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known.get(host) {
            return state;
        }
        let (told, state) = watch::channel(LookupState::Queued);
        known.insert(host, state.clone());
        drop(known);
        self.lookups.start(host.to_owned(), told);
        state
    }
}

#[cfg(test)]
mod tests;

//! Names to addresses: each looked up once, however many ask, and remembered as long as it holds - failures for a moment.
//!
//! `own` asks name servers, many at a time, wherever that gives what the system's resolver would give; that one (`system`) is
//! asked for all else, so that hosts files, search domains and multicast names work as everywhere. What is set up is read
//! at the first look-up.

mod nsswitch;
mod own;
mod system;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;
use url::Url;

use super::Target;
use crate::error::{Error, Kind};
use own::{NoAnswer, Own};

/// How long a failure is remembered: long enough to spare a thousand jobs the same wait, short enough for a retry.
const FAILED: Duration = Duration::from_secs(3);

/// How many names are remembered.
const CAPACITY: usize = 10_000;

/// How many are looked up at once: name servers at home drop what comes in larger heaps, and the system's resolver takes a
/// thread for each.
const AT_ONCE: usize = 64;

/// Who looks names up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolver {
    /// Our own, where it answers as the system would; else the system's.
    #[default]
    Auto,
    /// The system's.
    System,
    /// Our own, whatever else the system is set up to ask.
    Hickory,
}

/// An address told beforehand for a name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The name.
    pub host: String,
    /// The port that it holds for.
    pub port: u16,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Why a name has no address.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// Whether the name servers may know more later.
    transient: bool,
    source: Arc<io::Error>,
}

impl Failure {
    pub(super) fn into_error(self, host: &str, url: &Url) -> Error {
        if !self.transient {
            // Each resolver has words of its own for that, and none says more.
            return Error::new(Kind::NoSuchHost(host.to_owned()), url);
        }
        let kind = Kind::Resolve(host.to_owned());
        // An error of the system's goes by its number, so that whoever looks for a cause finds it under the shared pointer.
        match self.source.raw_os_error() {
            Some(number) => Error::new(kind, url).because(io::Error::from_raw_os_error(number)),
            None => Error::new(kind, url).because(self.source),
        }
    }
}

/// A name's addresses, and how long they hold.
#[derive(Debug, Clone)]
struct Found {
    addresses: Arc<[IpAddr]>,
    life: Duration,
}

type Answer = Result<Found, Failure>;

/// A name's look-up, under way or done.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// With the moment until which it holds, which counts from when it came: the usual failure takes longer to come than it is
    /// remembered.
    cell: Arc<OnceCell<(Answer, Instant)>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        // Under way: joined by whoever else asks.
        self.cell.get().is_none_or(|(_, end)| Instant::now() < *end)
    }
}

/// The cache, and who is asked for what is not in it.
#[derive(Debug)]
pub(super) struct Dns {
    pins: Vec<Pin>,
    known: Mutex<Known>,
    /// What is to be asked, as it was set.
    settings: (Resolver, Vec<SocketAddr>),
    /// The resolver of our own, if it is to be asked; made at the first look-up.
    own: OnceLock<Option<Own>>,
    /// Look-ups at once.
    permits: Semaphore,
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<String, Entry>,
    /// As they came. Those that were replaced meanwhile are here a second time.
    order: VecDeque<(String, Entry)>,
}

impl Dns {
    pub(super) fn new(pins: Vec<Pin>, resolver: Resolver, servers: Vec<SocketAddr>) -> Self {
        Self {
            pins,
            known: Mutex::default(),
            settings: (resolver, servers),
            own: OnceLock::new(),
            permits: Semaphore::new(AT_ONCE),
        }
    }

    /// A target's addresses, in the order of who told them. Cancel safe: whoever else waits for the name looks it up.
    pub(super) async fn lookup(&self, target: &Target) -> Result<Arc<[IpAddr]>, Failure> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(Arc::new([address]));
        }
        let pinned = self
            .pins
            .iter()
            .find(|pin| pin.port == target.port && pin.host.eq_ignore_ascii_case(&target.host));
        if let Some(pin) = pinned {
            return Ok(pin.addresses.as_slice().into());
        }
        let entry = self.entry(&target.host);
        let ask = || async {
            let answer = self.ask(&target.host).await;
            let life = answer.as_ref().map_or(FAILED, |found| found.life);
            (answer, Instant::now() + life)
        };
        let (answer, _) = entry.cell.get_or_init(ask).await;
        answer.clone().map(|found| found.addresses)
    }

    fn entry(&self, host: &str) -> Entry {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.entries.get(host).filter(|entry| entry.is_fresh()) {
            return entry.clone();
        }
        let entry = Entry::default();
        known.entries.insert(host.to_owned(), entry.clone());
        known.order.push_back((host.to_owned(), entry.clone()));
        if known.order.len() > CAPACITY
            && let Some((oldest, entry)) = known.order.pop_front()
            && let Some(held) = known.entries.get(&oldest)
            && Arc::ptr_eq(&held.cell, &entry.cell)
        {
            known.entries.remove(&oldest);
        }
        entry
    }

    /// Asks whoever is to be asked.
    async fn ask(&self, host: &str) -> Answer {
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let (resolver, servers) = &self.settings;
        let own = self.own.get_or_init(|| Own::new(*resolver, servers));
        let Some(own) = own else {
            return system::ask(host).await;
        };
        match own.ask(host).await {
            Ok(found) => Ok(found),
            Err(NoAnswer::Final(failure)) => Err(failure),
            Err(NoAnswer::NotOurs | NoAnswer::Trouble) => system::ask(host).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16) -> Target {
        Target {
            host: host.into(),
            port,
        }
    }

    fn plain() -> Dns {
        Dns::new(Vec::new(), Resolver::System, Vec::new())
    }

    #[tokio::test]
    async fn pins_and_literals_are_never_looked_up() {
        let pin = Pin {
            host: "Pinned.test".into(),
            port: 80,
            addresses: vec![[127, 0, 0, 9].into()],
        };
        let dns = Dns::new(vec![pin], Resolver::System, Vec::new());
        assert_eq!(
            *dns.lookup(&target("pinned.TEST", 80)).await.unwrap(),
            [IpAddr::from([127, 0, 0, 9])]
        );
        assert_eq!(
            *dns.lookup(&target("::1", 443)).await.unwrap(),
            ["::1".parse::<IpAddr>().unwrap()]
        );
        assert!(dns.known.lock().unwrap().entries.is_empty());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_for_all_who_ask() {
        let dns = plain();
        let host = target("localhost", 80);
        let (a, b) = tokio::join!(dns.lookup(&host), dns.lookup(&host));
        assert_eq!(a.unwrap(), b.unwrap());
        assert_eq!(dns.known.lock().unwrap().entries.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_is_remembered_until_its_time_is_over() {
        let dns = plain();
        let entry = dns.entry("h");
        // Name servers that are silent take longer to fail than failures are remembered.
        tokio::time::advance(FAILED * 2).await;
        let failure = Failure {
            transient: true,
            source: Arc::new(io::ErrorKind::TimedOut.into()),
        };
        entry
            .cell
            .set((Err(failure), Instant::now() + FAILED))
            .expect("nobody asked");
        let known = |dns: &Dns| Arc::ptr_eq(&dns.entry("h").cell, &entry.cell);
        tokio::time::advance(FAILED / 2).await;
        assert!(known(&dns));
        tokio::time::advance(FAILED).await;
        assert!(!known(&dns));
    }

    #[tokio::test]
    async fn the_cache_never_outgrows_its_bound() {
        let dns = plain();
        (0..CAPACITY * 2).for_each(|n| drop(dns.entry(&n.to_string())));
        let known = dns.known.lock().unwrap();
        assert_eq!(
            (known.entries.len(), known.order.len()),
            (CAPACITY, CAPACITY)
        );
        assert!(
            known.entries.contains_key(&CAPACITY.to_string()),
            "the oldest went"
        );
    }
}

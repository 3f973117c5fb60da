//! Names to addresses: each looked up once, however many ask, and remembered for a while - failures too.
//!
//! The system's resolver is asked, so that hosts files, search domains and multicast names work as everywhere else. It
//! blocks a thread a look-up, which is why one flight a name matters.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use super::Target;
use crate::error::{Error, Kind};

/// How long addresses are remembered. The system's resolver does not tell a record's time to live; this is the least
/// that large sites give theirs.
const FOUND: Duration = Duration::from_secs(60);

/// How long a failure is remembered: long enough to spare a thousand jobs the same wait, short enough for a retry.
const FAILED: Duration = Duration::from_secs(3);

/// How many names are remembered.
const CAPACITY: usize = 4096;

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
        let kind = if self.transient {
            Kind::Resolve(host.to_owned())
        } else {
            Kind::NoSuchHost(host.to_owned())
        };
        // An error of the system's goes by its number, so that whoever looks for a cause finds it under the shared pointer.
        match self.source.raw_os_error() {
            Some(number) => Error::new(kind, url).because(io::Error::from_raw_os_error(number)),
            None => Error::new(kind, url).because(self.source),
        }
    }
}

type Answer = Result<Arc<[IpAddr]>, Failure>;

/// A name's look-up, under way or done.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// With the moment that it came: the usual failure takes longer to come than it is remembered.
    cell: Arc<OnceCell<(Answer, Instant)>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        match self.cell.get() {
            Some((Ok(_), came)) => came.elapsed() < FOUND,
            Some((Err(_), came)) => came.elapsed() < FAILED,
            // Under way: joined by whoever else asks.
            None => true,
        }
    }
}

/// The cache.
#[derive(Debug)]
pub(super) struct Dns {
    pins: Vec<Pin>,
    known: Mutex<HashMap<String, Entry>>,
}

impl Dns {
    pub(super) fn new(pins: Vec<Pin>) -> Self {
        Self {
            pins,
            known: Mutex::default(),
        }
    }

    /// A target's addresses, in the system's order. Cancel safe: another caller's look-up goes on.
    pub(super) async fn lookup(&self, target: &Target) -> Answer {
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
        let ask = || async { (ask(&target.host).await, Instant::now()) };
        let entry = self.entry(&target.host);
        entry.cell.get_or_init(ask).await.0.clone()
    }

    fn entry(&self, host: &str) -> Entry {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get(host).filter(|entry| entry.is_fresh()) {
            return entry.clone();
        }
        if known.len() >= CAPACITY {
            known.retain(|_, entry| entry.is_fresh());
            if known.len() >= CAPACITY {
                known.clear();
            }
        }
        let entry = Entry::default();
        known.insert(host.to_owned(), entry.clone());
        entry
    }
}

async fn ask(host: &str) -> Answer {
    // The port is the resolver's formality: addresses are for the name.
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => Ok(found.map(|address| address.ip()).collect()),
        Err(source) => {
            let source = shortage().unwrap_or(source);
            Err(Failure {
                transient: is_transient(&source),
                source: Arc::new(source),
            })
        }
    }
}

/// Whether there is no descriptor left: the resolver then cannot open its files, and says that there is no such name.
fn shortage() -> Option<io::Error> {
    let opened = std::fs::File::open("/dev/null");
    opened.err().filter(crate::shortage::is_shortage)
}

/// Whether a name may be found later. The standard library tells the resolver's own codes by their text only, which is
/// another in each C library; an error with a number is the system's and not about the name.
fn is_transient(error: &io::Error) -> bool {
    match error.raw_os_error() {
        // Windows has numbers for the resolver's too: WSAHOST_NOT_FOUND and WSANO_DATA are about the name.
        Some(code) => !(cfg!(windows) && matches!(code, 11_001 | 11_004)),
        None => {
            let text = error.to_string().to_ascii_lowercase();
            ["temporary", "try again"]
                .iter()
                .any(|sign| text.contains(sign))
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

    #[tokio::test]
    async fn pins_and_literals_are_never_looked_up() {
        let pin = Pin {
            host: "Pinned.test".into(),
            port: 80,
            addresses: vec![[127, 0, 0, 9].into()],
        };
        let dns = Dns::new(vec![pin]);
        assert_eq!(
            *dns.lookup(&target("pinned.TEST", 80)).await.unwrap(),
            [IpAddr::from([127, 0, 0, 9])]
        );
        assert_eq!(
            *dns.lookup(&target("::1", 443)).await.unwrap(),
            ["::1".parse::<IpAddr>().unwrap()]
        );
        assert!(dns.known.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_for_all_who_ask() {
        let dns = Dns::new(Vec::new());
        let host = target("localhost", 80);
        let (a, b) = tokio::join!(dns.lookup(&host), dns.lookup(&host));
        assert_eq!(a.unwrap(), b.unwrap());
        assert_eq!(dns.known.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_remembered_from_when_it_came() {
        let dns = Dns::new(Vec::new());
        let entry = dns.entry("h");
        // Name servers that are silent take longer to fail than failures are remembered.
        tokio::time::advance(FAILED * 2).await;
        let failure = Failure {
            transient: true,
            source: Arc::new(io::ErrorKind::TimedOut.into()),
        };
        entry
            .cell
            .set((Err(failure), Instant::now()))
            .expect("nobody asked");
        let known = |dns: &Dns| Arc::ptr_eq(&dns.entry("h").cell, &entry.cell);
        tokio::time::advance(FAILED / 2).await;
        assert!(known(&dns));
        tokio::time::advance(FAILED).await;
        assert!(!known(&dns));
    }

    #[test]
    fn b8_trouble_here_or_at_the_name_servers_is_not_about_the_name() {
        let said =
            |text: &str| io::Error::other(format!("failed to lookup address information: {text}"));
        for transient in [
            said("Temporary failure in name resolution"),
            said("Try again"),
            // Too many open files.
            io::Error::from_raw_os_error(24),
        ] {
            assert!(is_transient(&transient), "{transient}");
        }
        for lasting in ["Name or service not known", "Name does not resolve"] {
            assert!(!is_transient(&said(lasting)), "{lasting}");
        }
    }

    #[tokio::test]
    async fn the_cache_never_outgrows_its_bound() {
        let dns = Dns::new(Vec::new());
        (0..=CAPACITY * 2).for_each(|n| drop(dns.entry(&n.to_string())));
        assert!(dns.known.lock().unwrap().len() <= CAPACITY);
    }
}

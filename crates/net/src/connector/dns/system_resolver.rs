//! The system's resolver. It knows everything that is configured on this machine, tells no time to live, and blocks a thread for
//! each name.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::{LookupError, LookupResult, ResolvedAddresses};
use crate::error::is_descriptor_limit;
use crate::zone::address_with_zone;

/// How long addresses are remembered: the shortest time to live that large sites use.
const SYSTEM_TTL: Duration = Duration::from_secs(60);

/// What a lookup holds as long as its thread runs.
pub(super) type LookupPermit = OwnedSemaphorePermit;

/// A name's addresses. Dropped, it leaves its thread behind, which cannot be stopped, and with it the permit.
pub(super) async fn resolve(host: &str, permit: LookupPermit) -> LookupResult {
    let host = host.to_owned();
    let addresses = run_in_thread(permit, move || {
        // The function wants a port, and does nothing with it.
        let found = (host.as_str(), 0).to_socket_addrs()?;
        Ok(found.map(address_with_zone).collect())
    });
    match addresses.await {
        Ok(addresses) => Ok(ResolvedAddresses {
            addresses,
            ttl: SYSTEM_TTL,
        }),
        Err(source) => {
            let source = descriptor_limit_error().unwrap_or(source);
            Err(LookupError {
                is_transient: is_transient(&source),
                source: Arc::new(source),
            })
        }
    }
}

async fn run_in_thread(
    permit: LookupPermit,
    resolve: impl FnOnce() -> io::Result<Arc<[IpAddr]>> + Send + 'static,
) -> io::Result<Arc<[IpAddr]>> {
    let mut thread = JoinSet::new();
    thread.spawn_blocking(move || {
        let _permit = permit;
        resolve()
    });
    let joined = thread
        .join_next()
        .await
        .transpose()
        .map_err(io::Error::other)?;
    joined.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()))
}

/// The error of a machine without free descriptors. Then the resolver cannot open its files, and reports that the name does not
/// exist.
fn descriptor_limit_error() -> Option<io::Error> {
    let opened = std::fs::File::open("/dev/null");
    opened.err().filter(is_descriptor_limit)
}

/// Whether the name may be found later. The standard library passes on the resolver's own errors as text alone, which differs
/// between C libraries. An error with a number is the system's and says nothing about the name.
fn is_transient(error: &io::Error) -> bool {
    if error.raw_os_error().is_some() {
        return true;
    }
    let text = error.to_string().to_ascii_lowercase();
    text.contains("temporary") || text.contains("try again")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn b8_the_thread_of_an_abandoned_lookup_keeps_its_permit_until_it_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = || Arc::clone(&permits).acquire_owned();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let mut lookup = Box::pin(run_in_thread(permit().await.unwrap(), move || {
            started.send(()).unwrap();
            let _ = may_end.recv();
            Ok(Arc::new([]))
        }));
        assert!((&mut lookup).now_or_never().is_none());
        has_started.await.unwrap();
        drop(lookup);
        assert_eq!(permits.available_permits(), 0);
        drop(end);
        drop(permit().await.unwrap());
    }

    #[test]
    fn b8_failures_of_this_machine_or_the_name_servers_are_transient() {
        let resolver_error =
            |text: &str| io::Error::other(format!("failed to lookup address information: {text}"));
        for transient in [
            resolver_error("Temporary failure in name resolution"),
            resolver_error("Try again"),
            io::Error::from_raw_os_error(libc::EMFILE),
        ] {
            assert!(is_transient(&transient), "{transient}");
        }
        for lasting in ["Name or service not known", "Name does not resolve"] {
            assert!(!is_transient(&resolver_error(lasting)), "{lasting}");
        }
    }
}

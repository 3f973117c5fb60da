//! The system's resolver: it knows everything that is set up here, tells no time to live, and blocks a thread a look-up.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::{LookupError, LookupResult, ResolvedAddresses};

/// How long its addresses are remembered: the least that large sites give theirs.
const SYSTEM_TTL: Duration = Duration::from_secs(60);

/// What a look-up holds for as long as it takes a thread.
pub(super) type LookupPermit = OwnedSemaphorePermit;

/// A name's addresses. Dropped, it leaves its thread behind, which nobody can stop, and with it the permit.
pub(super) async fn resolve(host: &str, permit: LookupPermit) -> LookupResult {
    let host = host.to_owned();
    let found = run_in_thread(permit, move || {
        // The port is the resolver's formality: addresses are for the name.
        let found = (host.as_str(), 0).to_socket_addrs()?;
        Ok(found.map(|address| address.ip()).collect())
    });
    match found.await {
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
    let ended = thread.join_next().await.transpose();
    let ended = ended.map_err(io::Error::other)?;
    ended.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()))
}

/// Whether there is no descriptor left: the resolver then cannot open its files, and says that there is no such name.
fn descriptor_limit_error() -> Option<io::Error> {
    let opened = std::fs::File::open("/dev/null");
    opened.err().filter(crate::error::is_descriptor_limit)
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
    use std::sync::mpsc;

    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn b8_a_thread_that_was_given_up_keeps_its_permit_until_it_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = || Arc::clone(&permits).acquire_owned();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (end, ends) = mpsc::channel::<()>();
        let mut asked = Box::pin(run_in_thread(permit().await.unwrap(), move || {
            begun.send(()).unwrap();
            let _ = ends.recv();
            Ok(Arc::new([]))
        }));
        assert!((&mut asked).now_or_never().is_none());
        begins.await.unwrap();
        drop(asked);
        assert_eq!(permits.available_permits(), 0);
        drop(end);
        drop(permit().await.unwrap());
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
}

//! The system's resolver: it knows everything that is set up here, tells no time to live, and blocks a thread a look-up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Failure, Found};

/// How long its addresses are remembered: the least that large sites give theirs.
const FOUND: Duration = Duration::from_secs(60);

pub(super) async fn ask(host: &str) -> Answer {
    // The port is the resolver's formality: addresses are for the name.
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => Ok(Found {
            addresses: found.map(|address| address.ip()).collect(),
            life: FOUND,
        }),
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

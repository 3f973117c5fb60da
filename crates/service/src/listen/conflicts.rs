//! Whether an address is in use by this process, and not by another server.

use std::net::IpAddr;
use std::path::Path;

use super::address::{ListenAddress, ListenHost};
use super::error::ListenError;
use super::listener::{BoundAddress, BoundListener};

#[must_use]
pub fn bound_addresses(bound: &[BoundListener]) -> Vec<BoundAddress> {
    bound.iter().map(|bound| bound.local.clone()).collect()
}

/// Whether this process, which listens at `locals`, uses the address in the error.
#[must_use]
pub fn is_taken_by_this_process(error: &ListenError, locals: &[BoundAddress]) -> bool {
    let is_among = |address: &ListenAddress| locals.iter().any(|local| conflicts(address, local));
    match error {
        ListenError::InUse { address } => is_among(address),
        ListenError::SocketInUse { path } => is_among(&ListenAddress::Unix {
            path: path.clone(),
            mode: None,
        }),
        _ => false,
    }
}

/// Whether a process cannot listen on `address` while it listens at `local`, since both would accept the same connections.
fn conflicts(address: &ListenAddress, local: &BoundAddress) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4())
    };
    match (address, local) {
        (ListenAddress::Tcp { host, port }, BoundAddress::Tcp(local)) => {
            let ip = local.ip().to_canonical();
            let meets = match host {
                ListenHost::Ip(host) => {
                    let host = host.to_canonical();
                    covers(host, ip) || covers(ip, host)
                }
                ListenHost::Any | ListenHost::Name(_) => true,
            };
            *port == local.port() && meets
        }
        (ListenAddress::Unix { path, .. }, BoundAddress::Unix(Some(local))) => {
            is_same_file(path, local)
        }
        _ => false,
    }
}

/// Whether two paths name one file.
fn is_same_file(path: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    canonical(path).is_some_and(|path| canonical(other) == Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_conflicts_with_each_and_an_address_with_itself() {
        let local = |text: &str| BoundAddress::Tcp(text.parse().unwrap());
        for (address, at, is) in [
            ("9993", "127.0.0.1:9993", true),
            ("9993", "127.0.0.1:9994", false),
            ("127.0.0.2:9993", "127.0.0.1:9993", false),
            ("*:9993", "127.0.0.1:9993", true),
            ("127.0.0.1:9993", "[::]:9993", true),
            ("127.0.0.1:9993", "0.0.0.0:9993", true),
            ("[::1]:9993", "0.0.0.0:9993", false),
            ("0.0.0.0:9993", "[::1]:9993", false),
            ("localhost:9993", "127.0.0.1:9993", true),
            ("0", "127.0.0.1:9993", false),
            ("unix:/a.sock", "127.0.0.1:9993", false),
        ] {
            let address: ListenAddress = address.parse().unwrap();
            assert_eq!(conflicts(&address, &local(at)), is, "{address} {at}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        std::fs::write(&path, "").unwrap();
        let address = |mode| ListenAddress::Unix {
            path: path.clone(),
            mode,
        };
        let at = BoundAddress::Unix(Some(path.clone()));
        assert!(conflicts(&address(Some(0o600)), &at) && conflicts(&address(None), &at));
        assert!(!conflicts(&address(None), &BoundAddress::Unix(None)));
    }
}

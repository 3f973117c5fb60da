//! Addresses that a command takes from itself: told as a mistake on its command line, not as another server that is in the way.

use std::net::IpAddr;
use std::path::Path;

use haul_service::listen::{BoundAddress, ListenAddress, ListenError, ListenHost};

use super::command_error::CommandError;

/// Whether the server that has taken an address is this one, which listens at `locals`.
pub(crate) fn is_taken_by_this_process(error: &ListenError, locals: &[BoundAddress]) -> bool {
    let is_among = |address: &ListenAddress| locals.iter().any(|local| conflicts(address, local));
    match error {
        ListenError::Taken { address } => is_among(address),
        ListenError::Running { path } => is_among(&ListenAddress::Unix {
            path: path.clone(),
            mode: None,
        }),
        _ => false,
    }
}

/// Whether an address cannot be listened on while there is a listener at `local`, for both take what comes to one of them.
pub(crate) fn conflicts(address: &ListenAddress, local: &BoundAddress) -> bool {
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
                ListenHost::Every | ListenHost::Name(_) => true,
            };
            *port == local.port() && meets
        }
        (ListenAddress::Unix { path, .. }, BoundAddress::Unix(Some(local))) => {
            is_same_file(path, local)
        }
        _ => false,
    }
}

/// Whether two paths lead to one file, however they go there.
fn is_same_file(path: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(path).is_some_and(|path| whole(other) == Some(path))
}

/// An address that the command has given away already, by what stood `before`. `why` a port may be without being the same.
pub(crate) fn used_twice_error(
    (flag, address): (&str, &ListenAddress),
    before: &str,
    why: &str,
) -> CommandError {
    let given = format!("{flag} {address}");
    let given = given.trim_start();
    let told = format!("{given} is taken by an earlier {before} of this command");
    CommandError::usage(told).with_hint(match address {
        ListenAddress::Unix { .. } => "leave one of them out, or name another path".to_owned(),
        _ => format!("leave one of them out, or take another port: {why}"),
    })
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

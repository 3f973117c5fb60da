//! Addresses that a command takes from itself: told as a mistake on its command line, not as another server that is in the way.

use std::net::IpAddr;
use std::path::Path;

use haul_service::listen::{Address, Host, ListenError, Local};

use super::trouble::Trouble;

/// Whether the server that has taken an address is this one, which listens at `locals`.
pub(crate) fn is_own(error: &ListenError, locals: &[Local]) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4())
    };
    let is_same = |local: &Local| match (error, local) {
        (
            ListenError::Taken {
                address: Address::Tcp { host, port },
            },
            Local::Tcp(local),
        ) => {
            let ip = local.ip().to_canonical();
            let meets = match host {
                Host::Ip(host) => {
                    let host = host.to_canonical();
                    covers(host, ip) || covers(ip, host)
                }
                Host::Every | Host::Name(_) => true,
            };
            *port == local.port() && meets
        }
        (ListenError::Running { path }, Local::Unix(Some(local))) => is_one(path, local),
        _ => false,
    };
    locals.iter().any(is_same)
}

/// Whether two paths lead to one file, however they go there.
fn is_one(path: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(path).is_some_and(|path| whole(other) == Some(path))
}

/// An address that the command has given away already, by what stood `before`. `why` a port may be without being the same.
pub(crate) fn twice((flag, address): (&str, &Address), before: &str, why: &str) -> Trouble {
    let given = format!("{flag} {address}");
    let given = given.trim_start();
    let told = format!("{given} is taken by an earlier {before} of this command");
    Trouble::usage(told).hint(match address {
        Address::Unix { .. } => "leave one of them out, or name another path".to_owned(),
        _ => format!("leave one of them out, or take another port: {why}"),
    })
}

//! Addresses that a command takes from itself: told as a mistake on its command line, not as another server that is in the way.

use std::net::IpAddr;

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
        _ => false,
    };
    locals.iter().any(is_same)
}

/// An address that the command has given away already, by what stood before.
pub(crate) fn twice(flag: &str, before: &str, why: &str) -> Trouble {
    let told = format!("{flag} is taken by an earlier {before} of this command");
    Trouble::usage(told).hint(format!(
        "leave one of them out, or take another port: {why}"
    ))
}

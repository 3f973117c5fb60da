//! The addresses of this machine that other machines can connect to.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Maximum addresses: a machine with containers has dozens, and most of them are for these alone.
const MAX_ADDRESSES: usize = 4;

/// The addresses at which other machines most likely reach a server that listens on every
/// interface, the most likely first.
#[must_use]
pub fn reachable_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    let running = interfaces.filter(if_addrs::Interface::is_oper_up);
    select(
        outbound_addresses(),
        running.map(|interface| interface.ip()),
    )
}

/// The outbound addresses, then the others, IPv4 first, as people type it more easily.
fn select(
    outbound: impl Iterator<Item = IpAddr>,
    interfaces: impl Iterator<Item = IpAddr>,
) -> Vec<IpAddr> {
    let mut others: Vec<IpAddr> = interfaces.collect();
    others.sort_by_key(IpAddr::is_ipv6);
    let mut seen = HashSet::new();
    let addresses = outbound.chain(others).filter(|ip| is_reachable(*ip));
    addresses
        .filter(|ip| seen.insert(*ip))
        .take(MAX_ADDRESSES)
        .collect()
}

/// Whether a URL with this address may work on another machine. A link-local IPv6 address needs the
/// name of that machine's interface, which URLs cannot hold.
fn is_reachable(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || is_link_local)
}

/// The addresses from which this machine would connect to others: a datagram socket has one as soon
/// as it has a peer, and nothing is sent. The peers belong to no network (RFC 5737, RFC 3849).
fn outbound_addresses() -> impl Iterator<Item = IpAddr> {
    let peers: [IpAddr; 2] = [
        Ipv4Addr::new(192, 0, 2, 1).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    peers.into_iter().filter_map(|peer| {
        let any: IpAddr = match peer {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((peer, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(outbound: &[&str], interfaces: &[&str]) -> Vec<String> {
        let parse = |ip: &&str| ip.parse::<IpAddr>().expect("an address");
        let selected = select(outbound.iter().map(parse), interfaces.iter().map(parse));
        selected.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_addresses_of_all_interfaces_follow_the_outbound_ones() {
        let interfaces = [
            "127.0.0.1",
            "::1",
            "fe80::1",
            "fd00::7",
            "169.254.3.4",
            "192.168.1.7",
            "10.0.0.7",
        ];
        assert_eq!(
            selected(&["10.0.0.7", "fd00::7"], &interfaces),
            ["10.0.0.7", "fd00::7", "192.168.1.7"]
        );
        // A network without a gateway.
        assert_eq!(
            selected(&[], &interfaces),
            ["192.168.1.7", "10.0.0.7", "fd00::7"]
        );
        assert_eq!(selected(&[], &["127.0.0.1", "fe80::1"]), [""; 0]);
    }

    #[test]
    fn containers_do_not_fill_the_screen() {
        let addresses: Vec<String> = (0..40).map(|n| format!("172.{n}.0.1")).collect();
        let bridges: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let selected = selected(&["192.168.1.7"], &bridges);
        assert_eq!(selected.len(), MAX_ADDRESSES);
        assert_eq!(selected[0], "192.168.1.7");
    }

    #[test]
    fn this_machine_has_only_addresses_that_others_can_use() {
        assert!(reachable_addresses().into_iter().all(is_reachable));
    }
}

//! The addresses that a server listens on: who can reach them, their URLs, and their socket files.

use std::net::{IpAddr, Ipv4Addr};

use haul_service::listen::{BoundAddress, BoundListener, SocketFile};
use haul_service::reachable_addresses;

/// The socket files of listeners. They are removed when this is dropped.
pub(crate) type SocketFiles = Vec<Option<SocketFile>>;

pub(crate) fn bound_addresses(bound: &[BoundListener]) -> Vec<BoundAddress> {
    bound.iter().map(|bound| bound.local.clone()).collect()
}

/// Whether other machines can reach the address. A socket file has permissions instead.
pub(crate) fn is_public(address: &BoundAddress) -> bool {
    match address {
        BoundAddress::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        BoundAddress::Unix(_) => false,
    }
}

/// The URLs of an address, or the path of a socket.
pub(crate) fn urls(address: &BoundAddress, is_secure: bool) -> Vec<String> {
    let BoundAddress::Tcp(tcp) = address else {
        return vec![address.to_string()];
    };
    let scheme = if is_secure { "https" } else { "http" };
    let url = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => format!("{scheme}://{ip}:{}/", tcp.port()),
        IpAddr::V6(ip) => format!("{scheme}://[{ip}]:{}/", tcp.port()),
    };
    let ip = tcp.ip().to_canonical();
    if !ip.is_unspecified() {
        return vec![url(ip)];
    }
    // Browsers do not accept 0.0.0.0: the loopback address, and the addresses that others may use.
    let others = reachable_addresses().into_iter();
    let others = others.filter(|other| ip.is_ipv6() || other.is_ipv4());
    let own = IpAddr::from(Ipv4Addr::LOCALHOST);
    std::iter::once(own).chain(others).map(url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> BoundAddress {
        BoundAddress::Tcp(address.parse().unwrap())
    }

    #[test]
    fn urls_work_in_a_browser() {
        assert_eq!(urls(&tcp("127.0.0.1:80"), false), ["http://127.0.0.1:80/"]);
        assert_eq!(urls(&tcp("[::1]:8443"), true), ["https://[::1]:8443/"]);
        let unix = BoundAddress::Unix(Some("/run/a.sock".into()));
        assert_eq!(urls(&unix, true), ["unix:/run/a.sock"]);
        for every in ["0.0.0.0:80", "[::]:80"] {
            let urls = urls(&tcp(every), false);
            assert_eq!(urls[0], "http://127.0.0.1:80/");
            let is_for_v4 = |url: &String| !url.contains('[');
            assert!(
                every.contains('[') || urls.iter().all(is_for_v4),
                "{urls:?}"
            );
        }
    }

    #[test]
    fn loopback_and_socket_files_are_not_public() {
        for (address, is) in [
            ("127.0.0.1:80", false),
            ("127.9.9.9:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("192.0.2.1:80", true),
        ] {
            assert_eq!(is_public(&tcp(address)), is, "{address}");
        }
        assert!(!is_public(&BoundAddress::Unix(None)));
    }
}

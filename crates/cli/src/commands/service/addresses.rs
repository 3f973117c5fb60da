//! The addresses that a server listens on: who can reach them, their URLs, their socket files. Conflicts between addresses of one command
//! are reported as usage errors and not as another server in the way.

use std::net::{IpAddr, Ipv4Addr};

use haul_net::{address_with_zone, ipv6_text};
use haul_service::listen::{BoundAddress, ListenAddress, SocketFile};
use haul_service::reachable_addresses;

use super::command_error::CommandError;

/// The socket files of listeners. They are removed when this is dropped.
pub(crate) type SocketFiles = Vec<Option<SocketFile>>;

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
        IpAddr::V6(ip) => {
            // In the form that haul and curl take.
            let text = ipv6_text(ip).replace('%', "%25");
            format!("{scheme}://[{text}]:{}/", tcp.port())
        }
    };
    let ip = tcp.ip().to_canonical();
    if !ip.is_unspecified() {
        return vec![url(address_with_zone(*tcp).to_canonical())];
    }
    // Browsers do not accept 0.0.0.0: the loopback address, and the addresses that others may use.
    let others = reachable_addresses()
        .into_iter()
        .filter(|other| ip.is_ipv6() || other.is_ipv4());
    let own = IpAddr::from(Ipv4Addr::LOCALHOST);
    std::iter::once(own).chain(others).map(url).collect()
}

/// The error about an address that an earlier `before` of the command uses. `why` explains a port that is not the same.
pub(crate) fn used_twice_error(
    flag: &str,
    address: &ListenAddress,
    before: &str,
    why: &str,
) -> CommandError {
    let flag_and_address = format!("{flag} {address}");
    let given = flag_and_address.trim_start();
    let message = format!("{given} is already used by another {before} of this command");
    CommandError::usage(message).with_hint(match address {
        ListenAddress::Unix { .. } => "leave one out, or use another path".to_owned(),
        _ => format!("leave one out, or use another port: {why}"),
    })
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
        let zoned = urls(&tcp("[fe80::1%1]:80"), false);
        assert_eq!(zoned, ["http://[fe80::1%25lo]:80/"]);
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

//! The addresses that a server listens on: who can reach them, their URLs, their socket files, and conflicts between addresses of one
//! command, which are reported as usage errors and not as another server in the way.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use haul_net::{address_with_zone, ipv6_text};
use haul_service::listen::{
    BoundAddress, BoundListener, ListenAddress, ListenError, ListenHost, SocketFile,
};
use haul_service::reachable_addresses;

use super::command_error::CommandError;

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

/// Whether this process, which listens at `locals`, uses the address in the error.
pub(crate) fn is_taken_by_this_process(error: &ListenError, locals: &[BoundAddress]) -> bool {
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

/// Whether haul cannot listen on `address` while it listens at `local`, since both would accept the same connections.
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

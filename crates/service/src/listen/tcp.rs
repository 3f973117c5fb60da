//! Binds TCP addresses.
//!
//! Two things are less simple than they look. `SO_REUSEPORT` lets any process of the same user join the group: a second server
//! started by mistake would silently get half of the connections, so a port is tried without it first. And a name with two
//! addresses and port 0 must get the same port on both, where the second address may have it in use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

use super::address::{ListenAddress, ListenHost};
use super::error::{ListenError, is_not_local};
use super::listener::{BindOptions, BoundAddress, BoundListener, Listener, set_inherited_options};

/// How many ports are tried for several addresses and port 0.
const MAX_TRIES: usize = 8;

/// Binds every address of a host.
pub(super) fn bind(
    address: &ListenAddress,
    host: &ListenHost,
    port: u16,
    options: &BindOptions,
) -> Result<Vec<BoundListener>, ListenError> {
    let candidates = match host {
        ListenHost::Ip(ip) => vec![SocketAddr::new(*ip, port)],
        ListenHost::Any => {
            return bind_any(port, options).map_err(|e| ListenError::from_tcp(address, e));
        }
        ListenHost::Name(name) => resolve(address, name, port)?,
    };
    let mut left = MAX_TRIES;
    loop {
        left -= 1;
        match bind_all(&candidates, options) {
            Err(error) if port == 0 && left > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map_err(|e| ListenError::from_tcp(address, e)),
        }
    }
}

fn resolve(address: &ListenAddress, name: &str, port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    let unresolved = |source| ListenError::Unresolved {
        address: address.clone(),
        source,
    };
    let mut found = Vec::new();
    for candidate in (name, port)
        .to_socket_addrs()
        .map_err(|e| unresolved(Some(e)))?
    {
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    if found.is_empty() {
        return Err(unresolved(None));
    }
    Ok(found)
}

/// Binds every interface: IPv6, which includes IPv4, or IPv4 where there is no IPv6.
fn bind_any(port: u16, options: &BindOptions) -> io::Result<Vec<BoundListener>> {
    let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    let v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let bound = match bind_group(v6, options) {
        Err(error) if is_not_local(&error) => bind_group(v4, options)?,
        other => other?,
    };
    Ok(vec![bound])
}

/// Binds all addresses of a name on one port. An address that this machine lacks is skipped if it has another: `localhost` is `::1` also
/// where IPv6 is switched off.
fn bind_all(candidates: &[SocketAddr], options: &BindOptions) -> io::Result<Vec<BoundListener>> {
    let mut found: Vec<BoundListener> = Vec::new();
    let mut not_local = None;
    for candidate in candidates {
        let mut candidate = *candidate;
        if let Some(BoundAddress::Tcp(first)) = found.first().map(|bound| &bound.local) {
            candidate.set_port(first.port());
        }
        match bind_group(candidate, options) {
            Ok(bound) => found.push(bound),
            Err(error) if is_not_local(&error) => not_local = Some(error),
            Err(error) => return Err(error),
        }
    }
    match not_local {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// Binds the sockets of one address. With port 0 the first socket finds the port for the others.
fn bind_group(address: SocketAddr, options: &BindOptions) -> io::Result<BoundListener> {
    let is_shared = options.sockets.get() > 1;
    if is_shared && address.port() != 0 {
        drop(bind_socket(address, false)?);
    }
    let first = bind_socket(address, is_shared)?;
    let local = first
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut sockets = vec![first];
    for _ in 1..options.sockets.get() {
        sockets.push(bind_socket(local, true)?);
    }
    let mut listeners = Vec::with_capacity(sockets.len());
    for socket in sockets {
        socket.listen(options.backlog())?;
        listeners.push(Listener::Tcp(socket.into()));
    }
    Ok(BoundListener {
        listeners,
        local: BoundAddress::Tcp(local),
        file: None,
    })
}

fn bind_socket(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    // A port with connections in TIME_WAIT can be bound. On Linux this does not take a port away from another listener.
    socket.set_reuse_address(true)?;
    if let IpAddr::V6(ip) = address.ip() {
        // Explicit, since distributions differ (net.ipv6.bindv6only).
        socket.set_only_v6(!ip.is_unspecified())?;
    }
    if is_shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    set_inherited_options(&socket)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{TcpListener, TcpStream};
    use std::num::NonZeroUsize;

    use socket2::SockRef;

    use super::super::{InheritedSockets, bind};
    use super::*;

    fn listening(address: &str, sockets: usize) -> Result<Vec<BoundListener>, ListenError> {
        let options = BindOptions {
            sockets: NonZeroUsize::new(sockets).unwrap(),
            ..BindOptions::default()
        };
        bind(
            &address.parse().unwrap(),
            &options,
            &mut InheritedSockets::none(),
        )
    }

    fn one(address: &str, sockets: usize) -> BoundListener {
        let mut bound = listening(address, sockets).unwrap();
        assert_eq!(bound.len(), 1, "{bound:?}");
        bound.remove(0)
    }

    fn address_of(bound: &BoundListener) -> SocketAddr {
        match bound.local {
            BoundAddress::Tcp(address) => address,
            BoundAddress::Unix(_) => panic!("{bound:?}"),
        }
    }

    fn socket(listener: &Listener) -> &TcpListener {
        match listener {
            Listener::Tcp(listener) => listener,
            Listener::Unix(_) => panic!("{listener:?}"),
        }
    }

    fn accepted(listener: &Listener) -> TcpStream {
        // Accepted sockets always block; here the listener must wait, too.
        socket(listener).set_nonblocking(false).unwrap();
        socket(listener).accept().unwrap().0
    }

    #[test]
    fn any_port_is_bound_and_does_not_block() {
        let bound = one("127.0.0.1:0", 1);
        assert_ne!(address_of(&bound).port(), 0);
        let error = socket(&bound.listeners[0]).accept().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let client = TcpStream::connect(address_of(&bound)).unwrap();
        let server = accepted(&bound.listeners[0]);
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    }

    #[test]
    fn accepted_sockets_inherit_nodelay() {
        let bound = one("127.0.0.1:0", 1);
        let _client = TcpStream::connect(address_of(&bound)).unwrap();
        assert!(accepted(&bound.listeners[0]).nodelay().unwrap());
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(plain.local_addr().unwrap()).unwrap();
        assert!(!plain.accept().unwrap().0.nodelay().unwrap());
    }

    #[test]
    fn accepted_sockets_on_loopback_are_not_paced() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let bound = one(address, 1);
            let _client = TcpStream::connect(address_of(&bound)).unwrap();
            let accepted = accepted(&bound.listeners[0]);
            let algorithm = SockRef::from(&accepted).tcp_congestion().unwrap();
            assert!(!algorithm.starts_with(b"bbr"), "{address}: {algorithm:?}");
        }
        // Elsewhere the system decides.
        let default = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let wide = one("0.0.0.0:0", 1);
        let wide = SockRef::from(socket(&wide.listeners[0]));
        assert_eq!(
            wide.tcp_congestion().unwrap(),
            default.tcp_congestion().unwrap()
        );
    }

    #[test]
    fn sockets_of_a_group_share_a_port_and_each_gets_connections() {
        let bound = one("127.0.0.1:0", 4);
        let ports: HashSet<_> = bound
            .listeners
            .iter()
            .map(|l| socket(l).local_addr().unwrap())
            .collect();
        assert_eq!((bound.listeners.len(), ports.len()), (4, 1));
        // The kernel hashes both addresses: that one of four gets none of 200 happens once in 10^24 times.
        let clients: Vec<_> = (0..200)
            .map(|_| TcpStream::connect(address_of(&bound)).unwrap())
            .collect();
        let mut each = Vec::new();
        for listener in &bound.listeners {
            each.push(std::iter::from_fn(|| socket(listener).accept().ok()).count());
        }
        assert_eq!(each.iter().sum::<usize>(), clients.len());
        assert!(each.iter().all(|count| *count > 0), "{each:?}");
    }

    #[test]
    fn a_port_in_use_is_an_error_even_if_both_would_share_it() {
        for (first, second) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
            let bound = one("127.0.0.1:0", first);
            let error = listening(&address_of(&bound).to_string(), second).unwrap_err();
            assert!(
                matches!(error, ListenError::InUse { .. }),
                "{first} {second}: {error:?}"
            );
        }
    }

    #[test]
    fn a_port_can_be_bound_again_at_once() {
        let bound = one("127.0.0.1:0", 2);
        let address = address_of(&bound);
        let client = TcpStream::connect(address).unwrap();
        // The server closes first, so TIME_WAIT is on its side.
        for listener in &bound.listeners {
            drop(socket(listener).accept());
        }
        drop(client);
        drop(bound);
        assert_eq!(address_of(&one(&address.to_string(), 2)), address);
        assert_eq!(address_of(&one(&address.to_string(), 1)), address);
    }

    #[test]
    fn every_interface_includes_both_families() {
        let bound = one(":0", 1);
        let port = address_of(&bound).port();
        let _four = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        drop(accepted(&bound.listeners[0]));
        if address_of(&bound).is_ipv6() {
            let _six = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
            drop(accepted(&bound.listeners[0]));
        }
    }

    #[test]
    fn a_name_is_bound_at_all_its_addresses_on_one_port() {
        let bound = listening("localhost:0", 2).unwrap();
        let ports: HashSet<_> = bound.iter().map(|bound| address_of(bound).port()).collect();
        assert_eq!(ports.len(), 1, "{bound:?}");
        assert!(
            bound
                .iter()
                .all(|bound| address_of(bound).ip().is_loopback())
        );
        for bound in &bound {
            drop(TcpStream::connect(address_of(bound)).unwrap());
        }
    }

    #[test]
    fn all_addresses_get_the_port_of_the_first() {
        // All of 127/8 belongs to this machine.
        let candidates =
            ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"].map(|text| text.parse().unwrap());
        let all = || bind_all(&candidates, &BindOptions::default());
        // One of them may have it in use by chance, as in `bind`.
        let bound = (0..MAX_TRIES).find_map(|_| all().ok()).unwrap();
        let ports: HashSet<_> = bound.iter().map(|bound| address_of(bound).port()).collect();
        assert_eq!((bound.len(), ports.len()), (3, 1), "{bound:?}");
    }

    #[test]
    fn a_foreign_address_is_an_error_and_among_several_skipped() {
        // TEST-NET-1, RFC 5737.
        let error = listening("192.0.2.1:0", 1).unwrap_err();
        assert!(matches!(error, ListenError::NotLocal { .. }), "{error:?}");
        let candidates = ["192.0.2.1:0", "127.0.0.1:0"].map(|text| text.parse().unwrap());
        let bound = bind_all(&candidates, &BindOptions::default()).unwrap();
        assert_eq!(bound.len(), 1);
        let error = listening("no-such-host.invalid:0", 1).unwrap_err();
        assert!(matches!(error, ListenError::Unresolved { .. }), "{error:?}");
    }

    #[test]
    fn child_processes_do_not_inherit_it() {
        let bound = one("127.0.0.1:0", 1);
        let flags = rustix::io::fcntl_getfd(socket(&bound.listeners[0])).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        assert!(
            SockRef::from(socket(&bound.listeners[0]))
                .is_listener()
                .unwrap()
        );
    }
}

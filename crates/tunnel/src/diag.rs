//! `sock_diag(7)`: what the system knows of one TCP socket of this machine, asked by its two addresses.

use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `SOCK_DIAG_BY_FAMILY`, of the message and of its answer.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

/// `IPPROTO_TCP`.
const TCP: u8 = 6;

/// A message's head: `struct nlmsghdr`.
const HEAD: usize = 16;

/// What is asked: `struct inet_diag_req_v2`.
const ASKED: usize = 56;

/// Where an answer, `struct inet_diag_msg`, has the socket's ports.
const PORTS: usize = HEAD + 4;

/// What was written and has not arrived.
const UNSENT: usize = HEAD + 60;

/// And its inode.
const INODE: usize = HEAD + 68;

/// The inode of the socket at `at` that is connected to `to`: 0 when no process holds it any more. `None` when there is none here, or
/// the system does not tell.
pub(crate) fn inode(at: SocketAddr, to: SocketAddr) -> Option<u32> {
    ask(at, to, INODE)
}

/// Bytes that were written to that socket and have not arrived at its peer.
pub(crate) fn unsent(at: SocketAddr, to: SocketAddr) -> Option<u32> {
    ask(at, to, UNSENT)
}

/// The number that an answer has there.
fn ask(at: SocketAddr, to: SocketAddr, place: usize) -> Option<u32> {
    let kind = (SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG));
    let netlink = rustix::net::socket_with(AddressFamily::NETLINK, kind.0, kind.1, kind.2).ok()?;
    let asked = question(at, to)?;
    let system = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&netlink, &asked, SendFlags::empty(), &system).ok()?;
    let mut answer = [0; 512];
    // The answer was there before the question's call was over.
    let (read, _) = rustix::net::recv(&netlink, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
    told(&answer[..read.min(answer.len())], (at, to), place)
}

fn question(at: SocketAddr, to: SocketAddr) -> Option<[u8; HEAD + ASKED]> {
    let (at_ip, to_ip) = (at.ip().to_canonical(), to.ip().to_canonical());
    let family = match (at_ip, to_ip) {
        (IpAddr::V4(_), IpAddr::V4(_)) => AddressFamily::INET,
        (IpAddr::V6(_), IpAddr::V6(_)) => AddressFamily::INET6,
        _ => return None,
    };
    let mut asked = [0; HEAD + ASKED];
    let mut put =
        |from: usize, bytes: &[u8]| asked[from..from + bytes.len()].copy_from_slice(bytes);
    put(0, &u32::try_from(HEAD + ASKED).ok()?.to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    put(HEAD, &[u8::try_from(family.as_raw()).ok()?, TCP]);
    // In any state.
    put(HEAD + 4, &u32::MAX.to_ne_bytes());
    put(HEAD + 8, &at.port().to_be_bytes());
    put(HEAD + 10, &to.port().to_be_bytes());
    for (from, ip) in [(HEAD + 12, at_ip), (HEAD + 28, to_ip)] {
        match ip {
            IpAddr::V4(ip) => put(from, &ip.octets()),
            IpAddr::V6(ip) => put(from, &ip.octets()),
        }
    }
    // Of any interface, and whichever socket it is (`INET_DIAG_NOCOOKIE`).
    put(HEAD + 48, &[0xff; 8]);
    Some(asked)
}

fn told(answer: &[u8], (at, to): (SocketAddr, SocketAddr), place: usize) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let ports = [at.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let number = answer.get(place..place + 4)?.try_into().ok()?;
    // Anything else is an error, as there is no such socket; or another's, a listener's at that port.
    let is_its = kind == BY_FAMILY && answer.get(PORTS..PORTS + 4)? == ports;
    is_its.then(|| u32::from_ne_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_tells_nothing() {
        let ends = ("127.0.0.1:258", "127.0.0.1:772");
        let ends = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
        let mut answer = [0; INODE + 4];
        assert_eq!(told(&answer, ends, INODE), None);
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[PORTS..PORTS + 4].copy_from_slice(&[1, 2, 3, 4]);
        answer[INODE] = 7;
        assert_eq!(
            told(&answer, ends, INODE),
            Some(u32::from_ne_bytes([7, 0, 0, 0]))
        );
        for length in 0..answer.len() {
            assert_eq!(told(&answer[..length], ends, INODE), None);
        }
    }

    /// The system's answer to a question about a socket that there is not may be a listener.
    #[test]
    fn a_listener_at_the_port_is_not_the_socket() {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let at = SocketAddr::from(([127, 1, 2, 3], listener.local_addr().unwrap().port()));
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(inode(at, to), None);
    }

    #[test]
    fn one_socket_is_of_one_family() {
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 1);
        assert_eq!(question(at("::1"), at("127.0.0.1")), None);
        // A listener of both families names its IPv4 clients so.
        assert_eq!(
            question(at("::ffff:127.0.0.1"), at("::ffff:127.0.0.2")),
            question(at("127.0.0.1"), at("127.0.0.2"))
        );
    }
}

//! Whether a peer that said that it is done speaking still has its socket open.
//!
//! `close(2)` and `shutdown(2)` of one direction look the same on the wire. A socket file tells them apart by itself. Of a TCP peer on
//! this machine the system knows whether any process still holds its socket, and says so by `sock_diag(7)`; nothing of the kind is known
//! of one elsewhere.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::{TcpStream, UnixStream};

#[cfg(target_os = "linux")]
use crate::diag;
use crate::relay::RelaySocket;

/// Whether it does, for all that can be known.
pub(crate) fn is_known_open(socket: RelaySocket<'_>) -> bool {
    match socket {
        RelaySocket::Tcp(stream) => is_tcp_peer_open(stream).unwrap_or(false),
        RelaySocket::Unix(stream) => is_unix_peer_open(stream),
    }
}

/// Both directions of a socket file hang up when the peer has closed its own.
fn is_unix_peer_open(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut asked, Some(&at_once)) {
        Ok(_) => !asked[0].revents().contains(PollFlags::HUP),
        Err(_) => false,
    }
}

/// `None`: it is not on this machine, or nobody says.
#[cfg(target_os = "linux")]
fn is_tcp_peer_open(stream: &TcpStream) -> Option<bool> {
    let (ours, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    diag::inode(peer, ours).map(|inode| inode != 0)
}

/// Nobody is asked elsewhere.
#[cfg(not(target_os = "linux"))]
fn is_tcp_peer_open(_: &TcpStream) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_socket_file_tells() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        peer.shutdown().await.unwrap();
        assert!(is_known_open(RelaySocket::Unix(&ours)));
        drop(peer);
        assert!(!is_known_open(RelaySocket::Unix(&ours)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_tells_of_tcp() {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for address in ["127.0.0.1", "::1"] {
            let mut peer = TcpStream::connect((address, port)).await.unwrap();
            let (ours, _) = listener.accept().await.unwrap();
            peer.shutdown().await.unwrap();
            assert!(is_known_open(RelaySocket::Tcp(&ours)), "{address}");
            drop(peer);
            assert!(!is_known_open(RelaySocket::Tcp(&ours)), "{address}");
        }
    }
}

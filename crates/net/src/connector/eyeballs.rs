//! TCP to a host with several addresses, raced so that a dead one costs a quarter of a second (RFC 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

use super::Family;

/// How long the next address waits for the one before (RFC 8305 section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// A connection without traffic is probed after this long, so that a peer that is gone is noticed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The addresses that may be used, families taking turns, the first one's first.
pub(super) fn ordered(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    let wanted = |address: &&IpAddr| match family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let (first, second): (Vec<IpAddr>, Vec<IpAddr>) = {
        let usable: Vec<IpAddr> = addresses.iter().filter(wanted).copied().collect();
        let leading_v6 = usable.first().is_some_and(IpAddr::is_ipv6);
        usable
            .into_iter()
            .partition(|address| address.is_ipv6() == leading_v6)
    };
    let mut mixed = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return mixed;
        }
        mixed.extend(pair.into_iter().flatten());
    }
}

/// The first connection that comes about, its receive buffer of a given size if one is told. Dropping the future drops all
/// attempts.
pub(super) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    buffer: Option<usize>,
) -> io::Result<TcpStream> {
    let mut waiting = addresses
        .iter()
        .map(|address| SocketAddr::new(*address, port));
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    attempts.extend(waiting.next().map(TcpStream::connect));
    while !attempts.is_empty() {
        let more = waiting.len() > 0;
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return prepared(stream, buffer),
                Err(error) => {
                    last = error;
                    // A refusal is an answer: nothing is won by waiting before the next address.
                    attempts.extend(waiting.next().map(TcpStream::connect));
                }
            },
            () = tokio::time::sleep(STAGGER), if more => attempts.extend(waiting.next().map(TcpStream::connect)),
        }
    }
    Err(last)
}

/// Small writes go out at once, a dead peer is noticed, and no more than `buffer` bytes wait to be read.
fn prepared(stream: TcpStream, buffer: Option<usize>) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(&stream);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    // A system that knows no keep-alive or wants another size is no reason to fail.
    let _ = socket.set_tcp_keepalive(&keepalive);
    if let Some(buffer) = buffer {
        let _ = socket.set_recv_buffer_size(buffer);
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a28_families_take_turns_and_flags_choose() {
        let all: Vec<IpAddr> = ["::1", "::2", "1.1.1.1", "2.2.2.2", "3.3.3.3"]
            .map(|a| a.parse().unwrap())
            .to_vec();
        let text = |family| {
            ordered(&all, family)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            text(Family::Any),
            ["::1", "1.1.1.1", "::2", "2.2.2.2", "3.3.3.3"]
        );
        assert_eq!(text(Family::V4), ["1.1.1.1", "2.2.2.2", "3.3.3.3"]);
        assert_eq!(text(Family::V6), ["::1", "::2"]);
    }
}

//! TCP to a host with several addresses, raced so that a dead one costs a quarter of a second (RFC 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::target::AddressFamily;

/// How long the next address waits for the one before (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The addresses that may be used, families taking turns, the first one's first.
pub(super) fn interleave_families(addresses: &[IpAddr], family: AddressFamily) -> Vec<IpAddr> {
    let wanted = |address: &&IpAddr| match family {
        AddressFamily::Any => true,
        AddressFamily::V4 => address.is_ipv4(),
        AddressFamily::V6 => address.is_ipv6(),
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

/// What a socket is set to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SocketOptions {
    /// A connection without traffic is probed after this long, so that a peer that is gone is noticed; `None` is never.
    pub(super) keepalive: Option<Duration>,
    /// Bytes that wait to be read at most; `None` is as the system has it.
    pub(super) receive_buffer: Option<usize>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct ConnectedSocket {
    pub(super) stream: TcpStream,
    /// The address that took it.
    pub(super) address: SocketAddr,
    /// How long that took by itself.
    pub(super) elapsed: Duration,
}

/// The first connection that comes about.
/// Dropping the future drops all attempts.
pub(super) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    options: SocketOptions,
) -> io::Result<ConnectedSocket> {
    if let [address] = addresses {
        // Nobody to race with, nor to wait for.
        return configure(attempt(SocketAddr::new(*address, port)).await?, options);
    }
    let addresses = addresses
        .iter()
        .map(|address| SocketAddr::new(*address, port));
    configure(Box::pin(race(addresses, attempt)).await?, options)
}

async fn attempt(address: SocketAddr) -> io::Result<ConnectedSocket> {
    let begun = Instant::now();
    Ok(ConnectedSocket {
        stream: TcpStream::connect(address).await?,
        address,
        elapsed: begun.elapsed(),
    })
}

/// The first of these addresses that `attempt` reaches, each begun when the one before has refused or kept silent for
/// [`ATTEMPT_DELAY`].
async fn race<S, F>(
    mut waiting: impl ExactSizeIterator<Item = SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> io::Result<S>
where
    F: Future<Output = io::Result<S>>,
{
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    attempts.extend(waiting.next().map(&dial));
    while !attempts.is_empty() {
        let more = waiting.len() > 0;
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last = error;
                    // A refusal is an answer: nothing is won by waiting before the next address.
                    attempts.extend(waiting.next().map(&dial));
                }
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if more => attempts.extend(waiting.next().map(&dial)),
        }
    }
    Err(last)
}

/// Small writes go out at once, and the rest is as it is wanted.
fn configure(met: ConnectedSocket, options: SocketOptions) -> io::Result<ConnectedSocket> {
    met.stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(&met.stream);
    // A system that knows no keep-alive or wants another size is no reason to fail.
    if let Some(time) = options.keepalive {
        let keepalive = socket2::TcpKeepalive::new().with_time(time);
        let _ = socket.set_tcp_keepalive(&keepalive);
    }
    if let Some(buffer) = options.receive_buffer {
        let _ = socket.set_recv_buffer_size(buffer);
    }
    Ok(met)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::sleep;

    use super::*;

    /// What becomes of an attempt to reach an address.
    #[derive(Debug, Clone, Copy)]
    enum AttemptScript {
        /// Neither an answer nor an error ever comes.
        Silent,
        /// An error comes at once.
        Refused,
        /// A connection comes after this time.
        Reached(Duration),
    }

    /// Races addresses with these fates: the one that won, or nobody; when each was begun; and when it was over.
    async fn raced(fates: &[AttemptScript]) -> (Option<usize>, Vec<Duration>, Duration) {
        let (epoch, begun) = (Instant::now(), Mutex::new(Vec::new()));
        // An address's port is its place in the list.
        let address = |at| SocketAddr::from(([127, 0, 0, 1], u16::try_from(at).unwrap()));
        let dial = |address: SocketAddr| {
            begun.lock().unwrap().push(epoch.elapsed());
            let at = usize::from(address.port());
            async move {
                match fates[at] {
                    AttemptScript::Silent => std::future::pending().await,
                    AttemptScript::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
                    AttemptScript::Reached(after) => {
                        sleep(after).await;
                        Ok(at)
                    }
                }
            }
        };
        let addresses: Vec<SocketAddr> = (0..fates.len()).map(address).collect();
        let won = race(addresses.into_iter(), dial).await.ok();
        (won, begun.into_inner().unwrap(), epoch.elapsed())
    }

    /// So many milliseconds; paused time goes in whole ones, and a timer may be one late.
    #[track_caller]
    fn assert_near(found: &[Duration], expected: &[u64]) {
        let ms = |time: &Duration| time.as_millis();
        let near = |(found, expected): (u128, &u64)| found.abs_diff(u128::from(*expected)) <= 2;
        assert!(
            found.len() == expected.len() && found.iter().map(ms).zip(expected).all(near),
            "{found:?} where {expected:?} ms were expected"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a28_a_silent_address_costs_a_quarter_of_a_second_each() {
        use AttemptScript::{Reached, Silent};
        let (won, begun, over) = raced(&[Silent, Reached(Duration::ZERO)]).await;
        assert_eq!(won, Some(1));
        assert_near(&begun, &[0, 250]);
        assert_near(&[over], &[250]);
        let (won, begun, _) = raced(&[Silent, Silent, Reached(Duration::ZERO)]).await;
        assert_eq!(won, Some(2));
        assert_near(&begun, &[0, 250, 500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a28_a_refusal_brings_the_next_address_at_once() {
        use AttemptScript::{Reached, Refused};
        let (won, begun, _) = raced(&[Refused, Refused, Reached(Duration::ZERO)]).await;
        assert_eq!(won, Some(2));
        assert_near(&begun, &[0, 0, 0]);
        let (won, begun, _) = raced(&[Refused, Refused]).await;
        assert_eq!((won, begun.len()), (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a28_a_slow_address_may_still_win_and_a_quick_one_is_the_only_one_asked() {
        use AttemptScript::{Reached, Silent};
        let after = |ms| Reached(Duration::from_millis(ms));
        let (won, begun, over) = raced(&[after(300), Silent, after(0)]).await;
        assert_eq!(won, Some(0));
        assert_near(&begun, &[0, 250]);
        assert_near(&[over], &[300]);
        let (won, begun, _) = raced(&[after(200), after(0)]).await;
        assert_eq!((won, begun.len()), (Some(0), 1));
    }

    #[test]
    fn a28_families_take_turns_and_flags_choose() {
        let all: Vec<IpAddr> = ["::1", "::2", "1.1.1.1", "2.2.2.2", "3.3.3.3"]
            .map(|a| a.parse().unwrap())
            .to_vec();
        let text = |family| {
            interleave_families(&all, family)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            text(AddressFamily::Any),
            ["::1", "1.1.1.1", "::2", "2.2.2.2", "3.3.3.3"]
        );
        assert_eq!(text(AddressFamily::V4), ["1.1.1.1", "2.2.2.2", "3.3.3.3"]);
        assert_eq!(text(AddressFamily::V6), ["::1", "::2"]);
    }
}

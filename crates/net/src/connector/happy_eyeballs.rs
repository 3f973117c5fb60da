//! TCP to a host with several addresses. The attempts overlap, so that a dead address costs a quarter of a second (RFC 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

use super::config::ConnectorConfig;
use crate::target::AddressFamily;
use crate::zone::socket_address;

/// How long the next address waits for the one before (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The addresses that may be used. Families take turns, that of the first address goes first. Each family begins with its first address
/// in turn 0, and with its next one in the next turn.
pub(super) fn interleave_families(
    addresses: &[IpAddr],
    family: AddressFamily,
    turn: usize,
) -> Vec<IpAddr> {
    let is_allowed = |address: &&IpAddr| match family {
        AddressFamily::Any => true,
        AddressFamily::V4 => address.is_ipv4(),
        AddressFamily::V6 => address.is_ipv6(),
    };
    let allowed: Vec<IpAddr> = addresses.iter().filter(is_allowed).copied().collect();
    let starts_with_v6 = allowed.first().is_some_and(IpAddr::is_ipv6);
    let (mut first, mut second): (Vec<IpAddr>, Vec<IpAddr>) = allowed
        .into_iter()
        .partition(|address| address.is_ipv6() == starts_with_v6);
    for family in [&mut first, &mut second] {
        let begin = turn % family.len().max(1);
        family.rotate_left(begin);
    }
    let mut interleaved = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return interleaved;
        }
        interleaved.extend(pair.into_iter().flatten());
    }
}

/// The first connection that is established, with its address. The system probes it as `config` says. Dropping the future drops all
/// attempts.
///
/// # Errors
/// The error of the last attempt.
pub(super) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    config: &ConnectorConfig,
) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = if let [address] = addresses {
        attempt(socket_address(*address, port)).await?
    } else {
        let addresses = addresses
            .iter()
            .map(|address| socket_address(*address, port));
        Box::pin(race(addresses, attempt)).await?
    };
    configure(&stream, config)?;
    Ok((stream, address))
}

async fn attempt(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
    Ok((TcpStream::connect(address).await?, address))
}

/// The first of these addresses that `attempt` reaches. Each attempt begins when the one before has failed, or has taken
/// [`ATTEMPT_DELAY`].
async fn race<S, F>(
    mut waiting: impl ExactSizeIterator<Item = SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> io::Result<S>
where
    F: Future<Output = io::Result<S>>,
{
    let mut attempts = FuturesUnordered::new();
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    attempts.extend(waiting.next().map(&attempt));
    while !attempts.is_empty() {
        let has_more = waiting.len() > 0;
        tokio::select! {
            Some(result) = attempts.next() => match result {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last_error = error;
                    // A refusal is final for its address: waiting before the next one gains nothing.
                    attempts.extend(waiting.next().map(&attempt));
                }
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if has_more => {
                attempts.extend(waiting.next().map(&attempt));
            }
        }
    }
    Err(last_error)
}

/// Sends small writes at once, and sets when the system probes the peer and when it gives the connection up.
fn configure(stream: &TcpStream, config: &ConnectorConfig) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    // A system that lacks one of these options is no reason to fail.
    let _ = socket.set_tcp_user_timeout(config.dead_peer_timeout);
    if let Some(time) = config.keepalive {
        // Two probes within the time after which a silent peer is gone.
        let time = config
            .dead_peer_timeout
            .map_or(time, |limit| time.min(limit / 3))
            .max(Duration::from_secs(1));
        let probes = socket2::TcpKeepalive::new().with_time(time);
        let _ = socket.set_tcp_keepalive(&match config.dead_peer_timeout {
            Some(_) => probes.with_interval(time),
            None => probes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::{Instant, sleep};

    use super::*;

    /// What happens to an attempt to reach an address.
    #[derive(Debug, Clone, Copy)]
    enum AttemptScript {
        /// Neither an answer nor an error ever comes.
        Silent,
        /// An error comes at once.
        Refused,
        /// The connection is established after this time.
        Connected(Duration),
    }

    /// What happened in a race.
    struct RaceReport {
        /// The index of the address that won.
        winner: Option<usize>,
        /// When each attempt began.
        started: Vec<Duration>,
        /// When the race was over.
        ended: Duration,
    }

    async fn race_script(scripts: &[AttemptScript]) -> RaceReport {
        let (epoch, started) = (Instant::now(), Mutex::new(Vec::new()));
        // An address's port is its index in the list.
        let address = |index| SocketAddr::from(([127, 0, 0, 1], u16::try_from(index).unwrap()));
        let attempt = |address: SocketAddr| {
            started.lock().unwrap().push(epoch.elapsed());
            let index = usize::from(address.port());
            async move {
                match scripts[index] {
                    AttemptScript::Silent => std::future::pending().await,
                    AttemptScript::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
                    AttemptScript::Connected(after) => {
                        sleep(after).await;
                        Ok(index)
                    }
                }
            }
        };
        let addresses: Vec<SocketAddr> = (0..scripts.len()).map(address).collect();
        let winner = race(addresses.into_iter(), attempt).await.ok();
        RaceReport {
            winner,
            started: started.into_inner().unwrap(),
            ended: epoch.elapsed(),
        }
    }

    /// Compares times in milliseconds. Paused time goes in whole ones, and a timer may be one late.
    #[track_caller]
    fn assert_times(found: &[Duration], expected_ms: &[u64]) {
        let is_close = |(found, expected): (&Duration, &u64)| {
            found.as_millis().abs_diff(u128::from(*expected)) <= 2
        };
        assert!(
            found.len() == expected_ms.len() && found.iter().zip(expected_ms).all(is_close),
            "{found:?} instead of {expected_ms:?} ms"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a28_a_silent_address_costs_a_quarter_of_a_second_each() {
        use AttemptScript::{Connected, Silent};
        let report = race_script(&[Silent, Connected(Duration::ZERO)]).await;
        assert_eq!(report.winner, Some(1));
        assert_times(&report.started, &[0, 250]);
        assert_times(&[report.ended], &[250]);
        let report = race_script(&[Silent, Silent, Connected(Duration::ZERO)]).await;
        assert_eq!(report.winner, Some(2));
        assert_times(&report.started, &[0, 250, 500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a28_after_a_refusal_the_next_address_is_tried_at_once() {
        use AttemptScript::{Connected, Refused};
        let report = race_script(&[Refused, Refused, Connected(Duration::ZERO)]).await;
        assert_eq!(report.winner, Some(2));
        assert_times(&report.started, &[0, 0, 0]);
        let report = race_script(&[Refused, Refused]).await;
        assert_eq!((report.winner, report.started.len()), (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a28_a_slow_address_may_still_win_and_a_quick_one_is_the_only_one_tried() {
        use AttemptScript::{Connected, Silent};
        let after = |ms| Connected(Duration::from_millis(ms));
        let report = race_script(&[after(300), Silent, after(0)]).await;
        assert_eq!(report.winner, Some(0));
        assert_times(&report.started, &[0, 250]);
        assert_times(&[report.ended], &[300]);
        let report = race_script(&[after(200), after(0)]).await;
        assert_eq!((report.winner, report.started.len()), (Some(0), 1));
    }

    #[test]
    fn a28_families_take_turns_and_flags_choose() {
        let all: Vec<IpAddr> = ["::1", "::2", "1.1.1.1", "2.2.2.2", "3.3.3.3"]
            .map(|a| a.parse().unwrap())
            .to_vec();
        let order = |family| {
            interleave_families(&all, family, 0)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            order(AddressFamily::Any),
            ["::1", "1.1.1.1", "::2", "2.2.2.2", "3.3.3.3"]
        );
        assert_eq!(order(AddressFamily::V4), ["1.1.1.1", "2.2.2.2", "3.3.3.3"]);
        assert_eq!(order(AddressFamily::V6), ["::1", "::2"]);
        let fourth: Vec<_> = interleave_families(&all, AddressFamily::Any, 4)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(fourth, ["::1", "2.2.2.2", "::2", "3.3.3.3", "1.1.1.1"]);
    }

    #[tokio::test]
    async fn a47_a_peer_that_is_gone_is_noticed_while_a_response_is_awaited() {
        const MINUTE: Duration = Duration::from_secs(60);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (keepalive, dead, probe) in [
            (Some(MINUTE), Some(MINUTE / 2), Some(10)),
            (Some(MINUTE), Some(Duration::from_millis(200)), Some(1)),
            (Some(MINUTE), None, Some(60)),
            (None, Some(MINUTE / 2), None),
        ] {
            let config = ConnectorConfig {
                keepalive,
                dead_peer_timeout: dead,
                ..ConnectorConfig::default()
            };
            let (stream, _) = connect(&[address.ip()], address.port(), &config)
                .await
                .unwrap();
            let socket = socket2::SockRef::from(&stream);
            assert_eq!(socket.tcp_user_timeout().unwrap(), dead);
            assert_eq!(socket.keepalive().unwrap(), probe.is_some());
            if let Some(seconds) = probe {
                let time = Duration::from_secs(seconds);
                assert_eq!(socket.tcp_keepalive_time().unwrap(), time);
                let interval = socket.tcp_keepalive_interval().unwrap();
                assert!(dead.is_none() || interval == time);
            }
        }
    }
}

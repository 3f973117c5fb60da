//! The simulated link with TCP against the kernel's, and the control on hundreds of such links.

use std::num::NonZero;
use std::time::Duration;

use super::congestion_window::{CongestionControl, SEGMENT};
use super::race::{fixed, mib};
use super::simulated_link::{MIB, random};
use super::tcp_download::TcpDownload;
use super::tcp_link::{TcpLink, TcpPath};
use crate::connection_control::ConnectionControlOptions;

/// Links of the grid.
const LINKS: usize = 300;

/// The round trip and the queue in milliseconds, and the rate in millions of bits a second.
fn path(round_trip: u64, mbit: f64, queue: u64) -> TcpPath {
    TcpPath {
        round_trip: Duration::from_millis(round_trip),
        bits_per_second: mbit * 1e6,
        queue_time: Duration::from_millis(queue),
        ..TcpPath::default()
    }
}

/// The result of several seeds: TCP is chaotic, and one run says little.
#[derive(Debug, Clone, Copy)]
struct MeanOutcome {
    seconds: f64,
    requests: f64,
}

/// Downloads with each of some seeds, if that takes no longer than `limit` in the mean.
fn mean_outcome(
    path: TcpPath,
    length: u64,
    options: ConnectionControlOptions,
    seeds: u32,
    limit: f64,
) -> Option<MeanOutcome> {
    let (mut seconds, mut requests) = (0.0, 0.0);
    for seed in 1..=seeds {
        let path = TcpPath {
            seed: seed.into(),
            ..path
        };
        let left = f64::from(seeds) * limit - seconds;
        let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
        let outcome = TcpDownload::run(path, length, options, left)?;
        seconds += outcome.time.as_secs_f64();
        requests += outcome.requests as f64;
    }
    let seeds = f64::from(seeds);
    Some(MeanOutcome {
        seconds: seconds / seeds,
        requests: requests / seeds,
    })
}

/// The links of `scripts/bench wan`, and how long `-x 1` takes on them: median seconds, measured with nginx and Linux 6.18. With more
/// connections a measurement would say as much about the control of that day.
#[test]
fn one_connection_takes_as_long_as_over_the_kernels_link() {
    let far = path(100, 200.0, 100);
    let lossy = TcpPath { loss: 0.001, ..far };
    let throttled = TcpPath {
        connection_limit: Some(2.0 * MIB),
        ..path(100, 500.0, 50)
    };
    let bbr = TcpPath {
        congestion_control: CongestionControl::Bbr,
        ..far
    };
    let measured = [
        ("near", path(30, 500.0, 50), 128.0, 2.49),
        ("far", far, 64.0, 3.86),
        ("far-loss", lossy, 64.0, 84.8),
        ("across", path(200, 200.0, 200), 64.0, 6.02),
        ("throttled", throttled, 64.0, 32.0),
        ("mid", far, 8.0, 1.21),
        ("far-bbr", bbr, 64.0, 3.69),
    ];
    for (name, path, size, measured) in measured {
        let simulated = mean_outcome(path, mib(size), fixed(1), 12, f64::INFINITY).unwrap();
        let ratio = simulated.seconds / measured;
        assert!(
            (0.85..1.15).contains(&ratio),
            "{name}: {ratio:.2} times {measured} s"
        );
    }
}

/// Advances a link until a connection has received this number of bytes, and returns when.
fn arrival(link: &mut TcpLink, connection: usize, bytes: f64) -> f64 {
    let mut left = bytes;
    loop {
        let now = link.next_event().unwrap();
        if let Some(arrived) = link.advance()
            && arrived.connection == connection
        {
            left -= arrived.bytes;
            if left <= 0.0 {
                return now.as_secs_f64();
            }
        }
    }
}

#[test]
fn slow_start_doubles_the_window_from_ten_segments_after_the_handshake() {
    let mut link = TcpLink::new(TcpPath {
        setup_round_trips: 2,
        ..path(100, 1000.0, 100)
    });
    let connection = link.connect(Duration::ZERO);
    link.request(connection, mib(1.0), Duration::ZERO);
    // Two round trips for the handshakes, and one for each window.
    for (segments, seconds) in [(10.0, 0.3), (20.0, 0.4), (40.0, 0.5)] {
        let at = arrival(&mut link, connection, segments * SEGMENT);
        assert!(
            (seconds..seconds + 0.01).contains(&at),
            "{segments} at {at}"
        );
    }
}

/// Whether a second request comes at once or after a pause of some seconds, in which the window shrinks.
#[test]
fn a_window_that_was_idle_begins_small_again() {
    let second = |pause| {
        let mut link = TcpLink::new(path(100, 200.0, 100));
        let connection = link.connect(Duration::ZERO);
        link.request(connection, mib(2.0), Duration::ZERO);
        let begin = Duration::from_secs_f64(arrival(&mut link, connection, 2.0 * MIB)) + pause;
        link.request(connection, mib(2.0), begin);
        arrival(&mut link, connection, 2.0 * MIB) - begin.as_secs_f64()
    };
    let (at_once, later) = (second(Duration::ZERO), second(Duration::from_secs(5)));
    assert!(at_once < 0.35 && later > 0.6, "{at_once} {later}");
}

#[test]
fn what_is_in_flight_on_a_closed_connection_delays_the_others() {
    let first_byte = |is_cut: bool| {
        let mut link = TcpLink::new(path(50, 10.0, 1000));
        let (cut, other) = (link.connect(Duration::ZERO), link.connect(Duration::ZERO));
        let mut now = Duration::from_secs(1);
        if is_cut {
            link.request(cut, mib(4.0), Duration::ZERO);
            now = Duration::from_secs_f64(arrival(&mut link, cut, 0.5 * MIB));
        }
        link.close(cut);
        link.request(other, mib(1.0), now);
        arrival(&mut link, other, SEGMENT) - now.as_secs_f64()
    };
    let (alone, behind_wasted_bytes) = (first_byte(false), first_byte(true));
    assert!(
        alone < 0.06 && behind_wasted_bytes > 0.2,
        "{alone} {behind_wasted_bytes}"
    );
}

/// Each of 50 ms and 4 MiB/s: what a ramp would cost most.
#[test]
fn a_limit_on_each_connection_of_a_long_path_costs_untold_next_to_nothing() {
    let limit = Some(4.0 * MIB);
    let link = GridLink {
        path: TcpPath {
            connection_limit: limit,
            ..path(50, 1000.0, 50)
        },
        mib: 128.0,
    };
    let (best, untold) = link.best_and_untold();
    assert!(
        untold.seconds <= 1.05 * best.1.seconds,
        "{untold:?} {best:?}"
    );
}

/// 4 MiB over one connection take many round trips from an origin that limits it, and few from others.
#[test]
fn a_small_file_gets_more_connections_where_its_first_one_is_limited() {
    let run = |path, options| mean_outcome(path, mib(4.0), options, 3, f64::INFINITY).unwrap();
    for round_trip in [5, 10, 20] {
        let fast = path(round_trip, 500.0, 50);
        let limited = TcpPath {
            connection_limit: Some(MIB),
            ..fast
        };
        let [untold, one] =
            [ConnectionControlOptions::default(), fixed(1)].map(|it| run(limited, it));
        assert!(untold.seconds < 0.8 * one.seconds, "{untold:?} {one:?}");
        let untold = run(fast, ConnectionControlOptions::default());
        assert!(untold.requests <= 2.0, "{untold:?}");
    }
}

/// A link of the grid, and the file.
#[derive(Debug, Clone, Copy)]
struct GridLink {
    path: TcpPath,
    mib: f64,
}

impl GridLink {
    /// The link with this number: its properties are drawn, since all combinations would be thousands.
    fn numbered(number: u64) -> Self {
        let pick = |property: u64, values: &[f64]| {
            let at = random(property, number) * values.len() as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an index"
            )]
            let at = at as usize;
            values[at]
        };
        let round_trip = Duration::from_secs_f64(
            pick(1, &[1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0]) / 1000.0,
        );
        let bits_per_second = pick(2, &[2e6, 10e6, 50e6, 100e6, 200e6, 500e6, 1e9]);
        let limit = pick(3, &[0.0, 0.0, 1.0, 4.0]) * MIB;
        let path = TcpPath {
            round_trip,
            bits_per_second,
            queue_time: round_trip.mul_f64(pick(4, &[0.25, 0.5, 1.0, 2.0])),
            loss: pick(5, &[0.0, 0.0, 0.0001, 0.001, 0.01]),
            connection_limit: (limit > 0.0).then_some(limit),
            congestion_control: match pick(6, &[0.0, 0.0, 1.0]) {
                0.0 => CongestionControl::Cubic,
                _ => CongestionControl::Bbr,
            },
            setup_round_trips: if random(7, number) < 0.5 { 1 } else { 2 },
            seed: 1,
        };
        Self {
            path,
            mib: pick(8, &[1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0]),
        }
    }

    /// Whether it is soon simulated: what takes many round trips takes many events.
    fn is_short(&self) -> bool {
        self.mib * MIB / self.path.rate() < 1.0 + 60.0 * self.path.round_trip.as_secs_f64()
    }

    /// The best fixed number with its outcome, and the outcome untold.
    fn best_and_untold(&self) -> ((usize, MeanOutcome), MeanOutcome) {
        let run = |options, limit| mean_outcome(self.path, mib(self.mib), options, 3, limit);
        let mut best = (16, run(fixed(16), f64::INFINITY).unwrap());
        for number in [8, 4, 2, 1] {
            // One that takes longer is given up: where packets are lost, one connection would take hours.
            if let Some(outcome) = run(fixed(number), best.1.seconds) {
                best = (number, outcome);
            }
        }
        (
            best,
            run(ConnectionControlOptions::default(), f64::INFINITY).unwrap(),
        )
    }

    /// Which bounds untold misses, and the line of a table.
    fn compare(&self) -> ([bool; 3], String) {
        let ((number, best), untold) = self.best_and_untold();
        let ratio = untold.seconds / best.seconds;
        let path = self.path;
        let line = format!(
            "{ratio:.2} | untold {:7.3} s {:5.1} requests | -x {number:<2} {:7.3} s {:5.1} | {:4} MiB {:3} ms {:4} Mbit/s, queue {:.2}, \
             loss {:4} %, {:?} MiB/s a connection, {:?}",
            untold.seconds,
            untold.requests,
            best.seconds,
            best.requests,
            self.mib,
            path.round_trip.as_millis(),
            path.bits_per_second / 1e6,
            path.queue_time.as_secs_f64() / path.round_trip.as_secs_f64(),
            100.0 * path.loss,
            path.connection_limit.map(|limit| limit / MIB),
            path.congestion_control,
        );
        let misses = [
            ratio > 1.10,
            ratio > 1.25,
            untold.requests > 2.0 * best.requests,
        ];
        (misses, line)
    }
}

/// Untold, a download takes at most 10 % longer than with the best fixed number on nearly all links, at most 25 % on each, and needs no
/// more than twice the requests.
#[test]
#[ignore = "the control misses all three bounds, mostly on files of 4 to 16 MiB"]
fn untold_is_near_the_best_fixed_number_on_hundreds_of_links() {
    let links: Vec<GridLink> = (0..)
        .map(GridLink::numbered)
        .filter(GridLink::is_short)
        .take(LINKS)
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let links = &links;
    let compare = move |part: usize| {
        let links = links.iter().skip(part).step_by(threads);
        links.map(GridLink::compare).collect::<Vec<_>>()
    };
    let compared: Vec<([bool; 3], String)> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| scope.spawn(move || compare(part)))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap())
            .collect()
    });
    let [slower, far_slower, greedy] =
        [0, 1, 2].map(|bound| compared.iter().filter(|(misses, _)| misses[bound]).count());
    let mut table: Vec<String> = Vec::new();
    for (misses, line) in compared.iter().filter(|(misses, _)| misses.contains(&true)) {
        let marks: String = misses
            .iter()
            .map(|misses| if *misses { 'x' } else { '-' })
            .collect();
        table.push(format!("{line} {marks}"));
    }
    table.sort();
    assert!(
        slower <= LINKS / 20 && far_slower == 0 && greedy == 0,
        "of {LINKS} links {slower} are slower by 10 %, {far_slower} by 25 %, {greedy} need more than twice the requests:\n{}",
        table.join("\n"),
    );
}

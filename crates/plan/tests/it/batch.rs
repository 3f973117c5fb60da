//! Whole batches in simulated time: one host found its number of requests, many hosts kept from holding each other up.

use std::time::Duration;

use haul_plan::dispatch::{HostRequestLimit, JobDispatcherOptions};

use crate::batch_world::{
    SimulatedBatchOutcome, SimulatedHosts, SimulatedRequest, SimulatedResult, drawn, ms, run, us,
};

/// A server that works on so many requests at once, each for so long, behind a link.
struct SimulatedServer {
    /// There and back.
    latency: Duration,
    /// Round trips to make a connection.
    handshake: u32,
    /// When each worker is free.
    workers: Vec<Duration>,
    service: Duration,
    streams: Option<usize>,
    /// Every worker loses this share of its speed for each request beside.
    crowding: f64,
    bytes: u64,
}

impl SimulatedServer {
    fn new(latency: Duration, workers: usize, service: Duration) -> Self {
        Self {
            latency,
            handshake: 1,
            workers: vec![Duration::ZERO; workers],
            service,
            streams: None,
            crowding: 0.0,
            bytes: 4096,
        }
    }
}

impl SimulatedHosts for SimulatedServer {
    fn ask(&mut self, ask: SimulatedRequest) -> SimulatedResult {
        let made = if ask.cold { self.handshake } else { 0 };
        let arrives = ask.now + self.latency * made + self.latency / 2;
        let worker = self.workers.iter_mut().min().unwrap();
        // From half to one and a half times as long.
        let spread = 0.5 + drawn(7, ask.job);
        let slowed = 1.0 + self.crowding * ask.beside as f64;
        *worker = arrives.max(*worker) + self.service.mul_f64(spread * slowed);
        let head = *worker + self.latency / 2 - ask.now;
        SimulatedResult::File {
            head,
            body: Duration::ZERO,
            bytes: self.bytes,
        }
    }

    fn streams(&self) -> Option<usize> {
        self.streams
    }
}

fn one_host(jobs: usize) -> impl Iterator<Item = u32> {
    std::iter::repeat_n(0, jobs)
}

fn fixed(number: usize) -> JobDispatcherOptions {
    JobDispatcherOptions {
        per_host: HostRequestLimit::Fixed(number),
        request_slots: 1024,
        ..JobDispatcherOptions::default()
    }
}

/// How much longer the number found takes than the best of some that are told.
#[track_caller]
fn against_the_best(
    server: impl Fn() -> SimulatedServer,
    jobs: usize,
    numbers: &[usize],
) -> (f64, SimulatedBatchOutcome) {
    let found = run(
        &mut server(),
        JobDispatcherOptions::default(),
        one_host(jobs),
    );
    assert_eq!(found.done, jobs);
    let best = numbers
        .iter()
        .map(|number| run(&mut server(), fixed(*number), one_host(jobs)).time)
        .min()
        .unwrap();
    (found.time.as_secs_f64() / best.as_secs_f64(), found)
}

const NUMBERS: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];

#[test]
fn twenty_thousand_small_files_on_loopback() {
    // Two requests keep it half busy, eight wholly: 0.3 seconds in all.
    let server = || SimulatedServer::new(us(60), 4, us(60));
    let (ratio, found) = against_the_best(server, 20_000, &NUMBERS);
    assert!(ratio < 1.05, "{ratio:.3} {found:?}");
    assert!(found.reached[1].unwrap() < ms(20), "{:?}", found.reached);
}

#[test]
fn a_server_that_one_request_keeps_busy_is_not_crowded() {
    let server = || SimulatedServer {
        crowding: 0.02,
        ..SimulatedServer::new(us(20), 1, us(50))
    };
    let (ratio, _) = against_the_best(server, 20_000, &NUMBERS);
    assert!(ratio < 1.10, "{ratio:.3}");
}

#[test]
fn a_link_of_50_ms_is_filled_within_a_few_round_trips() {
    let server = || SimulatedServer {
        handshake: 2,
        ..SimulatedServer::new(ms(50), 64, ms(1))
    };
    let found = run(
        &mut server(),
        JobDispatcherOptions::default(),
        one_host(2_000),
    );
    let best = run(&mut server(), fixed(64), one_host(2_000));
    // Two steps of four round trips each: two for the handshake, one for the first answer, one to see what it brings.
    assert!(
        found.time < best.time + 9 * ms(50),
        "{:?} {:?}",
        found.time,
        best.time
    );
    // What the server does at once is found, and a little more.
    assert!((48..=128).contains(&found.of_one), "{found:?}");
    assert_eq!(found.connections, found.of_one);
}

#[test]
fn a_host_that_multiplexes_gets_as_many_as_it_takes_at_once() {
    let server = || SimulatedServer {
        handshake: 2,
        streams: Some(128),
        ..SimulatedServer::new(ms(50), 1000, ms(1))
    };
    let found = run(
        &mut server(),
        JobDispatcherOptions::default(),
        one_host(2_000),
    );
    assert_eq!(found.of_one, 128);
    let best = run(&mut server(), fixed(128), one_host(2_000));
    // Sixteen round trips at best, and one to see that it does.
    assert!(
        found.time < best.time + 2 * ms(50),
        "{:?} {:?}",
        found.time,
        best.time
    );
}

#[test]
fn c8_many_requests_at_once_are_obeyed_and_do_not_collapse() {
    let server = || SimulatedServer::new(ms(5), 10, ms(1));
    let mut times = [20, 100, 1000].map(|number| {
        let outcome = run(&mut server(), fixed(number), one_host(20_000));
        assert_eq!(outcome.of_one, number);
        outcome.time
    });
    times.reverse();
    assert!(
        times[1] <= times[2].mul_f64(1.02) && times[0] <= times[2].mul_f64(1.02),
        "{times:?}"
    );
}

/// Takes so many at once, and answers 429 to the others.
struct LimitingServer {
    takes: usize,
    /// When those that it works on are through.
    busy: Vec<Duration>,
}

impl SimulatedHosts for LimitingServer {
    fn ask(&mut self, ask: SimulatedRequest) -> SimulatedResult {
        self.busy.retain(|until| *until > ask.now);
        if self.busy.len() >= self.takes {
            return SimulatedResult::Refused(ms(20), None);
        }
        self.busy.push(ask.now + ms(40));
        SimulatedResult::File {
            head: ms(40),
            body: Duration::ZERO,
            bytes: 4096,
        }
    }
}

#[test]
fn an_origin_that_answers_429_beyond_four_at_once_gets_four() {
    for options in [JobDispatcherOptions::default(), fixed(16)] {
        let mut choosy = LimitingServer {
            takes: 4,
            busy: Vec::new(),
        };
        let outcome = run(&mut choosy, options, one_host(4_000));
        assert_eq!(outcome.done, 4_000);
        // Four at once take forty seconds.
        assert!(outcome.time < ms(42_000), "{outcome:?}");
        assert!(outcome.refusals < 60, "{}", outcome.refusals);
    }
}

#[test]
fn an_origin_that_refuses_one_in_a_hundred_at_random_loses_next_to_nothing() {
    let mut requests = 0;
    let mut world = |_: SimulatedRequest| {
        requests += 1;
        if drawn(3, requests) < 0.01 {
            return SimulatedResult::Refused(ms(5), Some(ms(1000)));
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        }
    };
    let outcome = run(
        &mut world,
        JobDispatcherOptions::default(),
        one_host(20_000),
    );
    assert_eq!(outcome.done, 20_000);
    // Sixteen at once take twelve and a half seconds.
    assert!(outcome.time < ms(14_500), "{outcome:?}");
}

#[test]
fn an_origin_that_refuses_everything_for_a_while_is_hardly_asked() {
    let mut world = |ask: SimulatedRequest| {
        if (ms(500)..ms(20_500)).contains(&ask.now) {
            return SimulatedResult::Refused(ms(10), Some(ms(3000)));
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        }
    };
    let outcome = run(&mut world, JobDispatcherOptions::default(), one_host(2_000));
    assert_eq!(outcome.done, 2_000);
    assert!(outcome.refusals < 50, "{outcome:?}");
    assert!(outcome.time < ms(32_000), "{outcome:?}");
}

#[test]
fn small_files_go_on_beside_large_ones() {
    // One in a hundred is large and takes ten seconds.
    let mut world = |ask: SimulatedRequest| {
        if ask.job.is_multiple_of(100) {
            return SimulatedResult::Large {
                head: ms(10),
                body: ms(10_000),
            };
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 1024,
        }
    };
    let outcome = run(&mut world, JobDispatcherOptions::default(), one_host(1_000));
    assert_eq!(outcome.done, 1_000);
    // All ten large ones run side by side, and none of the small ones waits for one.
    assert!(outcome.time < ms(12_000), "{outcome:?}");
}

#[test]
fn nothing_but_large_files_is_a_few_at_a_time() {
    let mut running = std::collections::VecDeque::new();
    let mut most = 0;
    let mut world = |ask: SimulatedRequest| {
        running.retain(|until| *until > ask.now);
        running.push_back(ask.now + ms(10_010));
        most = most.max(running.len());
        SimulatedResult::Large {
            head: ms(10),
            body: ms(10_000),
        }
    };
    let outcome = run(&mut world, JobDispatcherOptions::default(), one_host(100));
    assert_eq!(outcome.done, 100);
    // Those that began before any was known to be large, and three beside them.
    assert!(most <= 7, "{most}");
}

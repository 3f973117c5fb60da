//! Whole batches in simulated time, on one host: the dispatcher finds its number of requests.

use std::time::Duration;

use super::simulated_batch::{
    SimulatedBatchOutcome, SimulatedHosts, SimulatedRequest, SimulatedResult, ms, random, run, us,
};
use crate::batch::dispatch::{HostRequestLimit, JobDispatcherOptions};

/// A server behind a link. Each of its workers takes the given time for a request.
struct SimulatedServer {
    /// The round trip.
    latency: Duration,
    /// Round trips to make a connection.
    handshake: u32,
    /// When each worker is free.
    workers: Vec<Duration>,
    service: Duration,
    max_streams: Option<usize>,
    /// What the dispatcher learns from a new connection.
    round_trip: Option<Duration>,
    /// Every worker loses this share of its speed for each concurrent request.
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
            max_streams: None,
            round_trip: None,
            crowding: 0.0,
            bytes: 4096,
        }
    }
}

impl SimulatedHosts for SimulatedServer {
    fn respond(&mut self, request: SimulatedRequest) -> SimulatedResult {
        let round_trips = if request.is_new_connection {
            self.handshake
        } else {
            0
        };
        let arrives = request.now + self.latency * round_trips + self.latency / 2;
        let worker = self.workers.iter_mut().min().unwrap();
        // From half to one and a half times as long.
        let spread = 0.5 + random(7, request.job);
        let slowdown = 1.0 + self.crowding * request.concurrent as f64;
        *worker = arrives.max(*worker) + self.service.mul_f64(spread * slowdown);
        let head = *worker + self.latency / 2 - request.now;
        SimulatedResult::File {
            head,
            body: Duration::ZERO,
            bytes: self.bytes,
        }
    }

    fn max_streams(&self) -> Option<usize> {
        self.max_streams
    }

    fn round_trip(&self) -> Option<Duration> {
        self.round_trip
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

/// How much longer the dispatcher's own number takes than the best of some fixed numbers.
#[track_caller]
fn ratio_to_best(
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
    // Two requests keep it half busy, eight fully: 0.3 seconds in all.
    let server = || SimulatedServer::new(us(60), 4, us(60));
    let (ratio, found) = ratio_to_best(server, 20_000, &NUMBERS);
    assert!(ratio < 1.05, "{ratio:.3} {found:?}");
    assert!(found.reached[1].unwrap() < ms(20), "{:?}", found.reached);
}

#[test]
fn a_server_that_one_request_keeps_busy_is_not_crowded() {
    let server = || SimulatedServer {
        crowding: 0.02,
        ..SimulatedServer::new(us(20), 1, us(50))
    };
    let (ratio, _) = ratio_to_best(server, 20_000, &NUMBERS);
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
    // Two steps of four round trips each: two for the handshake, one for the first response, one for its
    // rate.
    assert!(
        found.time < best.time + 9 * ms(50),
        "{:?} {:?}",
        found.time,
        best.time
    );
    // The dispatcher finds what the server does at once, and a little more.
    assert!((48..=128).contains(&found.max_of_one_host), "{found:?}");
    assert_eq!(found.connections, found.max_of_one_host);
}

/// The first connection shows how long the path is, and all others begin then: no round trips are lost to a climb.
#[test]
fn a_long_path_is_filled_as_soon_as_its_round_trip_is_known() {
    for (round_trip, number) in [(ms(10), 30), (ms(30), 90), (ms(100), 128), (ms(300), 128)] {
        let server = || SimulatedServer {
            handshake: 1,
            round_trip: Some(round_trip),
            ..SimulatedServer::new(round_trip, 1000, ms(1))
        };
        let options = JobDispatcherOptions::default();
        let found = run(&mut server(), options, one_host(600));
        let best = run(&mut server(), fixed(number), one_host(600));
        assert_eq!(found.max_of_one_host, number, "{found:?}");
        // One to learn it, and one for slots that hosts without a response do not get.
        assert!(
            found.time <= best.time + 2 * round_trip + ms(2),
            "{:?} {:?}",
            found.time,
            best.time
        );
    }
}

/// A path that is shorter, a connection that was sent for twice, and numbers that are the user's change nothing.
#[test]
fn other_round_trips_leave_the_number_to_the_climb() {
    let most = |options, round_trip| {
        let mut server = SimulatedServer {
            round_trip: Some(round_trip),
            ..SimulatedServer::new(round_trip, 4, ms(10))
        };
        run(&mut server, options, one_host(40)).max_of_one_host
    };
    for (round_trip, climbed) in [(ms(2), 24), (ms(1010), 16)] {
        let number = most(JobDispatcherOptions::default(), round_trip);
        assert_eq!(number, climbed, "{round_trip:?}");
    }
    assert_eq!(most(JobDispatcherOptions::default(), ms(100)), 40);
    assert_eq!(most(fixed(3), ms(100)), 3);
}

#[test]
fn a_host_that_multiplexes_gets_its_number_of_streams_at_once() {
    let server = || SimulatedServer {
        handshake: 2,
        max_streams: Some(128),
        ..SimulatedServer::new(ms(50), 1000, ms(1))
    };
    let found = run(
        &mut server(),
        JobDispatcherOptions::default(),
        one_host(2_000),
    );
    assert_eq!(found.max_of_one_host, 128);
    let best = run(&mut server(), fixed(128), one_host(2_000));
    // Sixteen round trips at best, and one to learn that the host multiplexes.
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
        assert_eq!(outcome.max_of_one_host, number);
        outcome.time
    });
    times.reverse();
    assert!(
        times[1] <= times[2].mul_f64(1.02) && times[0] <= times[2].mul_f64(1.02),
        "{times:?}"
    );
}

/// Accepts this number of requests at once, and responds 429 to the others.
struct LimitingServer {
    max_requests: usize,
    round_trip: Option<Duration>,
    /// When the requests at work end.
    busy_until: Vec<Duration>,
}

impl SimulatedHosts for LimitingServer {
    fn respond(&mut self, request: SimulatedRequest) -> SimulatedResult {
        self.busy_until.retain(|until| *until > request.now);
        if self.busy_until.len() >= self.max_requests {
            return SimulatedResult::Refused(ms(20), None);
        }
        self.busy_until.push(request.now + ms(40));
        SimulatedResult::File {
            head: ms(40),
            body: Duration::ZERO,
            bytes: 4096,
        }
    }

    fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }
}

#[test]
fn an_origin_that_responds_429_beyond_four_at_once_gets_four() {
    let default = JobDispatcherOptions::default();
    for (options, round_trip) in [(default, None), (fixed(16), None), (default, Some(ms(20)))] {
        let mut server = LimitingServer {
            max_requests: 4,
            round_trip,
            busy_until: Vec::new(),
        };
        let outcome = run(&mut server, options, one_host(4_000));
        assert_eq!(outcome.done, 4_000);
        // Four at once take forty seconds.
        assert!(outcome.time < ms(42_000), "{outcome:?}");
        // At once, a long path gets sixty.
        let at_once = round_trip.map_or(0, |_| 56);
        assert!(outcome.refusals < 60 + at_once, "{}", outcome.refusals);
    }
}

#[test]
fn an_origin_that_refuses_one_in_a_hundred_at_random_loses_next_to_nothing() {
    let mut requests = 0;
    let mut hosts = |_: SimulatedRequest| {
        requests += 1;
        if random(3, requests) < 0.01 {
            return SimulatedResult::Refused(ms(5), Some(ms(1000)));
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        }
    };
    let outcome = run(
        &mut hosts,
        JobDispatcherOptions::default(),
        one_host(20_000),
    );
    assert_eq!(outcome.done, 20_000);
    // Sixteen at once take twelve and a half seconds.
    assert!(outcome.time < ms(14_500), "{outcome:?}");
}

/// Row A46: with and without a time that it names, at once and after a second in which it granted all requests.
#[test]
fn a46_an_origin_that_refuses_everything_for_ever_is_given_up_after_few_requests() {
    for wait in [None, Some(ms(0)), Some(ms(1000))] {
        for (granted, jobs) in [(ms(0), 20), (ms(0), 10_000), (ms(1000), 100_000)] {
            let mut hosts = |request: SimulatedRequest| {
                if request.now < granted {
                    SimulatedResult::File {
                        head: ms(10),
                        body: Duration::ZERO,
                        bytes: 4096,
                    }
                } else {
                    SimulatedResult::Refused(ms(10), wait)
                }
            };
            let outcome = run(&mut hosts, JobDispatcherOptions::default(), one_host(jobs));
            assert_eq!(outcome.done + outcome.rejected, jobs);
            assert!(outcome.done > 0 || granted.is_zero());
            // Those that were under way, and one after each pause.
            assert!(outcome.refusals < 160, "{outcome:?}");
            assert!(outcome.time < ms(180_000), "{outcome:?}");
        }
    }
}

/// Row A46: the host grants each request of a file but the first two, or refuses the first eight files for minutes.
#[test]
fn a46_an_origin_that_refuses_some_requests_for_ever_keeps_its_other_files() {
    let jobs = 2_000;
    let file = SimulatedResult::File {
        head: ms(10),
        body: Duration::ZERO,
        bytes: 4096,
    };
    let mut requests = vec![0; jobs];
    let mut cold = |request: SimulatedRequest| {
        let count = &mut requests[request.job as usize];
        *count += 1;
        match *count {
            1 | 2 => SimulatedResult::Refused(ms(10), None),
            _ => file,
        }
    };
    let outcome = run(&mut cold, JobDispatcherOptions::default(), one_host(jobs));
    assert_eq!(outcome.done, jobs, "{outcome:?}");
    let mut bad = |request: SimulatedRequest| match request.job {
        ..8 if request.now < ms(300_000) => SimulatedResult::Refused(ms(10), None),
        _ => file,
    };
    let outcome = run(&mut bad, JobDispatcherOptions::default(), one_host(jobs));
    assert_eq!(outcome.done, jobs, "{outcome:?}");
}

#[test]
fn an_origin_that_refuses_everything_for_a_while_gets_few_requests() {
    let mut hosts = |request: SimulatedRequest| {
        if (ms(500)..ms(20_500)).contains(&request.now) {
            return SimulatedResult::Refused(ms(10), Some(ms(3000)));
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        }
    };
    let outcome = run(&mut hosts, JobDispatcherOptions::default(), one_host(2_000));
    assert_eq!(outcome.done, 2_000);
    assert!(outcome.refusals < 50, "{outcome:?}");
    assert!(outcome.time < ms(32_000), "{outcome:?}");
}

#[test]
fn small_files_go_on_while_large_ones_run() {
    // One in a hundred is large and takes ten seconds.
    let mut hosts = |request: SimulatedRequest| {
        if request.job.is_multiple_of(100) {
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
    let outcome = run(&mut hosts, JobDispatcherOptions::default(), one_host(1_000));
    assert_eq!(outcome.done, 1_000);
    // All ten large files run side by side, and no small one waits for them.
    assert!(outcome.time < ms(12_000), "{outcome:?}");
}

#[test]
fn only_a_few_large_files_run_at_a_time() {
    let mut running = std::collections::VecDeque::new();
    let mut max_running = 0;
    let mut hosts = |request: SimulatedRequest| {
        running.retain(|until| *until > request.now);
        running.push_back(request.now + ms(10_010));
        max_running = max_running.max(running.len());
        SimulatedResult::Large {
            head: ms(10),
            body: ms(10_000),
        }
    };
    let outcome = run(&mut hosts, JobDispatcherOptions::default(), one_host(100));
    assert_eq!(outcome.done, 100);
    // Those that began before any was known to be large, and three more.
    assert!(max_running <= 7, "{max_running}");
}

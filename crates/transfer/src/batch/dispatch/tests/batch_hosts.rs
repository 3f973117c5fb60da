//! Batches over many hosts: dead, slow and huge ones cost the others next to nothing.

use std::time::Duration;

use super::simulated_batch::{
    MAX_WINDOW, SimulatedBatchOutcome, SimulatedRequest, SimulatedResult, ms, random, run,
};
use crate::batch::dispatch::{HostRequestLimit, JobDispatcherOptions};

/// Hosts that respond after 100 to 400 ms, a new connection included, except for a share that never does.
fn many_hosts(hosts: u32, dead: f64, options: JobDispatcherOptions) -> SimulatedBatchOutcome {
    let mut simulated = |request: SimulatedRequest| {
        if random(1, request.host) < dead {
            return SimulatedResult::Unreachable(ms(10_000));
        }
        SimulatedResult::File {
            head: ms(100).mul_f64(1.0 + 3.0 * random(2, request.host)),
            body: ms(5),
            bytes: 4096,
        }
    };
    run(&mut simulated, options, 0..hosts)
}

/// The living hosts take at most a tenth longer than without the dead ones.
#[track_caller]
fn the_dead_cost_little(hosts: u32, options: JobDispatcherOptions) -> SimulatedBatchOutcome {
    let dead = 0.05;
    let with = many_hosts(hosts, dead, options);
    let living = u32::try_from(with.done).unwrap();
    let without = many_hosts(living, 0.0, options);
    assert_eq!(without.done, with.done);
    assert_eq!(with.done + with.failed + with.rejected, hosts as usize);
    let ratio = with.done_at.as_secs_f64() / without.done_at.as_secs_f64();
    assert!(
        ratio < 1.10,
        "{ratio:.3}: {:?} {:?}",
        with.done_at,
        without.done_at
    );
    with
}

#[test]
fn c3_dead_hosts_among_ten_thousand_cost_the_living_less_than_a_tenth() {
    let outcome = the_dead_cost_little(10_000, JobDispatcherOptions::default());
    assert_eq!(outcome.failed, 0, "the dead are refused after three tries");
}

#[test]
fn c3_dead_hosts_among_a_million_cost_the_living_less_than_a_tenth_and_memory_stays() {
    let options = JobDispatcherOptions::default();
    let outcome = the_dead_cost_little(1_000_000, options);
    assert!(outcome.max_held <= MAX_WINDOW);
    assert!(outcome.max_hosts <= MAX_WINDOW);
    assert!(outcome.max_idle_hosts <= 65_536);
}

#[test]
fn c3_one_dead_host_delays_only_its_own_jobs() {
    // Sorted: the thousand jobs of the dead host come first.
    let list = (0..10_000u32).map(|n| n / 1_000);
    let mut simulated = |request: SimulatedRequest| match request.host {
        0 => SimulatedResult::Unreachable(ms(10_000)),
        _ => SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        },
    };
    let outcome = run(
        &mut simulated,
        JobDispatcherOptions::default(),
        list.clone(),
    );
    assert_eq!((outcome.done, outcome.rejected), (9_000, 1_000));
    // Nine thousand, 64 at a time.
    assert!(outcome.done_at < ms(2_500), "{:?}", outcome.done_at);
    // Four in the first moment, and two more tries.
    assert!(outcome.requests - outcome.done <= 6);
    assert!(outcome.time < ms(35_000), "{:?}", outcome.time);
}

#[test]
fn c3_a_thousand_dead_hosts_do_not_delay_a_living_one() {
    let mut simulated = |request: SimulatedRequest| match request.host {
        0 => SimulatedResult::File {
            head: ms(50),
            body: Duration::ZERO,
            bytes: 4096,
        },
        _ => SimulatedResult::Unreachable(ms(10_000)),
    };
    let list = (0..20_000u32).map(|n| if n % 20 == 0 { 1 + n / 20 } else { 0 });
    let outcome = run(&mut simulated, JobDispatcherOptions::default(), list);
    assert_eq!(outcome.done, 19_000);
    // A hundred and twenty-eight at a time, and a few round trips to find that number.
    assert!(outcome.done_at < ms(12_000), "{:?}", outcome.done_at);
}

#[test]
fn c3_one_slow_host_delays_only_its_own_jobs() {
    let options = JobDispatcherOptions {
        window: 500,
        ..JobDispatcherOptions::default()
    };
    for slow in [0, 4, 9] {
        // Sorted: the slow host's thousand jobs, twice the window, are somewhere in the list.
        let list = (0..10_000u32).map(|n| n / 1_000);
        let mut simulated = |request: SimulatedRequest| SimulatedResult::File {
            head: ms(10),
            body: if request.host == slow {
                ms(2_000)
            } else {
                ms(10)
            },
            bytes: 4096,
        };
        let outcome = run(&mut simulated, options, list);
        assert_eq!(outcome.done, 10_000);
        let others = outcome
            .last_file_of_host
            .iter()
            .filter(|(host, _)| **host != slow);
        let last = others.map(|(_, at)| *at).max().unwrap();
        assert!(last < ms(6_000), "{slow}: {last:?}");
        assert!(outcome.max_held > 500);
    }
}

#[test]
fn a_list_of_one_host_is_not_read_ahead_where_all_slots_are_in_use() {
    let mut simulated = |_: SimulatedRequest| SimulatedResult::File {
        head: ms(10),
        body: Duration::ZERO,
        bytes: 4096,
    };
    let options = JobDispatcherOptions {
        window: 1_000,
        request_slots: 2,
        ..JobDispatcherOptions::default()
    };
    let outcome = run(&mut simulated, options, std::iter::repeat_n(0, 20_000));
    assert_eq!(outcome.max_held, 1_000);
}

#[test]
fn c3_a_huge_host_does_not_keep_others_from_their_turn() {
    // The huge host's jobs come first, and there are few slots.
    let options = JobDispatcherOptions {
        request_slots: 8,
        window: 100_000,
        ..JobDispatcherOptions::default()
    };
    let list = std::iter::repeat_n(0, 20_000).chain((1..=100).flat_map(|host| [host; 10]));
    let mut simulated = |_: SimulatedRequest| SimulatedResult::File {
        head: ms(10),
        body: Duration::ZERO,
        bytes: 4096,
    };
    let outcome = run(&mut simulated, options, list);
    let small = |host: &u32| *host != 0;
    let last = outcome
        .last_file_of_host
        .iter()
        .filter(|(host, _)| small(host))
        .map(|(_, at)| *at)
        .max()
        .unwrap();
    // A thousand jobs alone take 1.3 seconds, and the huge host has its turns between.
    assert!(last < ms(4_000), "{last:?} of {:?}", outcome.time);
}

#[test]
fn hosts_that_share_few_slots_keep_their_connections_warm() {
    let options = JobDispatcherOptions {
        request_slots: 4,
        ..JobDispatcherOptions::default()
    };
    let list = (0..3_200u32).map(|n| n % 100);
    let mut simulated = |_: SimulatedRequest| SimulatedResult::File {
        head: ms(10),
        body: Duration::ZERO,
        bytes: 4096,
    };
    let outcome = run(&mut simulated, options, list);
    // How often the host changes between one job and the next of the same slot is hard to see from outside. A
    // turn shows in the number of hosts to which forty jobs in a row belong.
    let hosts = |jobs: &[(u32, u32)]| {
        let mut hosts: Vec<u32> = jobs.iter().map(|(host, _)| *host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    };
    let wide = outcome.started.chunks(40).filter(|jobs| hosts(jobs) > 12);
    assert_eq!(wide.count(), 0);
    // The jobs of each host run in their order.
    for host in 0..100 {
        let jobs_of_host = outcome.started.iter().filter(|(of, _)| *of == host);
        assert!(jobs_of_host.map(|(_, job)| *job).is_sorted());
    }
}

#[test]
fn c3_a_host_that_restarts_loses_no_job() {
    // Down from half a second on, for ten seconds: connections are refused at once.
    let mut simulated = |request: SimulatedRequest| {
        if (ms(500)..ms(10_500)).contains(&request.now) {
            return SimulatedResult::Unreachable(ms(1));
        }
        SimulatedResult::File {
            head: ms(10),
            body: Duration::ZERO,
            bytes: 4096,
        }
    };
    let outcome = run(
        &mut simulated,
        JobDispatcherOptions::default(),
        std::iter::repeat_n(0, 5_000),
    );
    // Jobs that are tried four times within that time fail; the others wait for the host.
    assert_eq!(outcome.rejected, 0);
    assert!(outcome.failed <= 3, "{outcome:?}");
    assert!(outcome.time < ms(25_000), "{:?}", outcome.time);
}

#[test]
fn the_limit_on_jobs_is_never_exceeded() {
    for jobs in [1, 3, 40] {
        let options = JobDispatcherOptions {
            max_jobs: Some(jobs),
            per_host: HostRequestLimit::Fixed(100),
            ..JobDispatcherOptions::default()
        };
        let outcome = many_hosts(300, 0.05, options);
        assert_eq!(outcome.max_running, jobs);
    }
}

//! What a batch knows of hosts from the batch before it.

use super::super::*;
use super::{DONE, dispatcher_with, ms, numbers, open_circuit, rated, slots, start_all};

/// The next batch, with the hosts of this one.
fn next_batch(
    mut dispatcher: JobDispatcher<u32>,
    options: JobDispatcherOptions,
    now: Duration,
) -> JobDispatcher<u32> {
    JobDispatcher::with_idle_hosts(options, dispatcher.take_idle_hosts(now))
}

#[test]
fn the_next_batch_knows_pauses_rates_and_circuit_breakers() {
    let mut dispatcher = dispatcher_with(rated(0.5), &[("a", 1), ("a", 2), ("b", 3)]);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 3]);
    // The first batch is stopped while one job of a runs and one waits.
    dispatcher.on_finished(first[1].1, DONE, ms(10));
    let mut dispatcher = next_batch(dispatcher, rated(0.5), ms(10));
    for (host, job) in [("a", 4), ("b", 5), ("c", 6)] {
        dispatcher.add(host, job, ms(20));
    }
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(20))), [6]);
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(2000))), [4, 5]);

    let mut dispatcher = dispatcher_with(slots(8), &[("a", 1), ("a", 2)]);
    let opened_at = open_circuit(&mut dispatcher);
    let mut dispatcher = next_batch(dispatcher, slots(8), opened_at);
    dispatcher.add("a", 3, opened_at + ms(100));
    assert!(matches!(
        dispatcher.next(opened_at + ms(100)),
        DispatchDecision::Reject(3, FailedHost { failures: 3, .. })
    ));
}

#[test]
fn the_next_batch_knows_numbers_of_requests_that_were_found_under_its_limits() {
    let run_batch = |mut dispatcher: JobDispatcher<u32>, mut now: Duration| {
        for job in 0..40 {
            dispatcher.add("a", job, now);
        }
        let limit = dispatcher.request_limit("a");
        loop {
            let jobs = start_all(&mut dispatcher, now);
            if jobs.is_empty() {
                return (limit, dispatcher);
            }
            now += ms(10);
            for (_, ticket) in jobs {
                dispatcher.on_response_head(ticket, Some(30), now);
                dispatcher.on_finished(ticket, DONE, now);
            }
        }
    };
    let new = JobDispatcher::with_idle_hosts(slots(50), IdleHosts::default());
    let (limit, dispatcher) = run_batch(new, ms(0));
    assert_eq!(limit, Some(4));
    let (limit, dispatcher) = run_batch(next_batch(dispatcher, slots(50), ms(900)), ms(9000));
    assert_eq!(limit, Some(30));
    let other = JobDispatcherOptions {
        per_host: HostRequestLimit::Fixed(7),
        ..slots(50)
    };
    let (limit, dispatcher) = run_batch(next_batch(dispatcher, other, ms(9900)), ms(10_000));
    assert_eq!(limit, Some(7));
    let (limit, _) = run_batch(next_batch(dispatcher, slots(50), ms(10_900)), ms(11_000));
    assert_eq!(limit, Some(4));
    // Without a batch before or after it, nothing is kept.
    let (_, dispatcher) = run_batch(JobDispatcher::new(slots(50)), ms(0));
    assert_eq!(dispatcher.idle_host_count(), 0);
}

#[test]
fn a42_the_next_batch_waits_as_long_as_the_host_asked() {
    let refused = JobRunReport {
        bytes: 0,
        result: JobRunResult::Refused {
            retry_after: Some(ms(60_000)),
        },
    };
    let mut dispatcher = JobDispatcher::with_idle_hosts(slots(8), IdleHosts::default());
    dispatcher.add("a", 1, ms(0));
    let ticket = start_all(&mut dispatcher, ms(0))[0].1;
    dispatcher.on_finished(ticket, refused, ms(100));
    let mut dispatcher = next_batch(dispatcher, slots(8), ms(100));
    dispatcher.add("a", 2, ms(200));
    assert_eq!(
        dispatcher.next(ms(200)),
        DispatchDecision::Wait(Some(ms(60_100)))
    );
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(60_100))), [2]);
}

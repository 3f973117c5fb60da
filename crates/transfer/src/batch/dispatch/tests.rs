//! One rule a test; [`batch`] and those beside it simulate whole batches.

mod batch;
mod batch_hosts;
mod batch_properties;
mod batch_rates;
mod next_batch;
mod simulated_batch;

use super::*;

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) const DONE: JobRunReport = JobRunReport {
    bytes: 1,
    result: JobRunResult::Done,
};

const UNREACHABLE: JobRunReport = JobRunReport {
    bytes: 0,
    result: JobRunResult::Unreachable,
};

pub(super) fn dispatcher_with(
    options: JobDispatcherOptions,
    jobs: &[(&str, u32)],
) -> JobDispatcher<u32> {
    let mut dispatcher = JobDispatcher::new(options);
    for (host, job) in jobs {
        dispatcher.add(host, *job, Duration::ZERO);
    }
    dispatcher
}

/// Starts all jobs that may run now.
#[track_caller]
pub(super) fn start_all(
    dispatcher: &mut JobDispatcher<u32>,
    now: Duration,
) -> Vec<(u32, JobTicket)> {
    let mut jobs = Vec::new();
    while let DispatchDecision::Run(ticket, job) = dispatcher.next(now) {
        jobs.push((job, ticket));
    }
    jobs
}

pub(super) fn numbers(jobs: &[(u32, JobTicket)]) -> Vec<u32> {
    jobs.iter().map(|(job, _)| *job).collect()
}

pub(super) fn slots(slots: usize) -> JobDispatcherOptions {
    JobDispatcherOptions {
        request_slots: slots,
        ..JobDispatcherOptions::default()
    }
}

#[test]
fn hosts_take_turns_and_a_warm_connection_stays_with_its_host() {
    let list = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6)];
    let mut dispatcher = dispatcher_with(slots(3), &list);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 4, 6]);
    dispatcher.on_finished(first[1].1, DONE, ms(10));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(10))), [5]);
    // c has no more jobs: its slot goes to the next host in turn.
    dispatcher.on_finished(first[2].1, DONE, ms(10));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(10))), [2]);
}

#[test]
fn a_turn_ends() {
    let list: Vec<(&str, u32)> = (0..40).map(|n| ("a", n)).chain([("b", 99)]).collect();
    let mut dispatcher = dispatcher_with(slots(1), &list);
    let mut order = Vec::new();
    dispatcher.close();
    while let DispatchDecision::Run(ticket, job) = dispatcher.next(ms(0)) {
        order.push(job);
        dispatcher.on_finished(ticket, DONE, ms(0));
    }
    assert_eq!(order.iter().position(|job| *job == 99), Some(16));
    assert_eq!(order.len(), 41);
}

#[test]
fn c3_large_files_that_never_end_do_not_start_more_of_them() {
    let list: Vec<(&str, u32)> = (0..200).map(|n| ("a", n)).collect();
    let mut dispatcher = dispatcher_with(slots(256), &list);
    for second in 0..20 {
        for (_, ticket) in start_all(&mut dispatcher, ms(1_000 * second)) {
            dispatcher.on_response_head(ticket, None, ms(1_000 * second));
            dispatcher.on_large_file(ticket, ms(1_000 * second));
        }
        dispatcher.widen_stalled_hosts(ms(1_000 * second + 999));
    }
    assert!(
        dispatcher.running_jobs() <= 7,
        "{}",
        dispatcher.running_jobs()
    );
}

#[test]
fn a_host_that_no_longer_multiplexes_starts_again_with_few_requests() {
    let list: Vec<(&str, u32)> = (0..600).map(|n| ("a", n)).collect();
    let mut dispatcher = dispatcher_with(slots(256), &list);
    let first = start_all(&mut dispatcher, ms(0));
    dispatcher.on_response_head(first[0].1, Some(256), ms(50));
    assert_eq!(dispatcher.request_limit("a"), Some(256));
    let others = start_all(&mut dispatcher, ms(50));
    assert_eq!(first.len() + others.len(), 256);
    dispatcher.on_response_head(others[0].1, None, ms(100));
    assert_eq!(dispatcher.request_limit("a"), Some(4));
}

#[test]
fn a_retry_runs_when_it_is_due_and_before_new_jobs() {
    let mut dispatcher = dispatcher_with(slots(1), &[("a", 1), ("a", 2), ("a", 3)]);
    let one = start_all(&mut dispatcher, ms(0))[0].1;
    dispatcher.retry_later(one, 1, ms(100), JobRunResult::Failed, ms(0));
    let two = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&two), [2]);
    assert_eq!(
        dispatcher.next(ms(99)),
        DispatchDecision::Wait(Some(ms(100)))
    );
    dispatcher.on_finished(two[0].1, DONE, ms(100));
    let again = start_all(&mut dispatcher, ms(100));
    assert_eq!(numbers(&again), [1]);
    // A ticket is good for one run.
    dispatcher.on_finished(one, DONE, ms(100));
    assert_eq!((dispatcher.running_jobs(), dispatcher.held_jobs()), (1, 2));
}

#[test]
fn an_overdue_request_gives_up_its_slot_and_takes_one_when_its_response_begins() {
    let options = JobDispatcherOptions {
        max_overdue: 1,
        ..slots(1)
    };
    let hosts: Vec<(String, u32)> = (0..5).map(|n| (n.to_string(), n)).collect();
    let list: Vec<(&str, u32)> = hosts.iter().map(|(host, n)| (host.as_str(), *n)).collect();
    let mut dispatcher = dispatcher_with(options, &list);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(
        dispatcher.next(ms(999)),
        DispatchDecision::Wait(Some(ms(1000)))
    );
    let second = start_all(&mut dispatcher, ms(1000));
    assert_eq!(numbers(&second), [1]);
    // No more requests may be overdue.
    assert_eq!(dispatcher.next(ms(5000)), DispatchDecision::Wait(None));
    dispatcher.on_response_head(first[0].1, None, ms(5000));
    assert_eq!(dispatcher.running_jobs(), 2);
    dispatcher.on_finished(second[0].1, DONE, ms(5001));
    // The first request takes the one slot.
    assert!(start_all(&mut dispatcher, ms(5002)).is_empty());
    dispatcher.on_finished(first[0].1, DONE, ms(5003));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(5004))), [2]);
}

#[test]
fn a_request_to_an_untried_host_may_wait_a_little_longer_than_the_others_took() {
    let list: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let mut dispatcher = JobDispatcher::new(slots(1));
    let mut now = ms(0);
    for (n, host) in (0..).zip(&list) {
        dispatcher.add(host, n, now);
    }
    for _ in 0..50 {
        let ticket = start_all(&mut dispatcher, now)[0].1;
        now += ms(80);
        dispatcher.on_response_head(ticket, None, now);
        dispatcher.on_finished(ticket, DONE, now);
    }
    assert_eq!(start_all(&mut dispatcher, now).len(), 1);
    assert_eq!(
        dispatcher.next(now),
        DispatchDecision::Wait(Some(now + ms(100)))
    );
}

/// Lets the jobs of a host fail until its circuit breaker opens; returns when.
pub(super) fn open_circuit(dispatcher: &mut JobDispatcher<u32>) -> Duration {
    let mut now = ms(0);
    for _ in 0..3 {
        let jobs = start_all(dispatcher, now);
        for (job, ticket) in jobs {
            dispatcher.retry_later(ticket, job, ms(100), JobRunResult::Unreachable, now);
        }
        now += ms(1000);
    }
    now - ms(1000)
}

#[test]
fn c3_a_host_that_cannot_be_reached_gets_one_job_at_a_time_until_it_responds() {
    let jobs = [1, 2, 3, 4, 5].map(|job| ("a", job));
    let mut dispatcher = dispatcher_with(slots(8), &jobs);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 2, 3, 4]);
    for (_, ticket) in first {
        dispatcher.on_finished(ticket, UNREACHABLE, ms(10));
    }
    assert_eq!(
        dispatcher.next(ms(10)),
        DispatchDecision::Wait(Some(ms(210)))
    );
    dispatcher.add("a", 6, ms(10));
    let fifth = start_all(&mut dispatcher, ms(210));
    assert_eq!(numbers(&fifth), [5]);
    // One response, and all is well.
    dispatcher.on_response_head(fifth[0].1, None, ms(220));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(220))), [6]);
}

#[test]
fn c3_jobs_of_a_host_with_an_open_circuit_are_rejected_until_one_may_try_again() {
    let mut dispatcher = dispatcher_with(slots(8), &[("a", 1), ("a", 2)]);
    let opened_at = open_circuit(&mut dispatcher);
    let until = opened_at + ms(30_000);
    for _ in 0..2 {
        assert!(matches!(
            dispatcher.next(opened_at),
            DispatchDecision::Reject(_, FailedHost { cause: HostFailureCause::Unreachable, failures: 3, retry_at: then }) if then == until
        ));
    }
    assert_eq!((dispatcher.held_jobs(), dispatcher.host_count()), (0, 0));
    assert_eq!(dispatcher.idle_host_count(), 1);
    dispatcher.add("a", 3, until - ms(1));
    assert!(matches!(
        dispatcher.next(until - ms(1)),
        DispatchDecision::Reject(3, _)
    ));
    for job in 4..8 {
        dispatcher.add("a", job, until);
    }
    let probe = start_all(&mut dispatcher, until);
    assert_eq!(numbers(&probe), [4]);
    dispatcher.on_finished(probe[0].1, UNREACHABLE, until);
    assert!(matches!(
        dispatcher.next(until),
        DispatchDecision::Reject(5, FailedHost { retry_at: then, .. }) if then == until + ms(60_000)
    ));
}

#[test]
fn a42_all_jobs_of_a_host_wait_as_long_as_it_asks() {
    let minutes = ms(300_000);
    let refused = JobRunResult::Refused {
        retry_after: Some(minutes),
    };
    let jobs: Vec<(&str, u32)> = (1..=6).map(|job| ("a", job)).collect();
    let mut dispatcher = dispatcher_with(slots(4), &jobs);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 2, 3, 4]);
    for (at, (job, ticket)) in (10..).zip(&first) {
        dispatcher.retry_later(*ticket, *job, minutes, refused, ms(at));
        // Others are under way, and no new one begins.
        assert!(start_all(&mut dispatcher, ms(at)).is_empty());
    }
    let host = "a".into();
    let asked = RequestedPause {
        host,
        wait: minutes,
    };
    assert_eq!(dispatcher.take_requested_pauses(), [asked]);
    dispatcher.add("b", 7, ms(20));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(20))), [7]);
    assert!(start_all(&mut dispatcher, ms(300_000)).is_empty());
    assert!(!start_all(&mut dispatcher, ms(300_014)).is_empty());
    assert!(dispatcher.take_requested_pauses().is_empty());
}

#[test]
fn a46_a_run_that_says_nothing_about_its_host_does_not_end_its_pause() {
    let jobs: Vec<(&str, u32)> = (1..=6).map(|job| ("a", job)).collect();
    let mut dispatcher = dispatcher_with(slots(4), &jobs);
    let first = start_all(&mut dispatcher, ms(0));
    let refused = JobRunResult::Refused { retry_after: None };
    for (job, ticket) in &first {
        dispatcher.retry_later(*ticket, *job, ms(10), refused, ms(10));
    }
    for at in [210, 211] {
        // One job at a time, and no second one at once.
        let probe = start_all(&mut dispatcher, ms(at));
        assert_eq!(probe.len(), 1);
        let report = JobRunReport {
            bytes: 0,
            result: JobRunResult::Inconclusive,
        };
        dispatcher.on_finished(probe[0].1, report, ms(at));
    }
    let probe = start_all(&mut dispatcher, ms(220));
    dispatcher.retry_later(probe[0].1, probe[0].0, ms(1), refused, ms(221));
    assert!(start_all(&mut dispatcher, ms(620)).is_empty());
    assert_eq!(start_all(&mut dispatcher, ms(621)).len(), 1);
}

#[test]
fn a17_jobs_are_rejected_during_a_retry_after_of_an_hour() {
    let hour = Duration::from_secs(3600);
    let refused = JobRunReport {
        bytes: 0,
        result: JobRunResult::Refused {
            retry_after: Some(hour),
        },
    };
    let jobs: Vec<(&str, u32)> = (1..=6).map(|job| ("a", job)).collect();
    let mut dispatcher = dispatcher_with(slots(4), &jobs);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 2, 3, 4]);
    for (_, ticket) in &first {
        dispatcher.on_finished(*ticket, refused, ms(10));
    }
    for job in [5, 6] {
        let decision = dispatcher.next(ms(20));
        let DispatchDecision::Reject(rejected, host) = decision else {
            panic!("{decision:?}")
        };
        assert_eq!((rejected, host.cause), (job, HostFailureCause::LongWait));
        assert_eq!(host.retry_at, ms(10) + hour);
    }
    dispatcher.add("a", 7, hour);
    let last = dispatcher.next(hour);
    assert!(matches!(last, DispatchDecision::Reject(7, _)), "{last:?}");
    dispatcher.add("a", 8, ms(10) + hour);
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(10) + hour)), [8]);
}

#[test]
fn a18_a_connection_refused_while_others_get_responses_is_a_limit_and_no_dead_host() {
    let options = JobDispatcherOptions {
        per_host: HostRequestLimit::Fixed(8),
        ..slots(8)
    };
    let list: Vec<(&str, u32)> = (0..20).map(|n| ("a", n)).collect();
    let mut dispatcher = dispatcher_with(options, &list);
    let jobs = start_all(&mut dispatcher, ms(0));
    assert_eq!(jobs.len(), 8);
    dispatcher.on_response_head(jobs[0].1, None, ms(5));
    for (job, ticket) in &jobs[4..] {
        dispatcher.retry_later(*ticket, *job, ms(200), JobRunResult::Unreachable, ms(10));
    }
    assert_eq!(dispatcher.request_limit("a"), Some(4));
    assert!(start_all(&mut dispatcher, ms(10)).is_empty());
}

#[test]
fn the_protocol_sets_the_number_of_streams() {
    let list: Vec<(&str, u32)> = (0..200).map(|n| ("a", n)).collect();
    let mut dispatcher = dispatcher_with(slots(200), &list);
    let (mut now, mut most) = (ms(0), 0);
    for _ in 0..12 {
        let jobs = start_all(&mut dispatcher, now);
        most = most.max(jobs.len());
        now += ms(10);
        for (_, ticket) in jobs {
            dispatcher.on_response_head(ticket, Some(30), now);
            dispatcher.on_finished(ticket, DONE, now);
        }
    }
    assert_eq!(most, 30);
}

#[test]
fn a_full_window_grows_while_slots_are_free_that_none_of_its_jobs_may_take() {
    let options = JobDispatcherOptions {
        window: 4,
        ..slots(5)
    };
    let list: Vec<(&str, u32)> = (0..4).map(|n| ("a", n)).collect();
    let mut dispatcher = dispatcher_with(options, &list);
    let fill = |dispatcher: &mut JobDispatcher<u32>, max_window| {
        let held = dispatcher.held_jobs();
        while dispatcher.make_room(max_window) {
            dispatcher.add("a", 0, ms(0));
        }
        dispatcher.held_jobs() - held
    };
    assert_eq!(fill(&mut dispatcher, 100), 0, "a job may run");
    start_all(&mut dispatcher, ms(0));
    assert_eq!(fill(&mut dispatcher, 4), 0);
    assert_eq!(fill(&mut dispatcher, 7), 3);
    assert_eq!(fill(&mut dispatcher, 100), 93);
    // A smaller bound does not lose jobs, and ends the reading.
    assert_eq!(fill(&mut dispatcher, 50), 0);
    dispatcher.add("b", 1, ms(0));
    assert_eq!(fill(&mut dispatcher, 1000), 0, "a job may run");
    start_all(&mut dispatcher, ms(0));
    assert_eq!(fill(&mut dispatcher, 1000), 0, "no slot is free");
}

#[test]
fn a_limit_on_jobs_counts_overdue_requests_too() {
    let options = JobDispatcherOptions {
        max_jobs: Some(2),
        ..JobDispatcherOptions::default()
    };
    let mut dispatcher = dispatcher_with(options, &[("a", 1), ("b", 2), ("c", 3)]);
    assert_eq!(start_all(&mut dispatcher, ms(0)).len(), 2);
    assert_eq!(dispatcher.next(ms(60_000)), DispatchDecision::Wait(None));
}

#[test]
fn an_empty_list_is_done_when_it_is_closed() {
    let mut dispatcher: JobDispatcher<u32> = JobDispatcher::new(JobDispatcherOptions::default());
    assert_eq!(dispatcher.next(ms(0)), DispatchDecision::Wait(None));
    dispatcher.close();
    assert!(dispatcher.is_closed());
    assert_eq!(dispatcher.next(ms(0)), DispatchDecision::Done);
}

#[test]
fn c3_a_host_that_is_slow_to_respond_for_the_first_time_gets_no_more_until_it_has() {
    let mut dispatcher = dispatcher_with(slots(8), &[("a", 1), ("b", 2)]);
    let first = start_all(&mut dispatcher, ms(0));
    let silent = first[0].1;
    dispatcher.add("a", 3, ms(10));
    assert_eq!(
        numbers(&start_all(&mut dispatcher, ms(10))),
        [3],
        "the first response may be under way"
    );
    dispatcher.add("a", 4, ms(2_000));
    dispatcher.add("c", 5, ms(2_000));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(2_000))), [5]);
    dispatcher.on_response_head(silent, None, ms(3_000));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(3_000))), [4]);
}

/// Options with a rate for each host.
pub(super) fn rated(requests: f64) -> JobDispatcherOptions {
    JobDispatcherOptions {
        rate_per_host: RequestRate::per_second(requests),
        ..JobDispatcherOptions::default()
    }
}

#[test]
fn a_host_gets_its_rate_and_others_have_rates_of_their_own() {
    let list = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5)];
    let mut dispatcher = dispatcher_with(rated(4.0), &list);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 5]);
    for (_, ticket) in first {
        dispatcher.on_finished(ticket, DONE, ms(10));
    }
    assert_eq!(
        dispatcher.next(ms(249)),
        DispatchDecision::Wait(Some(ms(250)))
    );
    let second = start_all(&mut dispatcher, ms(250));
    assert_eq!(numbers(&second), [2]);
    dispatcher.on_finished(second[0].1, DONE, ms(260));
    // What was not used is lost.
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(5000))), [3]);
}

#[test]
fn retries_count_and_neither_refusals_nor_responses_end_the_pause_of_a_rate() {
    let mut dispatcher = dispatcher_with(rated(0.5), &[("a", 1), ("a", 2)]);
    let first = start_all(&mut dispatcher, ms(0))[0].1;
    let refused = JobRunResult::Refused {
        retry_after: Some(ms(10)),
    };
    dispatcher.retry_later(first, 1, ms(10), refused, ms(5));
    assert!(start_all(&mut dispatcher, ms(1999)).is_empty());
    let second = start_all(&mut dispatcher, ms(2000));
    assert_eq!(numbers(&second), [1]);
    dispatcher.retry_later(second[0].1, 1, ms(10), JobRunResult::Unreachable, ms(2010));
    let third = start_all(&mut dispatcher, ms(4000));
    assert_eq!(numbers(&third), [1]);
    dispatcher.on_response_head(third[0].1, None, ms(4010));
    assert!(start_all(&mut dispatcher, ms(5999)).is_empty());
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(6000))), [2]);
}

#[test]
fn a_host_whose_jobs_come_one_at_a_time_keeps_its_rate() {
    let mut dispatcher = JobDispatcher::new(rated(100.0));
    let (mut now, mut started) = (ms(1000), 0);
    while now < ms(3000) {
        if dispatcher.held_jobs() == 0 {
            dispatcher.add("a", 1, now);
        }
        for (_, ticket) in start_all(&mut dispatcher, now) {
            started += 1;
            dispatcher.on_finished(ticket, DONE, now);
        }
        now += ms(1);
    }
    assert!((200..=210).contains(&started), "{started}");
    // A host that has had no job for a while is forgotten.
    let mut dispatcher = dispatcher_with(rated(4.0), &[("a", 1)]);
    let first = start_all(&mut dispatcher, ms(0))[0].1;
    dispatcher.on_finished(first, DONE, ms(250));
    assert_eq!(dispatcher.idle_host_count(), 0);
}

#[test]
fn untried_hosts_leave_slots_to_hosts_that_respond() {
    let options = JobDispatcherOptions {
        untried_host_slots: 2,
        ..slots(8)
    };
    let mut dispatcher = dispatcher_with(options, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    let first = start_all(&mut dispatcher, ms(0));
    assert_eq!(numbers(&first), [1, 2]);
    dispatcher.on_response_head(first[0].1, None, ms(1));
    assert_eq!(numbers(&start_all(&mut dispatcher, ms(1))), [3]);
    // An overdue request makes room, as it does where all slots are taken.
    let at = ms(1) + ms(1_000);
    assert_eq!(numbers(&start_all(&mut dispatcher, at)), [4]);
}

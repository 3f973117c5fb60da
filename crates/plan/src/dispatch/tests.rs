//! One rule a test; whole batches are simulated in `tests/it`.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const DONE: JobRunReport = JobRunReport {
    bytes: 1,
    result: JobRunResult::Done,
};

const UNREACHABLE: JobRunReport = JobRunReport {
    bytes: 0,
    result: JobRunResult::Unreachable,
};

fn of(options: JobDispatcherOptions, jobs: &[(&str, u32)]) -> JobDispatcher<u32> {
    let mut dispatch = JobDispatcher::new(options);
    for (host, job) in jobs {
        dispatch.add(host, *job, Duration::ZERO);
    }
    dispatch
}

/// All that may run now.
#[track_caller]
fn all(dispatch: &mut JobDispatcher<u32>, now: Duration) -> Vec<(u32, JobTicket)> {
    let mut jobs = Vec::new();
    while let DispatchDecision::Run(ticket, job) = dispatch.next(now) {
        jobs.push((job, ticket));
    }
    jobs
}

fn numbers(jobs: &[(u32, JobTicket)]) -> Vec<u32> {
    jobs.iter().map(|(job, _)| *job).collect()
}

fn total(total: usize) -> JobDispatcherOptions {
    JobDispatcherOptions {
        request_slots: total,
        ..JobDispatcherOptions::default()
    }
}

#[test]
fn hosts_take_turns_and_a_warm_place_stays_with_its_host() {
    let list = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6)];
    let mut dispatch = of(total(3), &list);
    let first = all(&mut dispatch, ms(0));
    assert_eq!(numbers(&first), [1, 4, 6]);
    dispatch.on_finished(first[1].1, DONE, ms(10));
    assert_eq!(numbers(&all(&mut dispatch, ms(10))), [5]);
    // Nothing is left of c: its place goes to the next in turn.
    dispatch.on_finished(first[2].1, DONE, ms(10));
    assert_eq!(numbers(&all(&mut dispatch, ms(10))), [2]);
}

#[test]
fn a_turn_ends() {
    let list: Vec<(&str, u32)> = (0..40).map(|n| ("a", n)).chain([("b", 99)]).collect();
    let mut dispatch = of(total(1), &list);
    let mut order = Vec::new();
    dispatch.close();
    while let DispatchDecision::Run(ticket, job) = dispatch.next(ms(0)) {
        order.push(job);
        dispatch.on_finished(ticket, DONE, ms(0));
    }
    assert_eq!(order.iter().position(|job| *job == 99), Some(16));
    assert_eq!(order.len(), 41);
}

#[test]
fn c3_large_files_that_never_end_ask_for_no_more_of_them() {
    let list: Vec<(&str, u32)> = (0..200).map(|n| ("a", n)).collect();
    let mut dispatch = of(total(256), &list);
    for second in 0..20 {
        for (_, ticket) in all(&mut dispatch, ms(1_000 * second)) {
            dispatch.on_response_head(ticket, None, ms(1_000 * second));
            dispatch.on_large_file(ticket, ms(1_000 * second));
        }
        dispatch.widen_stalled_hosts(ms(1_000 * second + 999));
    }
    assert!(dispatch.running_jobs() <= 7, "{}", dispatch.running_jobs());
}

#[test]
fn a_host_that_no_longer_multiplexes_begins_again_with_few() {
    let list: Vec<(&str, u32)> = (0..600).map(|n| ("a", n)).collect();
    let mut dispatch = of(total(256), &list);
    let first = all(&mut dispatch, ms(0));
    dispatch.on_response_head(first[0].1, Some(256), ms(50));
    assert_eq!(dispatch.request_limit("a"), Some(256));
    let others = all(&mut dispatch, ms(50));
    assert_eq!(first.len() + others.len(), 256);
    dispatch.on_response_head(others[0].1, None, ms(100));
    assert_eq!(dispatch.request_limit("a"), Some(4));
}

#[test]
fn what_is_tried_again_comes_when_it_is_due_and_before_what_is_new() {
    let mut dispatch = of(total(1), &[("a", 1), ("a", 2), ("a", 3)]);
    let one = all(&mut dispatch, ms(0))[0].1;
    dispatch.retry_later(one, 1, ms(100), JobRunResult::Failed, ms(0));
    let two = all(&mut dispatch, ms(0));
    assert_eq!(numbers(&two), [2]);
    assert_eq!(dispatch.next(ms(99)), DispatchDecision::Wait(Some(ms(100))));
    dispatch.on_finished(two[0].1, DONE, ms(100));
    let again = all(&mut dispatch, ms(100));
    assert_eq!(numbers(&again), [1]);
    // A ticket is for one run.
    dispatch.on_finished(one, DONE, ms(100));
    assert_eq!((dispatch.running_jobs(), dispatch.held_jobs()), (1, 2));
}

#[test]
fn who_waits_for_long_gives_up_its_place_and_takes_one_when_it_is_answered() {
    let options = JobDispatcherOptions {
        max_overdue: 1,
        ..total(1)
    };
    let list: Vec<(String, u32)> = (0..5).map(|n| (n.to_string(), n)).collect();
    let list: Vec<(&str, u32)> = list.iter().map(|(host, n)| (host.as_str(), *n)).collect();
    let mut dispatch = of(options, &list);
    let first = all(&mut dispatch, ms(0));
    assert_eq!(
        dispatch.next(ms(999)),
        DispatchDecision::Wait(Some(ms(1000)))
    );
    let second = all(&mut dispatch, ms(1000));
    assert_eq!(numbers(&second), [1]);
    // There is no more limbo.
    assert_eq!(dispatch.next(ms(5000)), DispatchDecision::Wait(None));
    dispatch.on_response_head(first[0].1, None, ms(5000));
    assert_eq!(dispatch.running_jobs(), 2);
    dispatch.on_finished(second[0].1, DONE, ms(5001));
    // The one place is taken by the first.
    assert!(all(&mut dispatch, ms(5002)).is_empty());
    dispatch.on_finished(first[0].1, DONE, ms(5003));
    assert_eq!(numbers(&all(&mut dispatch, ms(5004))), [2]);
}

#[test]
fn who_is_unknown_is_waited_for_a_little_longer_than_the_others_took() {
    let list: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let mut dispatch = JobDispatcher::new(total(1));
    let mut now = ms(0);
    for (n, host) in (0..).zip(&list) {
        dispatch.add(host, n, now);
    }
    for _ in 0..50 {
        let ticket = all(&mut dispatch, now)[0].1;
        now += ms(80);
        dispatch.on_response_head(ticket, None, now);
        dispatch.on_finished(ticket, DONE, now);
    }
    assert_eq!(all(&mut dispatch, now).len(), 1);
    assert_eq!(
        dispatch.next(now),
        DispatchDecision::Wait(Some(now + ms(100)))
    );
}

/// Lets the jobs of a host fail until it is given up; returns when.
fn given_up(dispatch: &mut JobDispatcher<u32>) -> Duration {
    let mut now = ms(0);
    for _ in 0..3 {
        let jobs = all(dispatch, now);
        for (job, ticket) in jobs {
            dispatch.retry_later(ticket, job, ms(100), JobRunResult::Unreachable, now);
        }
        now += ms(1000);
    }
    now - ms(1000)
}

#[test]
fn c3_a_host_that_cannot_be_reached_is_asked_once_at_a_time_and_then_given_up() {
    let jobs = [1, 2, 3, 4, 5].map(|job| ("a", job));
    let mut dispatch = of(total(8), &jobs);
    let first = all(&mut dispatch, ms(0));
    assert_eq!(numbers(&first), [1, 2, 3, 4]);
    for (_, ticket) in first {
        dispatch.on_finished(ticket, UNREACHABLE, ms(10));
    }
    assert_eq!(dispatch.next(ms(10)), DispatchDecision::Wait(Some(ms(210))));
    dispatch.add("a", 6, ms(10));
    let fifth = all(&mut dispatch, ms(210));
    assert_eq!(numbers(&fifth), [5]);
    // One answer, and all is well.
    dispatch.on_response_head(fifth[0].1, None, ms(220));
    assert_eq!(numbers(&all(&mut dispatch, ms(220))), [6]);
}

#[test]
fn c3_a_host_that_was_given_up_refuses_at_once_until_one_may_try_again() {
    let mut dispatch = of(total(8), &[("a", 1), ("a", 2)]);
    let gone = given_up(&mut dispatch);
    let until = gone + ms(30_000);
    for _ in 0..2 {
        assert!(matches!(
            dispatch.next(gone),
            DispatchDecision::Reject(_, UnreachableHost { failures: 3, retry_at: then }) if then == until
        ));
    }
    assert_eq!((dispatch.held_jobs(), dispatch.host_count()), (0, 0));
    assert_eq!(dispatch.idle_host_count(), 1);
    dispatch.add("a", 3, until - ms(1));
    assert!(matches!(
        dispatch.next(until - ms(1)),
        DispatchDecision::Reject(3, _)
    ));
    for job in 4..8 {
        dispatch.add("a", job, until);
    }
    let probe = all(&mut dispatch, until);
    assert_eq!(numbers(&probe), [4]);
    dispatch.on_finished(probe[0].1, UNREACHABLE, until);
    assert!(matches!(
        dispatch.next(until),
        DispatchDecision::Reject(5, UnreachableHost { retry_at: then, .. }) if then == until + ms(60_000)
    ));
}

#[test]
fn a18_a_connection_refused_while_others_answer_is_a_limit_and_no_death() {
    let options = JobDispatcherOptions {
        per_host: HostRequestLimit::Fixed(8),
        ..total(8)
    };
    let list: Vec<(&str, u32)> = (0..20).map(|n| ("a", n)).collect();
    let mut dispatch = of(options, &list);
    let jobs = all(&mut dispatch, ms(0));
    assert_eq!(jobs.len(), 8);
    dispatch.on_response_head(jobs[0].1, None, ms(5));
    for (job, ticket) in &jobs[4..] {
        dispatch.retry_later(*ticket, *job, ms(200), JobRunResult::Unreachable, ms(10));
    }
    assert_eq!(dispatch.request_limit("a"), Some(4));
    assert!(all(&mut dispatch, ms(10)).is_empty());
}

#[test]
fn the_protocol_says_how_many() {
    let list: Vec<(&str, u32)> = (0..200).map(|n| ("a", n)).collect();
    let mut dispatch = of(total(200), &list);
    let (mut now, mut most) = (ms(0), 0);
    for _ in 0..12 {
        let jobs = all(&mut dispatch, now);
        most = most.max(jobs.len());
        now += ms(10);
        for (_, ticket) in jobs {
            dispatch.on_response_head(ticket, Some(30), now);
            dispatch.on_finished(ticket, DONE, now);
        }
    }
    assert_eq!(most, 30);
}

#[test]
fn nobody_fills_more_of_the_window_than_is_free() {
    let options = JobDispatcherOptions {
        window: 12,
        ..JobDispatcherOptions::default()
    };
    let mut dispatch = JobDispatcher::new(options);
    let mut fill = |host: &str| {
        let mut added = 0;
        while dispatch.has_room() && !dispatch.is_crowding(host) {
            dispatch.add(host, 0, ms(0));
            added += 1;
        }
        added
    };
    assert_eq!([fill("a"), fill("b"), fill("c"), fill("d")], [6, 3, 2, 1]);
    assert!(!dispatch.has_room());
}

#[test]
fn what_crowds_is_put_aside_while_places_are_free_and_at_a_measured_pace() {
    let options = JobDispatcherOptions {
        window: 8,
        ..total(2)
    };
    let list: Vec<(&str, u32)> = (0..4).map(|n| ("a", n)).collect();
    let mut dispatch = of(options, &list);
    // Something is ready to run: it first.
    assert!(!dispatch.may_spill(ms(0)));
    let jobs = all(&mut dispatch, ms(0));
    assert!(!dispatch.may_spill(ms(0)), "no place is free");
    dispatch.retry_later(jobs[0].1, 0, ms(5000), JobRunResult::Failed, ms(0));
    for (_, ticket) in all(&mut dispatch, ms(0)) {
        dispatch.retry_later(ticket, 2, ms(5000), JobRunResult::Failed, ms(0));
    }
    for (_, ticket) in all(&mut dispatch, ms(0)) {
        dispatch.retry_later(ticket, 3, ms(5000), JobRunResult::Failed, ms(0));
    }
    let at = |dispatch: &mut JobDispatcher<u32>, now| {
        (0..100).filter(|_| dispatch.may_spill(now)).count()
    };
    let burst = at(&mut dispatch, ms(10_000 - 9_000));
    assert!((8..=9).contains(&burst), "{burst}");
    let second = at(&mut dispatch, ms(1_500));
    assert!((8..=9).contains(&second), "{second}");
}

#[test]
fn a_number_of_jobs_holds_for_those_that_wait_for_long_too() {
    let options = JobDispatcherOptions {
        max_jobs: Some(2),
        ..JobDispatcherOptions::default()
    };
    let mut dispatch = of(options, &[("a", 1), ("b", 2), ("c", 3)]);
    assert_eq!(all(&mut dispatch, ms(0)).len(), 2);
    assert_eq!(dispatch.next(ms(60_000)), DispatchDecision::Wait(None));
}

#[test]
fn an_empty_list_is_done_when_it_is_closed() {
    let mut dispatch: JobDispatcher<u32> = JobDispatcher::new(JobDispatcherOptions::default());
    assert_eq!(dispatch.next(ms(0)), DispatchDecision::Wait(None));
    dispatch.close();
    assert!(dispatch.is_closed());
    assert_eq!(dispatch.next(ms(0)), DispatchDecision::Done);
}

#[test]
fn c3_a_host_that_is_slow_to_answer_for_the_first_time_gets_no_more_until_it_has() {
    let mut dispatch = of(total(8), &[("a", 1), ("b", 2)]);
    let first = all(&mut dispatch, ms(0));
    let silent = first[0].1;
    dispatch.add("a", 3, ms(10));
    assert_eq!(
        numbers(&all(&mut dispatch, ms(10))),
        [3],
        "it may be on its way"
    );
    dispatch.add("a", 4, ms(2_000));
    dispatch.add("c", 5, ms(2_000));
    assert_eq!(numbers(&all(&mut dispatch, ms(2_000))), [5]);
    dispatch.on_response_head(silent, None, ms(3_000));
    assert_eq!(numbers(&all(&mut dispatch, ms(3_000))), [4]);
}

#[test]
fn hosts_that_nobody_knows_leave_places_to_those_that_answer() {
    let options = JobDispatcherOptions {
        untried_host_slots: 2,
        ..total(8)
    };
    let mut dispatch = of(options, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    let first = all(&mut dispatch, ms(0));
    assert_eq!(numbers(&first), [1, 2]);
    dispatch.on_response_head(first[0].1, None, ms(1));
    assert_eq!(numbers(&all(&mut dispatch, ms(1))), [3]);
    // One that waits for too long makes room, as it does where all places are taken.
    let at = ms(1) + ms(1_000);
    assert_eq!(numbers(&all(&mut dispatch, at)), [4]);
}

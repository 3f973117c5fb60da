//! Latencies, rates, pauses and ends.

use haul_lab::{RequestMatcher, SilentListener, faults};

use haul_transfer::batch::StopReason;

use super::*;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn percentiles_are_those_of_the_delays_of_the_origin() {
    let slow = RequestMatcher::matching(|request| request.number_for_path % 20 == 19);
    let resource = resource(1000)
        .rule(!slow.clone(), faults::delay_response(milliseconds(10)))
        .rule(slow, faults::delay_response(milliseconds(80)));
    for client in BOTH_CLIENTS {
        let origin = serve(resource.clone()).await;
        let measured = run(LoadPlan {
            client,
            end: LoadEnd::Requests(200),
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!((measured.successes, measured.bytes), (200, 200_000));
        let latency = measured.latency.unwrap();
        // What a busy machine adds is less than what tells the delays apart.
        let is = |found: f64, delay: f64| (delay - 1e-4..delay + 0.04).contains(&found);
        assert!(is(latency.p50_s, 0.010), "{latency:?}");
        assert!(is(latency.p90_s, 0.010), "{latency:?}");
        assert!(is(latency.p99_s, 0.080), "{latency:?}");
        assert!(is(latency.max_s, 0.080), "{latency:?}");
        let phases = measured.phases.unwrap();
        assert!(is(phases.first_byte_s, 0.0135), "{phases:?}");
        // 4 slots share 2.7 seconds of waiting.
        assert!(
            (0.67..2.0).contains(&measured.wall_s),
            "{}",
            measured.wall_s
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_rate_counts_the_wait_behind_a_stall_and_a_closed_loop_does_not() {
    let stall = RequestMatcher::nth(10);
    let resource = resource(10).rule(stall, faults::delay_response(milliseconds(500)));
    let mut medians = Vec::new();
    for pace in [LoadPace::Closed, LoadPace::Rate(100.0)] {
        let origin = serve(resource.clone()).await;
        let measured = run(LoadPlan {
            concurrency: 1,
            pace,
            end: LoadEnd::Requests(50),
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!(measured.successes, 50);
        let latency = measured.latency.unwrap();
        assert!(latency.max_s >= 0.5, "{latency:?}");
        medians.push(latency.p50_s);
    }
    // 39 requests were due at 110 ms to 490 ms, and sent after 600 ms.
    assert!(medians[0] < 0.1 && medians[1] > 0.15, "{medians:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_a_fixed_rate_are_as_many_as_the_time_has() {
    let origin = serve(resource(10)).await;
    let measured = run(LoadPlan {
        pace: LoadPace::Rate(400.0),
        end: LoadEnd::Seconds(0.5),
        ..plan(&origin.url("/f"))
    })
    .await;
    assert_eq!(measured.successes + measured.failures(), 200);
    assert!(measured.wall_s > 0.49);
    // What is late at the end is not sent, and told.
    let late = serve(resource(10).rule(
        RequestMatcher::always(),
        faults::delay_response(milliseconds(300)),
    ))
    .await;
    let measured = run(LoadPlan {
        concurrency: 1,
        pace: LoadPace::Rate(100.0),
        end: LoadEnd::Seconds(0.5),
        ..plan(&late.url("/f"))
    })
    .await;
    assert!(measured.successes <= 2);
    let unsent = measured.errors["not sent before the end"];
    assert_eq!(measured.successes + unsent, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_of_the_rate_holds_for_every_pace() {
    for (client, pace) in [
        (LoadClient::Threads, LoadPace::Closed),
        (LoadClient::Async, LoadPace::Rate(1e6)),
    ] {
        let origin = serve(resource(10)).await;
        let measured = run(LoadPlan {
            client,
            pace,
            end: LoadEnd::Requests(41),
            max_rate: Some(100.0),
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!(measured.successes, 41);
        assert!(measured.wall_s >= 0.4, "{}", measured.wall_s);
        // The wait for the cap is no latency.
        assert!(measured.latency.unwrap().p50_s < 0.1, "{measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_pauses_all_slots() {
    let busy = RequestMatcher::nth(20);
    let resource = resource(10).rule(busy, faults::overloaded(503, Some("1")));
    for client in BOTH_CLIENTS {
        let origin = serve(resource.clone()).await;
        let measured = run(LoadPlan {
            client,
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!(
            (measured.successes, errors(&measured).as_str()),
            (99, "1 status 503")
        );
        assert!(measured.wall_s >= 1.0, "{}", measured.wall_s);
        let latency = measured.latency.unwrap();
        assert!(latency.max_s < 1.0, "a pause is no latency: {latency:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_stopped_keeps_what_it_measured() {
    for client in BOTH_CLIENTS {
        let stalling = RequestMatcher::after_first(10);
        let origin = serve(resource(1000).rule(stalling, faults::stall_after(10))).await;
        let stop = CancellationToken::new();
        let plan = LoadPlan {
            client,
            end: LoadEnd::Seconds(3600.0),
            ..plan(&origin.url("/f"))
        };
        let stopping = async {
            while origin.requests().len() < 14 {
                tokio::time::sleep(milliseconds(5)).await;
            }
            stop.cancel();
        };
        let load = async { tokio::join!(run_load(plan, stop.clone()), stopping).0 };
        let ended = within(Duration::from_secs(10), load).await.unwrap();
        assert_eq!(ended.stopped, Some(StopReason::Interrupted));
        let measured = ended.measurement;
        assert_eq!(measured.successes, 10);
        assert_eq!(errors(&measured), "4 no answer before the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_stops_while_it_connects_waits_or_is_paused() {
    let silent = SilentListener::start().unwrap();
    let url = format!("http://{}/", silent.address());
    for client in BOTH_CLIENTS {
        for pace in [LoadPace::Closed, LoadPace::Rate(1e-6)] {
            let plan = LoadPlan {
                client,
                pace,
                ..plan(&url)
            };
            let stop = CancellationToken::new();
            let load = run_load(plan, stop.clone());
            let stopping = async {
                tokio::task::yield_now().await;
                stop.cancel();
            };
            let load = async { tokio::join!(load, stopping).0 };
            let ended = within(Duration::from_secs(5), load).await.unwrap();
            let measured = ended.measurement;
            assert_eq!(measured.successes, 0);
            assert!(measured.failures() <= 4, "{measured:?}");
        }
    }
}

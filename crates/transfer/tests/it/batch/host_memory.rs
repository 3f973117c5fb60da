//! Batches that begin with what the ones before them have learned about hosts.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_transfer::batch::{HostMemory, RequestRate};
use tokio::time::Instant;

use super::{BatchCase, small_content};

fn case_with_memory(memory: &HostMemory) -> BatchCase {
    BatchCase {
        host_memory: Some(memory.clone()),
        ..BatchCase::new()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a17_a_host_that_asked_one_batch_to_wait_gets_no_request_of_the_next() {
    let busy = OriginResource::new(small_content(1)).rule(
        RequestMatcher::always(),
        faults::status_with_header(503, "Retry-After", "3600".into()),
    );
    let origin = Origin::builder()
        .resource("/busy1", busy.clone())
        .resource("/busy2", busy)
        .resource("/free", OriginResource::new(small_content(2)))
        .start()
        .await;
    let memory = HostMemory::new();
    let urls = ["/busy1", "/busy2"].map(|path| origin.url(path));
    let run = case_with_memory(&memory).download(urls).await;
    assert_eq!(run.counts(), (0, 0, 2));
    let requests = origin.requests().len();
    let run = case_with_memory(&memory)
        .download([origin.url("/free")])
        .await;
    assert!(run.error("/free").contains("asks to wait for"));
    assert_eq!(origin.requests().len(), requests);
    // Another memory knows nothing of it.
    let run = case_with_memory(&HostMemory::new())
        .download([origin.url("/free")])
        .await;
    assert_eq!(run.counts(), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_batch_keeps_a_hosts_rate() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let timed = OriginResource::new(small_content(3))
        .rule(RequestMatcher::always(), move |_, _| {
            seen.lock().unwrap().push(Instant::now())
        });
    let origin = Origin::builder().resource("/f", timed).start().await;
    let memory = HostMemory::new();
    for _ in 0..3 {
        let mut case = case_with_memory(&memory);
        case.options.dispatch.rate_per_host = RequestRate::per_second(3.0);
        let run = case.download([origin.url("/f")]).await;
        assert_eq!(run.counts(), (1, 0, 0));
    }
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 3);
    let elapsed = times[2] - times[0];
    // Two pauses, less what the first request may have been late.
    assert!(elapsed > Duration::from_millis(550), "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_the_next_batch_knows_which_host_cannot_be_reached_and_why() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let memory = HostMemory::new();
    let url = format!("http://{address}/f");
    let run = case_with_memory(&memory).download([url.clone()]).await;
    assert_eq!(run.counts(), (0, 0, 1));
    let run = case_with_memory(&memory).download([url]).await;
    let error = run.error("/f");
    assert!(error.contains("given up after 3 tries"), "{error}");
    assert!(error.contains("cannot connect"), "{error}");
    assert_eq!(run.row("/f").attempts, 0);
}

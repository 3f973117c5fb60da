//! Loads on servers of the user's. Those on servers of haul's are tested with the command.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};

use super::*;

/// The resource `/x`, and nothing else.
async fn serve(resource: OriginResource) -> Origin {
    Origin::builder().resource("/x", resource).start().await
}

fn resource() -> OriginResource {
    OriginResource::new(ResourceContent::random(1, 1000))
}

fn workload(targets: &[String], is_store: bool) -> RequestsWorkload {
    RequestsWorkload::new(RequestsOptions {
        haul: "/nowhere/haul".into(),
        targets: targets.iter().map(|url| url.parse().unwrap()).collect(),
        is_store,
        tls: None,
        max_rate: None,
        server_pids: Vec::new(),
        proxy: None,
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_lasts_as_long_as_its_seconds() {
    let origin = serve(resource()).await;
    let cell = Cell::new([
        ("files", "1 x given"),
        ("seconds", "0.3"),
        ("concurrency", "2"),
    ]);
    let mut workload = workload(&[origin.url("/x")], false);
    let measured = workload
        .measure(&cell, &CancellationToken::new())
        .await
        .unwrap();
    assert!(
        measured.wall_s > 0.25 && measured.successes > 1,
        "{measured:?}"
    );
    assert_eq!(origin.requests().len() as u64, measured.successes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_without_an_answer_says_so_when_it_is_stopped() {
    let stalling = resource().rule(RequestMatcher::always(), faults::stall_after(10));
    let origin = serve(stalling).await;
    let mut workload = workload(&[origin.url("/x")], false);
    let stop = CancellationToken::new();
    let cell = Cell::new([("files", "9 x given"), ("concurrency", "2")]);
    let stopping = async {
        while origin.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let measuring = async { tokio::join!(workload.measure(&cell, &stop), stopping).0 };
    let stopped = within(Duration::from_secs(20), measuring).await;
    let text = stopped.unwrap_err().to_string();
    assert_eq!(text, "nothing but failures: 2 x no answer before the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_several_urls_name_them_without_the_query() {
    let origin = serve(resource()).await;
    let missing = origin.url("/missing");
    let urls = [origin.url("/x"), format!("{missing}?token=secret")];
    let cell = Cell::new([("files", "4 x given")]);
    let measured = workload(&urls, false)
        .measure(&cell, &CancellationToken::new())
        .await
        .unwrap();
    let errors = [(format!("status 404 at {missing}"), 2)];
    assert_eq!(measured.errors, errors.into());
    assert_eq!(measured.successes, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn braces_in_the_url_of_a_store_are_no_number() {
    let origin = serve(resource()).await;
    let mut workload = workload(&[origin.url("/in{}/")], true);
    let cell = Cell::new([("method", "put"), ("files", "2 x 1k")]);
    let stop = CancellationToken::new();
    let measured = workload.measure(&cell, &stop).await.unwrap();
    assert_eq!(measured.failures(), 2, "{measured:?}");
    // The files that are not there are deleted all the same.
    let _ = workload.finish().await;
    let requests = origin.requests();
    assert!(requests.len() >= 4, "{requests:?}");
    for request in requests {
        let name = request.target.strip_prefix("/in%7B%7D/haul-bench-");
        let number = name.and_then(|name| name.rsplit_once("-PUT-2x1024-"));
        assert!(matches!(number, Some((_, "0" | "1"))), "{request:?}");
    }
}

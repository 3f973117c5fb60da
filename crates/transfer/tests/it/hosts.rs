//! The per-host limit: whose it is, and who waits for it.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_net::Client;
use haul_transfer::{ConnectionCount, DownloadJob, JobOutput, TransferEngine};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, LIMIT, content, serve};

/// An origin that sends everybody elsewhere.
async fn sends_to(far: &Origin) -> Origin {
    let away = faults::status_with_header(302, "Location", far.url("/f.bin"));
    serve(OriginResource::new(content()).rule(RequestMatcher::always(), away)).await
}

/// Runs a job for each URL through one engine.
async fn all(case: &JobCase, urls: Vec<String>) {
    let (sender, mut receiver) = mpsc::channel(64);
    let client = Client::new(case.client.clone()).unwrap();
    let engine = TransferEngine::new(client, case.options.clone(), sender);
    let mut jobs = JoinSet::new();
    for (id, url) in (0..).zip(urls) {
        let job = DownloadJob {
            id,
            url: url.parse().unwrap(),
            output: JobOutput::File(case.dir.path().join(format!("f{id}"))),
            checksums: Vec::new(),
            mirrors: Vec::new(),
            piece_digests: None,
            credential_urls: None,
            expected_size: None,
            headers: Default::default(),
        };
        let engine = engine.clone();
        jobs.spawn(async move { engine.get(job, CancellationToken::new()).await });
    }
    drop(engine);
    while receiver.recv().await.is_some() {}
    for done in jobs.join_all().await {
        done.unwrap();
    }
}

/// Four hosts redirect to one: the limit of that one counts, for first requests as for all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_applies_to_the_host_that_delivers() {
    let mut case = JobCase::new();
    let n = 3;
    case.options.connections = ConnectionCount::Fixed(n);
    let far = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(3, 1 << 20)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let mut nears = Vec::new();
    for _ in 0..5 {
        nears.push(sends_to(&far).await);
    }
    let urls = nears.iter().map(|near| near.url("/f.bin")).collect();
    within(LIMIT, all(&case, urls)).await;
    // A job that finds the host full has seen the head of an answer: it lets that go before it waits.
    let streaming = far
        .requests()
        .iter()
        .map(|request| request.open_connections)
        .max()
        .unwrap();
    assert!(streaming <= n + 5, "{streaming} connections");
    for id in 0..5 {
        let found = std::fs::read(case.dir.path().join(format!("f{id}"))).unwrap();
        assert!(found == ResourceContent::random(3, 1 << 20).to_vec());
    }
}

/// A token that expires for several workers at once is no limit on connections: a new one is requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_tokens_that_expire_under_several_connections_cost_none_of_them() {
    let mut case = JobCase::new();
    case.options.segment_size = Some(64 << 10);
    let far = Origin::builder()
        .resource(
            "/t",
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::expiring_token(20)),
        )
        .latency(std::time::Duration::from_millis(5))
        .start()
        .await;
    let away = faults::redirect_with_token(302, far.url("/t"));
    let near = serve(OriginResource::new(content()).rule(RequestMatcher::always(), away)).await;
    let ran = case.get(&near.url("/f.bin")).await;
    assert_eq!(ran.outcome().connections, 4);
    assert!(near.requests().len() > 1);
    case.assert_file(&content());
}

/// The same where the first answer brings the whole file: the permit is changed before its body is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_response_from_a_full_host_is_dropped() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.segment_size = None;
    let far = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(3, 512 << 10)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let mut nears = Vec::new();
    for _ in 0..4 {
        nears.push(sends_to(&far).await);
    }
    let urls = nears.iter().map(|near| near.url("/f.bin")).collect();
    let look = async {
        // Half of a file: that of the one that has leave, or an eighth of each of four.
        while far.bytes_sent() < 256 << 10 {
            tokio::task::yield_now().await;
        }
        far.open_connections()
    };
    let ((), open) = within(LIMIT, async { tokio::join!(all(&case, urls), look) }).await;
    assert_eq!(open, 1);
}

//! The limit of connections per host: which host it applies to, and which requests wait for it.

use std::time::Duration;

use futures_util::future::join;
use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_net::Client;
use haul_transfer::{ConnectionCount, DownloadJob, ExistingFilePolicy, JobOutput, TransferEngine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, LIMIT, content, serve};

/// An origin that redirects every request to another one.
async fn redirecting_to(target: &Origin) -> Origin {
    let redirect = faults::status_with_header(302, "Location", target.url("/f.bin"));
    serve(OriginResource::new(content()).rule(RequestMatcher::always(), redirect)).await
}

/// An engine whose events nobody wants.
fn engine(case: &JobCase) -> TransferEngine {
    let (sender, _) = mpsc::channel(1);
    let client = Client::new(case.client.clone()).unwrap();
    TransferEngine::new(client, case.options.clone(), sender)
}

/// A job whose file is `f` and its number.
fn job(case: &JobCase, id: u64, url: &str) -> DownloadJob {
    let output = JobOutput::File(case.dir.path().join(format!("f{id}")));
    DownloadJob::new(id, url.parse().unwrap(), output)
}

/// Runs a job for each URL through one engine.
async fn download_all(case: &JobCase, urls: Vec<String>) {
    let engine = engine(case);
    let mut jobs = JoinSet::new();
    for (id, url) in (0..).zip(urls) {
        let (engine, job) = (engine.clone(), job(case, id, &url));
        jobs.spawn(async move { engine.get(job, CancellationToken::new()).await });
    }
    for result in jobs.join_all().await {
        result.unwrap();
    }
}

/// Gets a request, waits for so many other connections, and sends the response.
async fn respond(listener: &TcpListener, others: usize, response: &str) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    for _ in 0..others {
        listener.accept().await.unwrap();
    }
    stream.write_all(response.as_bytes()).await.unwrap();
}

/// The next connection that the listener gets is this one's own.
async fn assert_no_other(listener: &TcpListener) {
    let address = listener.local_addr().unwrap();
    let own = TcpStream::connect(address).await.unwrap();
    let next = listener.accept().await.unwrap().0;
    assert_eq!(next.peer_addr().unwrap(), own.local_addr().unwrap());
}

/// The file is one response. Nobody knows that before it has begun: a user's number of connections is made at once, haul's own is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_a_users_number_are_made_while_the_first_response_is_awaited() {
    for (connections, others) in [
        (ConnectionCount::Fixed(4), 3),
        (ConnectionCount::Auto { max: 4 }, 0),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut case = JobCase::new();
        case.options.connections = connections;
        case.client.max_idle_per_host = 4;
        let url = format!("http://{}/f.bin", listener.local_addr().unwrap());
        let whole = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\nfile";
        let first = Box::pin(join(case.get(&url), respond(&listener, others, whole)));
        within(LIMIT, first).await.0.outcome();
        assert_no_other(&listener).await;
        // The file is there already, and nothing may have to follow the response.
        case.options.existing_file = ExistingFilePolicy::Update;
        let unmodified = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n";
        let second = Box::pin(join(case.get(&url), respond(&listener, 0, unmodified)));
        within(LIMIT, second).await.0.outcome();
        assert_no_other(&listener).await;
    }
}

/// A large file has all connections of the limit, and a minute to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_a_job_gets_the_connection_of_one_that_has_several() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(4);
    case.options.segment_size = Some(64 << 10);
    let slow = OriginResource::new(ResourceContent::random(3, 16 << 20))
        .rule(RequestMatcher::always(), faults::body_rate(64 << 10));
    let origin = Origin::builder()
        .resource("/large", slow)
        .resource("/small", OriginResource::new(content()))
        .start()
        .await;
    let (engine, stop) = (engine(&case), CancellationToken::new());
    let large = engine.get(job(&case, 0, &origin.url("/large")), stop.clone());
    let small = async {
        while origin.requests().len() < 4 {
            tokio::task::yield_now().await;
        }
        engine.get(job(&case, 1, &origin.url("/small")), stop).await
    };
    tokio::select! {
        large = large => panic!("it ended: {large:?}"),
        small = within(LIMIT, small) => drop(small.unwrap()),
    }
    let most = origin
        .requests()
        .iter()
        .map(|one| one.open_connections)
        .max();
    assert_eq!(most, Some(4));
}

/// The one connection of a job breaks while another job waits for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_does_not_cost_a_job_its_place() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    let breaks = OriginResource::new(content())
        .rule(RequestMatcher::first(1), faults::body_rate(256 << 10))
        .rule(RequestMatcher::first(1), faults::close_after(128 << 10));
    let origin = Origin::builder()
        .resource("/breaks", breaks)
        .resource("/waits", OriginResource::new(content()))
        .start()
        .await;
    let (engine, stop) = (engine(&case), CancellationToken::new());
    let first = engine.get(job(&case, 0, &origin.url("/breaks")), stop.clone());
    let second = async {
        while origin.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        engine.get(job(&case, 1, &origin.url("/waits")), stop).await
    };
    let (first, second) = within(LIMIT, async { tokio::join!(first, second) }).await;
    drop((first.unwrap(), second.unwrap()));
    let requests = origin.requests();
    let last = requests.iter().rposition(|one| one.path() == "/breaks");
    let next = requests.iter().position(|one| one.path() == "/waits");
    assert!(last > Some(0) && last < next, "{last:?} {next:?}");
}

/// Each of two jobs has the one connection that the other one needs: its own source is gone, and its mirror is the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_jobs_that_change_places_do_not_wait_for_each_other() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    let goes = OriginResource::new(content())
        .rule(RequestMatcher::first(1), faults::body_rate(256 << 10))
        .rule(RequestMatcher::first(1), faults::close_after(128 << 10))
        .rule(RequestMatcher::after_first(1), faults::status(410));
    let stays = OriginResource::new(content());
    let mut origins = Vec::new();
    for (goes_at, stays_at) in [("/0", "/1"), ("/1", "/0")] {
        let origin = Origin::builder()
            .resource(goes_at, goes.clone())
            .resource(stays_at, stays.clone());
        origins.push(origin.start().await);
    }
    let engine = engine(&case);
    let mut jobs = JoinSet::new();
    for (id, own, other) in [(0, 0, 1), (1, 1, 0)] {
        let path = format!("/{id}");
        let mut job = job(&case, id, &origins[own].url(&path));
        job.mirrors = vec![origins[other].url(&path).parse().unwrap()];
        let engine = engine.clone();
        jobs.spawn(async move { engine.get(job, CancellationToken::new()).await });
    }
    for result in within(LIMIT, jobs.join_all()).await {
        result.unwrap();
    }
}

/// Five hosts redirect to one. The limit of that one applies, to first requests as to all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_limit_applies_to_the_target_of_a_redirect() {
    let mut case = JobCase::new();
    let limit = 3;
    case.options.connections = ConnectionCount::Fixed(limit);
    let target = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(3, 1 << 20)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let mut redirecting = Vec::new();
    for _ in 0..5 {
        redirecting.push(redirecting_to(&target).await);
    }
    let urls = redirecting
        .iter()
        .map(|origin| origin.url("/f.bin"))
        .collect();
    within(LIMIT, download_all(&case, urls)).await;
    // A job that finds the host full already has a response head. It drops that response before it waits.
    let streaming = target
        .requests()
        .iter()
        .map(|request| request.open_connections)
        .max()
        .unwrap();
    assert!(streaming <= limit + 5, "{streaming} connections");
    for id in 0..5 {
        let found = std::fs::read(case.dir.path().join(format!("f{id}"))).unwrap();
        assert!(found == ResourceContent::random(3, 1 << 20).to_vec());
    }
}

/// An expired token must not be taken for a limit of connections: a new token is requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_expired_tokens_do_not_reduce_the_number_of_connections() {
    let mut case = JobCase::new();
    case.options.segment_size = Some(64 << 10);
    case.options.connections = ConnectionCount::Fixed(4);
    let target = Origin::builder()
        .resource(
            "/t",
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::expiring_token(20))
                // Slow enough that further connections are worth while on any machine.
                .rule(RequestMatcher::always(), faults::body_rate(512 << 10)),
        )
        .latency(Duration::from_millis(5))
        .start()
        .await;
    let redirect = faults::redirect_with_token(302, target.url("/t"));
    let origin =
        serve(OriginResource::new(content()).rule(RequestMatcher::always(), redirect)).await;
    let run = case.get(&origin.url("/f.bin")).await;
    assert_eq!(run.outcome().connections, 4);
    assert!(origin.requests().len() > 1);
    case.assert_file(&content());
}

/// The first response has the whole file. The job takes a permit of the redirect's target before it reads the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_response_from_a_full_host_is_dropped() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.segment_size = None;
    let target = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(3, 512 << 10)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let mut redirecting = Vec::new();
    for _ in 0..4 {
        redirecting.push(redirecting_to(&target).await);
    }
    let urls = redirecting
        .iter()
        .map(|origin| origin.url("/f.bin"))
        .collect();
    let wait_for_half_a_file = async {
        // Half of a file: from the one job with a permit, or an eighth of a file for each of four jobs.
        while target.bytes_sent() < 256 << 10 {
            tokio::task::yield_now().await;
        }
        target.open_connections()
    };
    let ((), open) = within(LIMIT, async {
        tokio::join!(download_all(&case, urls), wait_for_half_a_file)
    })
    .await;
    assert_eq!(open, 1);
}

/// Jobs that wait for their connection while others have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_the_time_of_a_download_begins_with_its_first_request() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.limits.max_time = Some(Duration::from_secs(3));
    let resource = OriginResource::new(ResourceContent::random(2, 60_000))
        .rule(RequestMatcher::always(), faults::body_rate(50_000));
    let origin = serve(resource).await;
    let began = Instant::now();
    download_all(&case, vec![origin.url("/f.bin"); 3]).await;
    assert!(began.elapsed() > Duration::from_secs(3));
}

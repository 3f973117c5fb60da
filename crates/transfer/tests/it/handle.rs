//! A job's handle: what it shows, and that a job does what it says.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults, within};
use haul_net::Client;
use haul_transfer::{
    ConnectionCount, ConnectionCountLimit, DownloadHandle, DownloadJob, DownloadOutcome,
    DownloadSnapshot, GetError, JobOutput, LocalError, TransferEngine, VerificationError,
};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, LIMIT, content};

/// Bytes that each connection brings before it falls silent.
const BYTES: u64 = 100_000;

/// A job that runs, and its handle.
struct SteeredJob {
    handle: DownloadHandle,
    tasks: JoinSet<Result<DownloadOutcome, GetError>>,
}

impl SteeredJob {
    fn start(case: &JobCase, url: &str, prepare: impl FnOnce(&DownloadHandle)) -> Self {
        let (sender, mut receiver) = mpsc::channel(64);
        let client = Client::new(case.client.clone()).unwrap();
        let engine = TransferEngine::new(client, case.options.clone(), sender);
        let output = case
            .output
            .clone()
            .unwrap_or_else(|| JobOutput::File(case.path()));
        let job = DownloadJob::new(7, url.parse().unwrap(), output);
        let (handle, download) = engine.start(job, CancellationToken::new());
        prepare(&handle);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            drop(engine);
            let mut download = std::pin::pin!(download);
            loop {
                tokio::select! {
                    result = &mut download => return result,
                    Some(_) = receiver.recv() => {}
                }
            }
        });
        Self { handle, tasks }
    }

    /// Looks at the job until it is in a state, while it runs.
    async fn wait_until(
        &mut self,
        is_there: impl Fn(&DownloadSnapshot) -> bool + Send + Sync,
    ) -> DownloadSnapshot {
        within(LIMIT, async {
            loop {
                let snapshot = self.handle.snapshot();
                if is_there(&snapshot) {
                    return snapshot;
                }
                tokio::select! {
                    ended = self.tasks.join_next() => panic!("it has ended: {ended:?}"),
                    () = tokio::time::sleep(Duration::from_millis(2)) => {}
                }
            }
        })
        .await
    }

    async fn end(mut self) -> Result<DownloadOutcome, GetError> {
        let ended: Option<Result<_, JoinError>> = within(LIMIT, self.tasks.join_next()).await;
        ended.unwrap().unwrap()
    }
}

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = LIMIT;
    case
}

/// A file whose first four responses fall silent.
fn stalling() -> OriginResource {
    let stall = faults::stall_after(BYTES);
    OriginResource::new(content()).rule(RequestMatcher::first(4), stall)
}

async fn serve(paths: &[(&str, OriginResource)]) -> Origin {
    let origin = Origin::builder();
    let origin = paths.iter().fold(origin, |origin, (path, resource)| {
        origin.resource(path, resource.clone())
    });
    origin.start().await
}

/// Whether each connection has brought what it does before it falls silent.
fn is_silent(snapshot: &DownloadSnapshot) -> bool {
    snapshot.on_disk.total_bytes() == 4 * BYTES
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_shows_every_request_and_a_pause_ends_them_until_the_job_is_resumed() {
    let case = case();
    let origin = serve(&[("/f.bin", stalling())]).await;
    let url = origin.url("/f.bin");
    let mut job = SteeredJob::start(&case, &url, |_| {});
    let seen = job.wait_until(is_silent).await;
    assert_eq!((seen.url.as_str(), seen.path), (&*url, Some(case.path())));
    assert_eq!(
        (seen.length, seen.is_paused),
        (Some(content().length()), false)
    );
    let connections: Vec<usize> = seen.requests.iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1, 2, 3]);
    for request in &seen.requests {
        assert_eq!(request.position, request.range.start + BYTES);
        assert_eq!(request.address, Some(origin.address()));
        assert!(
            seen.on_disk
                .covers(&(request.range.start..request.position))
        );
    }
    assert_eq!((seen.sources.len(), seen.sources[0].bytes), (1, 4 * BYTES));
    let control = seen.control.unwrap();
    assert_eq!(
        (control.target, control.limit),
        (4, ConnectionCountLimit::UserNumber)
    );

    job.handle.pause();
    let paused = job.wait_until(|snapshot| snapshot.is_paused).await;
    assert!(paused.requests.is_empty() && is_silent(&paused));
    let requests = origin.requests().len();
    origin.replace("/f.bin", OriginResource::new(content()));
    assert_eq!(origin.requests().len(), requests);
    job.handle.resume();
    let outcome = job.end().await.unwrap();
    assert_eq!(outcome.resumed, 4 * BYTES);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_job_leaves_nothing_whether_it_runs_or_is_paused() {
    for pauses in [false, true] {
        let case = case();
        let origin = serve(&[("/f.bin", stalling())]).await;
        let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |_| {});
        job.wait_until(is_silent).await;
        assert_eq!(case.listing().len(), 2);
        if pauses {
            job.handle.pause();
            job.wait_until(|snapshot| snapshot.is_paused).await;
        }
        job.handle.remove();
        let error = job.end().await.unwrap_err();
        assert!(matches!(error, GetError::Interrupted { resumable: false }));
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

/// Its reader would get the first bytes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_stream_ends_and_sends_nothing_again() {
    let mut case = case();
    case.output = Some(JobOutput::File("/dev/null".into()));
    let origin = serve(&[("/f.bin", stalling())]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |_| {});
    job.wait_until(|snapshot| snapshot.on_disk.total_bytes() == BYTES)
        .await;
    job.handle.pause();
    job.handle.resume();
    let error = job.end().await.unwrap_err();
    assert!(matches!(error, GetError::Interrupted { .. }), "{error:?}");
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_job_that_is_removed_leaves_the_files_of_another_job() {
    let case = case();
    let stall = faults::stall_after(BYTES);
    let resource = OriginResource::new(content()).rule(RequestMatcher::first(8), stall);
    let origin = serve(&[("/f.bin", resource)]).await;
    let url = origin.url("/f.bin");
    let mut paused = SteeredJob::start(&case, &url, |_| {});
    paused.wait_until(is_silent).await;
    paused.handle.pause();
    paused.wait_until(|snapshot| snapshot.is_paused).await;
    let mut other = SteeredJob::start(&case, &url, |_| {});
    other
        .wait_until(|snapshot| snapshot.requests.len() == 4)
        .await;
    paused.handle.remove();
    let error = paused.end().await.unwrap_err();
    assert!(
        matches!(
            error,
            GetError::Local {
                error: LocalError::Locked,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(case.listing().len(), 2);
    other.handle.remove();
    assert!(other.end().await.is_err());
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_brings_the_rest_if_it_has_the_same_version() {
    let case = case();
    let new = OriginResource::new(content());
    let origin = serve(&[("/old", stalling()), ("/new", new)]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/old"), |_| {});
    job.wait_until(is_silent).await;
    let url = origin.url("/new");
    job.handle.replace_url(url.parse().unwrap());
    assert_eq!(job.handle.snapshot().url.as_str(), url);
    let outcome = job.end().await.unwrap();
    assert_eq!(
        (outcome.final_url.as_str(), outcome.resumed),
        (&*url, 4 * BYTES)
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_with_another_version_fails_and_the_bytes_stay() {
    let case = case();
    let new = OriginResource::new(content()).etag("\"other\"");
    let origin = serve(&[("/old", stalling()), ("/new", new)]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/old"), |_| {});
    job.wait_until(is_silent).await;
    job.handle.replace_url(origin.url("/new").parse().unwrap());
    let GetError::AllSourcesFailed { last, .. } = job.end().await.unwrap_err() else {
        panic!("another error");
    };
    assert!(matches!(
        *last,
        GetError::Verification {
            error: VerificationError::WrongFile { .. },
            resumable: true,
            ..
        }
    ));
    origin.replace("/old", OriginResource::new(content()));
    let again = case.get(&origin.url("/old")).await;
    assert_eq!(again.outcome().resumed, 4 * BYTES);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_connections_changes_while_the_job_runs() {
    let mut case = case();
    case.options.connections = ConnectionCount::Auto { max: 3 };
    case.options.segment_size = None;
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::first(3), faults::stall_after(BYTES));
    let origin = serve(&[("/f.bin", resource)]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |handle| {
        handle.set_connections(1);
    });
    let silent = job
        .wait_until(|snapshot| {
            snapshot.on_disk.total_bytes() == BYTES && snapshot.control.is_some()
        })
        .await;
    assert_eq!(
        (silent.requests.len(), silent.control.unwrap().target),
        (1, 1)
    );
    // More than the engine allows to one host.
    job.handle.set_connections(9);
    let wider = job
        .wait_until(|snapshot| snapshot.requests.len() == 3)
        .await;
    assert_eq!(wider.control.unwrap().target, 3);
    job.handle.remove();
    assert!(job.end().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_the_job_holds_until_it_is_lifted() {
    let case = case();
    let origin = serve(&[("/f.bin", OriginResource::new(content()))]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |handle| {
        handle.set_limit(Some(1));
    });
    // Each connection has taken one turn and waits for minutes.
    let waiting = job
        .wait_until(|snapshot| snapshot.requests.len() == 4 && origin.requests().len() == 4)
        .await;
    assert_eq!(waiting.limit, Some(1));
    assert!(waiting.on_disk.total_bytes() < content().length());
    job.handle.set_limit(None);
    assert!(job.end().await.is_ok());
    case.assert_file(&content());
}

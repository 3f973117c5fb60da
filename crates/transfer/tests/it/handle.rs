//! A job's handle: what it shows, and that a job does what it says.

use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults, within};
use haul_net::Client;
use haul_transfer::{
    ConnectionCount, ConnectionCountLimit, DownloadHandle, DownloadOutcome, DownloadSnapshot,
    GetError, JobOutput, LocalError, TransferEngine, VerificationError,
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
        let (handle, download) = engine.start(case.job(url), CancellationToken::new());
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

    /// Pauses the job, and waits until it is.
    async fn pause(&mut self) -> DownloadSnapshot {
        self.handle.pause();
        self.wait_until(|snapshot| snapshot.is_paused).await
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

    let paused = job.pause().await;
    assert!(paused.requests.is_empty() && is_silent(&paused));
    let requests = origin.requests().len();
    origin.replace("/f.bin", OriginResource::new(content()));
    assert_eq!(origin.requests().len(), requests);
    job.handle.resume();
    let outcome = job.end().await.unwrap();
    assert_eq!((outcome.resumed, outcome.fetched), (0, content().length()));
    case.assert_file(&content());
}

/// Bytes of a version that nothing identifies are no use to a later request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_shows_that_bytes_without_a_validator_are_gone_and_the_job_begins_again() {
    let mut case = case();
    // One response then.
    case.options.connections = ConnectionCount::Auto { max: 4 };
    let stall = faults::stall_after(BYTES);
    let resource =
        OriginResource::without_validator(content()).rule(RequestMatcher::first(2), stall);
    let origin = serve(&[("/f.bin", resource)]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |_| {});
    let seen = job
        .wait_until(|snapshot| snapshot.on_disk.total_bytes() == BYTES)
        .await;
    assert_eq!((seen.requests.len(), seen.sources.len()), (1, 1));
    assert_eq!(seen.requests[0].position, BYTES);
    assert_eq!(seen.requests[0].address, Some(origin.address()));
    let paused = job.pause().await;
    assert_eq!(
        (paused.requests.len(), paused.sources.len()),
        (0, 1),
        "{paused:?}"
    );
    assert!(paused.on_disk.is_empty() && case.listing().is_empty());
    job.handle.resume();
    job.end().await.unwrap();
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
            job.pause().await;
        }
        job.handle.remove();
        let error = job.end().await.unwrap_err();
        assert!(matches!(error, GetError::Interrupted { resumable: false }));
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_removed_before_a_response_leaves_nothing_of_an_earlier_run() {
    let silent =
        || OriginResource::new(content()).rule(RequestMatcher::first(9), faults::stall_after(0));
    for (output, answers) in [(None, false), (Some("dir"), false), (None, true)] {
        let mut case = case();
        case.output = output.map(|_| JobOutput::Directory(case.dir.path().to_owned()));
        let origin = serve(&[("/f.bin", stalling())]).await;
        let url = origin.url("/f.bin");
        let mut earlier = SteeredJob::start(&case, &url, |_| {});
        earlier.wait_until(is_silent).await;
        earlier.pause().await;
        drop(earlier);
        assert_eq!(case.listing().len(), 2);
        origin.replace("/f.bin", silent());
        let requests = origin.requests().len();
        let mut job = SteeredJob::start(&case, &url, |handle| {
            if answers {
                handle.remove();
            }
        });
        if !answers {
            job.wait_until(|_| origin.requests().len() > requests).await;
            job.handle.remove();
        }
        assert!(job.end().await.is_err());
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_job_that_is_removed_leaves_the_bytes_of_another_url() {
    let case = case();
    let origin = serve(&[("/f.bin", stalling()), ("/other", stalling())]).await;
    let mut jobs = Vec::new();
    for path in ["/f.bin", "/other"] {
        let mut job = SteeredJob::start(&case, &origin.url(path), |_| {});
        job.wait_until(is_silent).await;
        job.pause().await;
        jobs.push(job);
    }
    let [first, second] = jobs.try_into().ok().unwrap();
    first.handle.remove();
    assert!(first.end().await.is_err());
    assert_eq!(case.listing().len(), 2);
    origin.replace("/other", OriginResource::new(content()));
    second.handle.resume();
    let outcome = second.end().await.unwrap();
    assert_eq!((outcome.resumed, outcome.fetched), (0, content().length()));
    case.assert_file(&content());
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
    paused.pause().await;
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
        (outcome.final_url.as_str(), outcome.fetched),
        (&*url, content().length())
    );
    case.assert_file(&content());
}

const DISPOSITION: (&str, &str) = ("content-disposition", "attachment; filename=named.iso");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_brings_the_rest_of_a_file_that_the_first_one_named() {
    let mut case = case();
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    let old = stalling().header(DISPOSITION.0, DISPOSITION.1);
    let origin = serve(&[("/old", old), ("/new", OriginResource::new(content()))]).await;
    let mut job = SteeredJob::start(&case, &origin.url("/old"), |_| {});
    job.wait_until(is_silent).await;
    job.handle.replace_url(origin.url("/new").parse().unwrap());
    let outcome = job.end().await.unwrap();
    assert_eq!(outcome.fetched, content().length());
    assert_eq!(outcome.path, Some(case.dir.path().join("named.iso")));
    assert_eq!(case.listing().len(), 1);
}

/// The caller names the URL, so what it gave for another origin is not for this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_gets_the_logins_of_its_own_origin_only() {
    for is_same_origin in [false, true] {
        let case = case();
        let old = serve(&[
            ("/old", stalling()),
            ("/new", OriginResource::new(content())),
        ])
        .await;
        let other = serve(&[("/new", OriginResource::new(content()))]).await;
        let url = old.url("/old").replace("//", "//me:s3cret77@");
        let mut job = SteeredJob::start(&case, &url, |_| {});
        job.wait_until(is_silent).await;
        let new = if is_same_origin { &old } else { &other };
        job.handle.replace_url(new.url("/new").parse().unwrap());
        job.end().await.unwrap();
        let last = new.requests().pop().unwrap();
        assert_eq!(last.path(), "/new");
        assert_eq!(last.header("authorization").is_some(), is_same_origin);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_with_another_version_fails_and_the_bytes_stay() {
    for (old, new) in [("/old", "/new"), ("/old", "/old")] {
        another_version_fails(old, new, None).await;
    }
    // The name that the first response gave holds for the bytes.
    another_version_fails("/old", "/new", Some(DISPOSITION)).await;
}

async fn another_version_fails(old: &str, new: &str, field: Option<(&str, &str)>) {
    let mut case = case();
    let mut resource = stalling();
    if let Some((name, value)) = field {
        case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
        resource = resource.header(name, value);
    }
    let origin = serve(&[(old, resource.clone())]).await;
    let mut job = SteeredJob::start(&case, &origin.url(old), |_| {});
    job.wait_until(is_silent).await;
    let other = OriginResource::new(content()).etag("\"other\"");
    origin.replace(new, other);
    job.handle.replace_url(origin.url(new).parse().unwrap());
    let error = match job.end().await.unwrap_err() {
        GetError::AllSourcesFailed { last, .. } => *last,
        error => error,
    };
    assert!(matches!(
        error,
        GetError::Verification {
            error: VerificationError::WrongFile { .. },
            resumable: true,
            ..
        }
    ));
    assert_eq!(case.listing().len(), 2);
    let mut good = OriginResource::new(content());
    if let Some((name, value)) = field {
        good = good.header(name, value);
    }
    origin.replace(old, good);
    let again = case.get(&origin.url(old)).await;
    assert_eq!(again.outcome().resumed, 4 * BYTES);
}

/// The number is for all sources together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_connections_is_not_for_each_mirror() {
    let mut case = case();
    let origin = serve(&[("/f.bin", stalling()), ("/mirror", stalling())]).await;
    case.mirrors = vec![origin.url("/mirror")];
    let mut job = SteeredJob::start(&case, &origin.url("/f.bin"), |handle| {
        handle.set_connections(1);
    });
    let silent = job
        .wait_until(|snapshot| {
            snapshot.on_disk.total_bytes() == BYTES && snapshot.control.is_some()
        })
        .await;
    assert_eq!((silent.requests.len(), silent.sources.len()), (1, 2));
    assert_eq!(origin.requests().len(), 1);
    job.handle.remove();
    assert!(job.end().await.is_err());
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

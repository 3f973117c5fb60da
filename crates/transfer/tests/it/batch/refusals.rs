//! Row A46: hosts that refuse many requests in one moment, or all requests for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use haul_lab::http2::{Http2Origin, Http2Settings, StreamAction, alpn_server_config};
use haul_lab::{CertificateAuthority, Origin, OriginResource, RequestMatcher, faults};
use haul_plan::HttpVersionChoice;
use haul_transfer::batch::HostRequestLimit;
use tokio::time::Instant;

use super::{BatchCase, small_content};
use crate::harness::JobCase;

/// HTTP/2's reasons for a request that is one too many.
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Far more than a few short pauses on a busy machine, and less than pauses that double with each of seven refusals: these are 6.4 seconds.
const SOON: Duration = Duration::from_secs(4);

/// A batch with several requests at once.
fn case() -> BatchCase {
    let mut case = BatchCase::new();
    case.get.retry = haul_transfer::RetryOptions::default();
    case.options.dispatch.per_host = HostRequestLimit::Fixed(7);
    case
}

/// The same for an origin with HTTP/2, which does this with each request.
async fn http2_case(
    action: impl Fn(&str) -> StreamAction + Send + Sync + 'static,
) -> (BatchCase, Http2Origin) {
    let authority = CertificateAuthority::new();
    let certificate = authority.issue(&["127.0.0.1", "localhost"]);
    let tls = alpn_server_config(&certificate, None, &["h2"]);
    let settings = Http2Settings::default();
    let origin = Http2Origin::start(tls, settings, move |request| action(&request.path)).await;
    let mut case = case();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    case.client.http_version = HttpVersionChoice::Http2;
    (case, origin)
}

/// An origin that refuses the first requests after `delay`, whichever files they are for.
async fn busy_origin(files: usize, refusals: usize, delay: Duration) -> Origin {
    let origin = (0..files).fold(
        (Origin::builder(), Arc::new(AtomicUsize::new(0))),
        |(origin, count), n| {
            let counted: Arc<AtomicUsize> = Arc::clone(&count);
            let is_refused = RequestMatcher::matching(move |_| {
                counted.fetch_add(1, Ordering::Relaxed) < refusals
            });
            let file = OriginResource::new(small_content(n as u64)).rule(
                is_refused,
                move |request, response| {
                    faults::status(503)(request, response);
                    faults::delay_response(delay)(request, response);
                },
            );
            (origin.resource(&format!("/{n}"), file), count)
        },
    );
    origin.0.start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a46_seven_requests_that_are_refused_at_once_cost_one_short_pause() {
    // All seven requests are under way before the first is refused, also on a busy machine.
    let origin = busy_origin(7, 7, Duration::from_millis(300)).await;
    let begun = Instant::now();
    let run = case()
        .download((0..7).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (7, 0, 0));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a46_seven_streams_that_are_refused_at_once_cost_one_short_pause() {
    for reason in [REFUSED_STREAM, ENHANCE_YOUR_CALM] {
        let requests: Mutex<HashMap<String, u32>> = Mutex::default();
        // The client itself repeats a request of which the origin says that it did not look at it.
        let refusals = if reason == REFUSED_STREAM { 2 } else { 1 };
        let (case, origin) = http2_case(move |path| {
            let mut requests = requests.lock().unwrap();
            let count = requests.entry(path.to_owned()).or_default();
            *count += 1;
            if *count <= refusals {
                StreamAction::Reset(reason)
            } else {
                StreamAction::Respond(Bytes::from_static(b"a file"))
            }
        })
        .await;
        let begun = Instant::now();
        let urls = (0..7).map(|n| origin.url(&format!("/{n}")));
        assert_eq!(case.download(urls).await.counts(), (7, 0, 0));
        assert!(begun.elapsed() < SOON, "{reason}: {:?}", begun.elapsed());
    }
}

/// Files whose time is over say nothing about their host.
#[tokio::test(flavor = "multi_thread")]
async fn a46_a48_files_that_run_out_of_time_do_not_end_the_pauses_of_their_host() {
    let origin = busy_origin(100, usize::MAX, Duration::ZERO).await;
    let mut case = case();
    case.get.limits.max_time = Some(Duration::from_millis(100));
    case.get.retry.retries = RETRIES;
    let urls = (0..100).map(|n| origin.url(&format!("/{n}")));
    let run = case.download(urls).await;
    assert_eq!(run.counts(), (0, 0, 100));
    let requests = origin.requests().len();
    assert!(requests < 40, "{requests} requests");
}

/// Retries of each file where nothing ever succeeds.
const RETRIES: u32 = 3;

/// Checks a batch of a hundred files whose host refuses everything. After a few requests its files fail, and say why.
fn assert_given_up(run: &super::BatchRun, requests: usize) {
    assert_eq!(run.counts(), (0, 0, 100));
    assert!(requests < 60, "{requests} requests");
    let groups = &run.summary.failure_groups;
    let given_up = groups
        .iter()
        .find(|group| group.cause == "the host refuses all requests")
        .unwrap_or_else(|| panic!("{groups:?}"));
    assert!(given_up.count > 60, "{groups:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a46_a_host_that_refuses_everything_for_ever_is_given_up_within_the_retries_of_one_file() {
    for fault in ["503", "reset"] {
        let origin = (0..100)
            .fold(Origin::builder(), |origin, n| {
                let file = OriginResource::new(small_content(n));
                let file = match fault {
                    "503" => file.rule(RequestMatcher::always(), faults::status(503)),
                    _ => file.rule(RequestMatcher::always(), faults::reset_connection),
                };
                origin.resource(&format!("/{n}"), file)
            })
            .start()
            .await;
        let mut case = case();
        case.get.retry.retries = RETRIES;
        let run = case
            .download((0..100).map(|n| origin.url(&format!("/{n}"))))
            .await;
        assert_given_up(&run, origin.requests().len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a46_an_http2_host_that_refuses_everything_for_ever_is_given_up_as_soon() {
    for action in [
        StreamAction::AbortConnection(ENHANCE_YOUR_CALM),
        StreamAction::Reset(ENHANCE_YOUR_CALM),
        StreamAction::Reset(REFUSED_STREAM),
    ] {
        let (mut case, origin) = http2_case({
            let action = action.clone();
            move |_| action.clone()
        })
        .await;
        case.get.retry.retries = RETRIES;
        let urls = (0..100).map(|n| origin.url(&format!("/{n}")));
        let run = case.download(urls).await;
        // The client itself repeats a refused stream once.
        let repeats = 1 + usize::from(matches!(action, StreamAction::Reset(REFUSED_STREAM)));
        assert_given_up(&run, origin.requests().len() / repeats);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a46_a_single_download_that_is_refused_for_ever_ends_with_its_retries() {
    for action in [
        StreamAction::RespondWith(503, Vec::new(), Bytes::new()),
        StreamAction::Reset(ENHANCE_YOUR_CALM),
        StreamAction::AbortConnection(ENHANCE_YOUR_CALM),
    ] {
        let (batch, origin) = http2_case({
            let action = action.clone();
            move |_| action.clone()
        })
        .await;
        let mut case = JobCase::new();
        case.client = batch.client;
        case.options.retry.retries = RETRIES;
        case.options.retry.retries_before_response = RETRIES;
        let run = case.get(&origin.url("/file")).await;
        assert!(run.result.is_err());
        let requests = origin.requests().len();
        assert!(
            requests <= 1 + RETRIES as usize,
            "{action:?}: {requests} requests"
        );
    }
}

//! Downloads from origins whose behaviour is drawn from a seed: whatever they do, what counts as success is one whole version.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::http2::{Http2Origin, Http2Settings, alpn_server_config};
use haul_lab::{
    CertificateAuthority, DrawnOrigin, DrawnValidators, Origin, ResourceContent, assert_seeds,
};
use haul_plan::HttpVersionChoice;
use haul_transfer::manifest::JobRowState;
use haul_transfer::{
    ConnectionCount, ExistingFilePolicy, GetError, RetryOptions, VerificationError,
};
use tokio::time::timeout;

use crate::batch::BatchCase;
use crate::harness::{JobCase, serve};

/// The most requests of one download: each of some connections may fail as often as one may.
pub(crate) const MAX_REQUESTS: usize = 300;

/// The longest time of one download: one request takes a second at most (two timeouts, the slowest body and a wait), and each of eight
/// connections may need as many as one is allowed, in a row. Most take some milliseconds.
const MAX_TIME: Duration = Duration::from_secs(8 * 5);

/// What an origin may ask to wait. Where it asks for more, a download ends.
const MAX_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Seeds that once found something: a file that became empty kept bytes of the version before.
const FOUND: [u64; 2] = [13_525, 47_596];

pub(crate) fn download_seeds() -> Vec<u64> {
    haul_lab::seeds(FOUND.into_iter().chain(0..300))
}

/// A download whose timeouts fit an origin that may be silent many times.
pub(crate) fn case_of(drawn: &DrawnOrigin, seed: u64) -> JobCase {
    let mut case = JobCase::new();
    case.client.stall_timeout = Duration::from_millis(150);
    case.client.response_timeout = Duration::from_millis(150);
    case.options.retry = RetryOptions {
        retries: 4,
        max_retry_after: MAX_RETRY_AFTER,
        ..case.options.retry
    };
    case.options.decode_content = true;
    // With -x the user says that parts may be joined though nothing tells versions apart.
    if seed.is_multiple_of(2) || drawn.validators == DrawnValidators::None {
        case.options.connections = ConnectionCount::Auto { max: 8 };
    }
    case
}

/// What is wrong with the download of a file from an origin of its own, if something is.
async fn check(seed: u64) -> Result<(), String> {
    let drawn = DrawnOrigin::new(seed);
    let mut case = case_of(&drawn, seed);
    let origin = serve(drawn.resource()).await;
    let heal = || origin.replace("/f.bin", drawn.honest_resource());
    let requests = || origin.requests().len();
    check_download(&drawn, &mut case, &origin.url("/f.bin"), requests, heal).await
}

/// What is wrong with a download of a drawn file, and with one that follows when everything on the way works.
pub(crate) async fn check_download(
    drawn: &DrawnOrigin,
    case: &mut JobCase,
    url: &str,
    requests: impl Fn() -> usize,
    heal: impl FnOnce(),
) -> Result<(), String> {
    let Ok(run) = timeout(MAX_TIME, case.get(url)).await else {
        return Err(format!("no end after {MAX_TIME:?}"));
    };
    if requests() > MAX_REQUESTS {
        return Err(format!("{} requests", requests()));
    }
    let found = std::fs::read(case.path()).ok();
    match (&run.result, &found) {
        (Ok(_), Some(bytes)) => {
            if !drawn
                .versions
                .iter()
                .any(|version| version.to_vec() == *bytes)
            {
                return Err(format!("{} bytes that are no version", bytes.len()));
            }
            if case.listing() != ["f.bin"] {
                return Err(format!("files are left: {:?}", case.listing()));
            }
        }
        (Ok(_), None) => return Err("success without a file".to_owned()),
        (Err(error), Some(_)) => return Err(format!("a file in spite of: {error}")),
        (Err(_), None) => {}
    }
    // The origin recovers, and has its last version.
    heal();
    case.options.existing_file = ExistingFilePolicy::Update;
    let mut again = case.get(url).await;
    if matches!(
        again.result,
        Err(GetError::Verification {
            error: VerificationError::Checksum { .. },
            ..
        })
    ) {
        // A digest that the origin once sent was wrong, and the bytes that it was about are set aside.
        again = case.get(url).await;
    }
    if let Err(error) = &again.result {
        return Err(format!(
            "the second run failed: {error} (first: {:?})",
            run.result
        ));
    }
    let current = drawn.versions.last().map(ResourceContent::to_vec);
    if std::fs::read(case.path()).ok() == current {
        Ok(())
    } else {
        Err(format!(
            "the second run has no current version (first: {:?})",
            run.result
        ))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_is_one_whole_version_whatever_an_origin_does() {
    let check = |seed| async move {
        let checked = Box::pin(check(seed)).await.err();
        let text = checked.map(|text| format!("{text}: {:?}", DrawnOrigin::new(seed)));
        text.into_iter().collect()
    };
    assert_seeds(download_seeds(), check).await;
}

/// Files of a batch, each with an origin's behaviour of its own.
const BATCH: u64 = 16;

/// A batch whose timeouts fit origins that may be silent many times.
fn batch_case() -> BatchCase {
    let mut case = BatchCase::new();
    case.client.stall_timeout = Duration::from_millis(150);
    case.client.response_timeout = Duration::from_millis(150);
    case.get.retry = RetryOptions {
        retries: 4,
        max_retry_after: MAX_RETRY_AFTER,
        ..case.get.retry
    };
    case.get.decode_content = true;
    case
}

/// What is wrong with a batch of the files of some seeds.
async fn check_batch(first: u64) -> Vec<String> {
    let drawn: Vec<_> = (first..first + BATCH).map(DrawnOrigin::new).collect();
    let mut origin = Origin::builder();
    for (number, file) in drawn.iter().enumerate() {
        origin = origin.resource(&format!("/{number}"), file.resource());
    }
    let origin = origin.start().await;
    let heal = || {
        for (number, file) in drawn.iter().enumerate() {
            origin.replace(&format!("/{number}"), file.honest_resource());
        }
    };
    check_files(batch_case(), &drawn, &origin.url(""), heal).await
}

/// The same over HTTP/2.
async fn check_http2_batch(first: u64) -> Vec<String> {
    let drawn: Vec<_> = (first..first + BATCH).map(DrawnOrigin::new).collect();
    let authority = CertificateAuthority::new();
    let certificate = authority.issue(&["127.0.0.1", "localhost"]);
    let tls = alpn_server_config(&certificate, None, &["h2", "http/1.1"]);
    let is_healed = Arc::new(AtomicBool::new(false));
    let origin = Http2Origin::start(tls, Http2Settings::default(), {
        let (drawn, is_healed) = (drawn.clone(), Arc::clone(&is_healed));
        let requests: Mutex<HashMap<String, usize>> = Mutex::default();
        move |request| {
            let number: usize = request.path.trim_start_matches('/').parse().unwrap();
            let mut requests = requests.lock().unwrap();
            let count = requests.entry(request.path.clone()).or_default();
            *count += 1;
            if is_healed.load(Ordering::Relaxed) {
                drawn[number].honest_http2_action(request)
            } else {
                drawn[number].http2_action(request, *count - 1)
            }
        }
    })
    .await;
    let mut case = batch_case();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    case.client.http_version = HttpVersionChoice::Http2;
    let heal = || is_healed.store(true, Ordering::Relaxed);
    check_files(case, &drawn, &origin.url(""), heal).await
}

/// What is wrong with a batch of drawn files, and with one that follows when their origin works.
async fn check_files(
    mut case: BatchCase,
    drawn: &[DrawnOrigin],
    base: &str,
    heal: impl FnOnce(),
) -> Vec<String> {
    let urls = || (0..drawn.len()).map(|number| format!("{base}/{number}"));
    let Ok(run) = timeout(MAX_TIME, case.download(urls())).await else {
        return vec![format!("no end after {MAX_TIME:?}: {drawn:?}")];
    };
    let mut wrong = Vec::new();
    if run.rows.len() != drawn.len() {
        wrong.push(format!("{} rows from {base} on", run.rows.len()));
    }
    for (number, file) in drawn.iter().enumerate() {
        let name = number.to_string();
        let (row, found) = (
            run.row(&format!("/{name}")),
            std::fs::read(case.path(&name)).ok(),
        );
        let is_right = match row.state {
            JobRowState::Done => found.as_ref().is_some_and(|bytes| {
                bytes.len() as u64 == row.bytes
                    && file
                        .versions
                        .iter()
                        .any(|version| version.to_vec() == *bytes)
            }),
            _ => found.is_none(),
        };
        if !is_right {
            let bytes = found.map(|bytes| bytes.len());
            wrong.push(format!("{bytes:?} bytes, {row:?}: {file:?}"));
        }
    }
    heal();
    case.get.existing_file = ExistingFilePolicy::Update;
    case.download(urls()).await;
    // Bytes that a wrong digest was about are set aside.
    let last = case.download(urls()).await;
    for (number, file) in drawn.iter().enumerate() {
        let name = number.to_string();
        let current = file.versions.last().map(ResourceContent::to_vec);
        // An empty response does not replace bytes of an earlier run: it may stand for an error (row A24).
        let is_refused = current.as_ref().is_some_and(Vec::is_empty)
            && last.row(&format!("/{name}")).state == JobRowState::Failed;
        if !is_refused && std::fs::read(case.path(&name)).ok() != current {
            wrong.push(format!(
                "not current, {:?}: {file:?}",
                last.row(&format!("/{name}"))
            ));
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_of_a_batch_over_http2_is_one_whole_version_whatever_its_origin_does() {
    let firsts = download_seeds()
        .into_iter()
        .step_by(usize::try_from(BATCH).unwrap());
    assert_seeds(firsts, |first| Box::pin(check_http2_batch(first))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_of_a_batch_is_one_whole_version_whatever_its_origin_does() {
    let firsts = download_seeds()
        .into_iter()
        .step_by(usize::try_from(BATCH).unwrap());
    assert_seeds(firsts, |first| Box::pin(check_batch(first))).await;
}

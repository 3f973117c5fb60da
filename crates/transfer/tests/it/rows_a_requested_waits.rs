//! Row A42: origins that say when to come back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use haul_lab::{Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, faults};
use haul_plan::{Remedy, TransferTimeLimit};
use haul_transfer::{GetError, OriginError};
use tokio::time::Instant;

use crate::batch::BatchCase;
use crate::harness::{JobCase, content};

const HOUR: Duration = Duration::from_secs(3600);

/// A refusal with these fields.
fn refusal(
    status: u16,
    fields: Vec<(&'static str, String)>,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static {
    move |request, response| {
        faults::status(status)(request, response);
        for (name, value) in &fields {
            response.set_header(name, value);
        }
    }
}

/// Each way to ask for a wait of this many seconds, by an origin whose clock is wrong.
fn forms(seconds: u64) -> Vec<(u16, Vec<(&'static str, String)>)> {
    let theirs = SystemTime::now() - HOUR;
    let date = ("Date", httpdate::fmt_http_date(theirs));
    let then = theirs + Duration::from_secs(seconds);
    let since_epoch = then.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let epoch = since_epoch.as_secs().to_string();
    let none_left = ("X-RateLimit-Remaining", "0".to_owned());
    vec![
        (429, vec![("Retry-After", seconds.to_string())]),
        (
            503,
            vec![date.clone(), ("Retry-After", httpdate::fmt_http_date(then))],
        ),
        (
            429,
            vec![("RateLimit", format!("\"files\";r=0;t={seconds}"))],
        ),
        (403, vec![date, none_left, ("X-RateLimit-Reset", epoch)]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a42_a_download_waits_as_long_as_the_origin_asks_whatever_the_clocks_say() {
    for (status, fields) in forms(1) {
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::first(1), refusal(status, fields));
        let case = JobCase::new();
        let began = Instant::now();
        let (run, _origin) = case.run(resource).await;
        assert_eq!(run.outcome().retries, 1, "{status}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{status}");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a42_a_wait_beyond_the_limit_ends_the_download_at_once_with_the_time_that_the_origin_asks_for()
 {
    for (status, fields) in forms(7) {
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), refusal(status, fields));
        let mut case = JobCase::new();
        case.options.retry.max_retry_after = Duration::from_secs(6);
        let (run, origin) = case.run(resource).await;
        let error = run.error();
        assert!(
            matches!(
                error,
                GetError::Origin {
                    error: OriginError::Status { .. },
                    ..
                }
            ),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.ends_with("and asks to wait for 7 s"), "{text}");
        let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait);
        assert_eq!(error.remedies(), [limit]);
        assert_eq!(origin.requests().len(), 1);
    }
}

/// The makers of archives answer so until a file is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a42_a_file_that_is_still_being_made_is_waited_for_and_no_other_file() {
    let made = || {
        let accepted = refusal(202, vec![("Retry-After", "1".to_owned())]);
        OriginResource::new(content()).rule(RequestMatcher::first(1), accepted)
    };
    let began = Instant::now();
    let case = JobCase::new();
    let (run, _origin) = case.run(made()).await;
    assert_eq!(run.outcome().retries, 1);
    assert!(began.elapsed() >= Duration::from_secs(1));
    case.assert_file(&content());
    let origin = Origin::builder()
        .resource("/made", made())
        .resource("/there", OriginResource::new(content()))
        .start()
        .await;
    let case = BatchCase::new();
    let run = case
        .download(["/made", "/there"].map(|path| origin.url(path)))
        .await;
    assert_eq!(run.counts(), (2, 0, 0));
    case.assert_file("made", &content());
    // Without a time to come back nobody knows whether the file will ever be there.
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), refusal(202, Vec::new()));
    let (run, origin) = JobCase::new().run(resource).await;
    assert_eq!(origin.requests().len(), 1);
    assert!(format!("{:?}", run.error().remedies()).contains("later"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a42_all_files_of_a_batch_wait_as_long_as_their_host_asks() {
    const FILES: u64 = 40;
    // The milliseconds of each request since the first one.
    let requests = Arc::new(Mutex::new(Vec::new()));
    let first_request = Arc::new(Mutex::new(None));
    let mut builder = Origin::builder();
    for n in 0..FILES {
        let (requests, first_request) = (Arc::clone(&requests), Arc::clone(&first_request));
        let rule = move |request: &RecordedRequest, response: &mut OriginResponse| {
            let first = *first_request
                .lock()
                .unwrap()
                .get_or_insert_with(Instant::now);
            let elapsed = first.elapsed();
            requests.lock().unwrap().push(elapsed);
            if elapsed < Duration::from_secs(1) {
                let fields = vec![("Retry-After", "1".to_owned())];
                refusal(429, fields)(request, response);
            }
        };
        let resource = OriginResource::new(content()).rule(RequestMatcher::always(), rule);
        builder = builder.resource(&format!("/{n}"), resource);
    }
    let origin = builder.start().await;
    let case = BatchCase::new();
    let urls = (0..FILES).map(|n| origin.url(&format!("/{n}")));
    let run = case.download(urls).await;
    assert_eq!(run.counts(), (FILES, 0, 0));
    let mut times = requests.lock().unwrap().clone();
    times.sort();
    // Those that were under way when the first refusal came.
    let early = times
        .iter()
        .filter(|time| **time < Duration::from_secs(1))
        .count();
    assert!(early <= 16, "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a42_a_batch_says_that_it_waits_for_a_host() {
    for (status, fields) in forms(300) {
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), refusal(status, fields));
        let origin = Origin::builder().resource("/f", resource).start().await;
        let mut case = BatchCase::new();
        case.stops_at_warning = true;
        let run = case.download([origin.url("/f")]).await;
        let url = origin.url("");
        let host = url.trim_end_matches('/');
        let text = format!("{host} asks to wait for 300 s: its files wait until then");
        assert_eq!(run.warnings, [text], "{status}");
    }
}

//! Fairness: neither a dead host, nor a slow host, nor a large file delays the other jobs.
//!
//! The slow jobs never end here, so that no timing is measured: the batch is stopped when the other files are in place, which would
//! never happen if they waited.

use std::net::Ipv4Addr;
use std::time::Duration;

use haul_lab::{
    GeneratedFiles, Origin, OriginBuilder, OriginResource, OriginResponse, RecordedRequest,
    RequestMatcher, ResourceContent, SilentListener, faults,
};
use haul_net::ProxyRules;
use haul_transfer::ConnectionCount;

use super::strategies::free_port;
use super::{BatchCase, BatchRun, small_content};
use crate::harness::LIMIT;

/// Longer than any test.
const FOR_EVER: Duration = LIMIT.saturating_mul(10);

/// An origin with any file under every loopback address.
fn origin_on_all_addresses() -> OriginBuilder {
    Origin::builder()
        .listen_on(Ipv4Addr::UNSPECIFIED.into())
        .generated_files(GeneratedFiles::new(1, 1..4000))
}

impl BatchCase {
    /// Settings without effective timeouts.
    fn without_timeouts() -> Self {
        let mut case = Self::new();
        case.client.stall_timeout = FOR_EVER;
        case.client.response_timeout = case.client.stall_timeout;
        case.client.connector.connect_timeout = FOR_EVER;
        case
    }

    /// Downloads until this many files are in place, then stops.
    async fn download_until(
        mut self,
        files: usize,
        urls: impl IntoIterator<Item = String>,
    ) -> BatchRun {
        self.stop_after_files = Some(files);
        let run = self.download(urls).await;
        assert_eq!(
            run.counts(),
            (files as u64, 0, 0),
            "{:?}",
            run.summary.failure_groups
        );
        run
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_dead_host_delays_only_its_own_jobs() {
    let (silent, origin) = (
        SilentListener::start().unwrap(),
        origin_on_all_addresses().start().await,
    );
    let port = origin.address().port();
    // The jobs of the dead host come first, and are more than may run at once.
    let dead = (0..200).map(|n| format!("http://{}/dead{n}", silent.address()));
    let reachable = (0..500).map(|n| format!("http://127.1.0.{}:{port}/{n}", n % 50 + 1));
    BatchCase::without_timeouts()
        .download_until(500, dead.chain(reachable))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_dead_hosts_among_many_delay_only_their_own_jobs() {
    let (silent, origin) = (
        SilentListener::start().unwrap(),
        origin_on_all_addresses().start().await,
    );
    // One host in twenty is dead, spread over the list, with four jobs each.
    let port = |host: u8| match host % 20 {
        7 => silent.address().port(),
        _ => origin.address().port(),
    };
    let urls = (0..800).map(|n| {
        let host = u8::try_from(n % 200 + 1).unwrap();
        format!("http://127.1.1.{host}:{}/{n}", port(host))
    });
    BatchCase::without_timeouts()
        .download_until(760, urls)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_jobs_of_dead_hosts_end_as_failed_rows() {
    let silent = SilentListener::start().unwrap();
    let [refusing] = haul_lab::free_ports();
    let origin = origin_on_all_addresses().start().await;
    let port = |host: usize| match host {
        3 => silent.address().port(),
        5 => refusing,
        _ => origin.address().port(),
    };
    let urls = (0..500).map(|n| format!("http://127.1.2.{}:{}/{n}", n % 50 + 1, port(n % 50)));
    let mut case = BatchCase::new();
    // Long enough not to take a busy machine for a dead one.
    case.client.connector.connect_timeout = Duration::from_secs(1);
    case.client.stall_timeout = Duration::from_secs(10);
    case.client.response_timeout = case.client.stall_timeout;
    case.get.retry.retries_before_response = 1;
    let run = case.download(urls).await;
    assert_eq!(
        run.counts(),
        (480, 0, 20),
        "{:?}",
        run.summary.failure_groups
    );
    let grouped: u64 = run
        .summary
        .failure_groups
        .iter()
        .map(|cause| cause.count)
        .sum();
    assert_eq!(grouped, 20);
    // Jobs that were never tried give the reason, too.
    let texts = run.rows.iter().filter_map(|row| row.error.as_ref());
    let mut given_up = texts
        .map(|error| &error.text)
        .filter(|text| text.contains("was given up"));
    assert!(
        given_up.all(|text| text.contains("tries to reach it: ")),
        "{:?}",
        run.rows
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_errors_name_a_dead_proxy_and_not_the_hosts_behind_it() {
    let mut case = BatchCase::new();
    let proxy = format!("http://127.0.0.1:{}", free_port());
    case.client.proxy = ProxyRules::all(proxy.parse().unwrap());
    case.get.retry.retries_before_response = 1;
    let run = case
        .download((0..20).map(|n| format!("http://origin.test/{n}")))
        .await;
    assert_eq!(run.counts(), (0, 0, 20));
    let causes: Vec<_> = run
        .summary
        .failure_groups
        .iter()
        .map(|cause| &cause.cause)
        .collect();
    assert!(
        !causes
            .iter()
            .any(|text| text.starts_with("host unreachable")),
        "{causes:?}"
    );
    let texts = run.rows.iter().filter_map(|row| row.error.as_ref());
    let mut given_up = texts
        .map(|error| &error.text)
        .filter(|text| text.contains("was given up"));
    let first = given_up.next().expect("some were never tried");
    assert!(
        first.contains("its proxy was given up") && first.contains("refused"),
        "{first}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_slow_host_delays_only_its_own_jobs() {
    let slow = Origin::builder().latency(FOR_EVER).start().await;
    let origin = origin_on_all_addresses().start().await;
    let port = origin.address().port();
    let jobs = (0..200).map(|n| slow.url(&format!("/slow{n}")));
    let others = (0..500).map(|n| format!("http://127.1.3.{}:{port}/{n}", n % 50 + 1));
    BatchCase::without_timeouts()
        .download_until(500, jobs.chain(others))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7_small_files_do_not_wait_for_large_ones_of_their_host() {
    // The first half comes at once, the second at one byte a second.
    let large = OriginResource::new(ResourceContent::random(1, 4 << 20));
    let half = |request: &RecordedRequest, reply: &mut OriginResponse| {
        if request.range_start() >= 2 << 20 {
            faults::body_rate(1)(request, reply);
        }
    };
    let large = large.rule(RequestMatcher::always(), half);
    let origin = (0..3)
        .fold(Origin::builder(), |origin, n| {
            origin.resource(&format!("/large{n}"), large.clone())
        })
        .generated_files(GeneratedFiles::new(1, 1..2000))
        .start()
        .await;
    let mut case = BatchCase::without_timeouts();
    case.get.connections = ConnectionCount::Auto { max: 8 };
    let urls = (0..3)
        .map(|n| format!("/large{n}"))
        .chain((0..500).map(|n| format!("/{n}")));
    case.download_until(500, urls.map(|path| origin.url(&path)))
        .await;
    let requests = origin.requests();
    let segments = requests.iter().filter(|a| a.path() == "/large0").count();
    assert!(segments > 1, "the large files were not segmented");
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_list_that_begins_with_a_slow_host_does_not_delay_the_others() {
    let mut case = BatchCase::without_timeouts();
    // The slow host has more jobs in front than the window holds, and never answers.
    case.options.dispatch.window = 64;
    let silent = OriginResource::new(ResourceContent::random(1, 100))
        .rule(RequestMatcher::always(), faults::delay_response(FOR_EVER));
    let slow = (0..300).fold(Origin::builder(), |origin, number| {
        origin.resource(&format!("/slow{number}"), silent.clone())
    });
    let (slow, fast) = (slow.start().await, origin_on_all_addresses().start().await);
    let first = (0..300).map(|number| slow.url(&format!("/slow{number}")));
    let others = (0..40).map(|number| fast.url(&format!("/fast{number}")));
    let run = case.download_until(40, first.chain(others)).await;
    assert_eq!(run.summary.done, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a17_jobs_are_not_requested_during_a_retry_after_of_an_hour() {
    const FILES: u64 = 300;
    let busy = || {
        OriginResource::new(small_content(1)).rule(
            RequestMatcher::always(),
            faults::status_with_header(503, "Retry-After", "3600".into()),
        )
    };
    let origin = (0..FILES)
        .fold(Origin::builder(), |origin, n| {
            origin.resource(&format!("/{n}"), busy())
        })
        .start()
        .await;
    let case = BatchCase::new();
    let run = case
        .download((0..FILES).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (0, 0, FILES));
    let requests = origin.requests().len();
    assert!(requests < 100, "{requests} requests");
    let rejected = run.rows.iter().filter(|row| row.attempts == 0);
    for row in rejected.clone() {
        let error = &row.error.as_ref().unwrap().text;
        assert!(error.contains("asks to wait for 60 min"), "{error}");
    }
    assert_eq!((rejected.count() + requests) as u64, FILES);
}

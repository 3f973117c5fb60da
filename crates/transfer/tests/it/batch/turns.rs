//! Who waits for whom: neither a dead host, nor a slow one, nor a large file holds up the others.
//!
//! What must not hold up others takes for ever here, so that time says nothing: the batch is stopped when the others are in their
//! place, and if they waited, that is never.

use std::net::Ipv4Addr;
use std::time::Duration;

use haul_lab::{
    GeneratedFiles, Origin, OriginBuilder, OriginResource, OriginResponse, RecordedRequest,
    RequestMatcher, ResourceContent, SilentListener, faults,
};
use haul_net::ProxyRules;
use haul_transfer::ConnectionCount;

use super::roads::free_port;
use super::{BatchCase, BatchRun};
use crate::harness::LIMIT;

/// Longer than any test.
const FOR_EVER: Duration = LIMIT.saturating_mul(10);

/// One that has any file, under every address of loopback.
fn everywhere() -> OriginBuilder {
    Origin::builder()
        .listen_on(Ipv4Addr::UNSPECIFIED.into())
        .generated_files(GeneratedFiles::new(1, 1..4000))
}

impl BatchCase {
    /// Settings under which nothing is given up.
    fn patient() -> Self {
        let mut lot = Self::new();
        lot.client.stall_timeout = FOR_EVER;
        lot.client.connector.connect_timeout = FOR_EVER;
        lot
    }

    /// Downloads until so many files are in their place, then stops.
    async fn get_until(mut self, files: usize, urls: impl IntoIterator<Item = String>) -> BatchRun {
        self.enough = Some(files);
        let ran = self.get(urls).await;
        assert_eq!(
            ran.counts(),
            (files as u64, 0, 0),
            "{:?}",
            ran.summary.failure_groups
        );
        ran
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_dead_host_holds_up_nothing_but_its_own_jobs() {
    let (silent, origin) = (SilentListener::start().unwrap(), everywhere().start().await);
    let port = origin.address().port();
    // They come first, and are more than what may run at once.
    let dead = (0..200).map(|n| format!("http://{}/dead{n}", silent.address()));
    let living = (0..500).map(|n| format!("http://127.1.0.{}:{port}/{n}", n % 50 + 1));
    BatchCase::patient()
        .get_until(500, dead.chain(living))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_dead_hosts_among_many_hold_up_nothing_but_their_own_jobs() {
    let (silent, origin) = (SilentListener::start().unwrap(), everywhere().start().await);
    // One in twenty, up and down the list, with four jobs each.
    let port = |host: u8| match host % 20 {
        7 => silent.address().port(),
        _ => origin.address().port(),
    };
    let urls = (0..800).map(|n| {
        let host = u8::try_from(n % 200 + 1).unwrap();
        format!("http://127.1.1.{host}:{}/{n}", port(host))
    });
    BatchCase::patient().get_until(760, urls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_jobs_of_dead_hosts_end_as_failed_rows() {
    let silent = SilentListener::start().unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = gone.local_addr().unwrap().port();
    drop(gone);
    let origin = everywhere().start().await;
    let port = |host: usize| match host {
        3 => silent.address().port(),
        5 => refusing,
        _ => origin.address().port(),
    };
    let urls = (0..500).map(|n| format!("http://127.1.2.{}:{}/{n}", n % 50 + 1, port(n % 50)));
    let mut lot = BatchCase::new();
    // Long enough that a busy machine is not taken for a dead one.
    lot.client.connector.connect_timeout = Duration::from_secs(1);
    lot.client.stall_timeout = Duration::from_secs(10);
    lot.get.retry.retries_before_response = 1;
    let ran = lot.get(urls).await;
    assert_eq!(
        ran.counts(),
        (480, 0, 20),
        "{:?}",
        ran.summary.failure_groups
    );
    let named: u64 = ran
        .summary
        .failure_groups
        .iter()
        .map(|cause| cause.count)
        .sum();
    assert_eq!(named, 20);
    // Those that were never tried say why, too.
    let texts = ran.rows.iter().filter_map(|row| row.error.as_ref());
    let mut given_up = texts
        .map(|error| &error.text)
        .filter(|text| text.contains("was given up"));
    assert!(
        given_up.all(|text| text.contains("tries to reach it: ")),
        "{:?}",
        ran.rows
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_dead_proxy_is_blamed_and_not_the_hosts_behind_it() {
    let mut lot = BatchCase::new();
    let proxy = format!("http://127.0.0.1:{}", free_port());
    lot.client.proxy = ProxyRules::all(proxy.parse().unwrap());
    lot.get.retry.retries_before_response = 1;
    let ran = lot
        .get((0..20).map(|n| format!("http://origin.test/{n}")))
        .await;
    assert_eq!(ran.counts(), (0, 0, 20));
    let causes: Vec<_> = ran
        .summary
        .failure_groups
        .iter()
        .map(|cause| &cause.cause)
        .collect();
    assert!(
        !causes.iter().any(|text| text.contains("its host")),
        "{causes:?}"
    );
    let texts = ran.rows.iter().filter_map(|row| row.error.as_ref());
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
async fn c3_a_slow_host_holds_up_nothing_but_its_own_jobs() {
    let slow = Origin::builder().latency(FOR_EVER).start().await;
    let origin = everywhere().start().await;
    let port = origin.address().port();
    let jobs = (0..200).map(|n| slow.url(&format!("/slow{n}")));
    let others = (0..500).map(|n| format!("http://127.1.3.{}:{port}/{n}", n % 50 + 1));
    BatchCase::patient()
        .get_until(500, jobs.chain(others))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7_small_files_do_not_wait_for_large_ones_of_their_host() {
    // After the first half, which comes at once, a byte a second.
    let large = OriginResource::new(ResourceContent::random(1, 4 << 20));
    let half = |asked: &RecordedRequest, reply: &mut OriginResponse| {
        if asked.range_start() >= 2 << 20 {
            faults::body_rate(1)(asked, reply);
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
    let mut lot = BatchCase::patient();
    lot.get.connections = ConnectionCount::Auto { max: 8 };
    let urls = (0..3).map(|n| format!("/large{n}"));
    let urls = urls.chain((0..500).map(|n| format!("/{n}")));
    lot.get_until(500, urls.map(|path| origin.url(&path))).await;
    let asked = origin.requests();
    let segments = asked.iter().filter(|a| a.path() == "/large0").count();
    assert!(segments > 1, "the large files came in one piece");
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_list_that_begins_with_a_slow_host_keeps_the_others_busy() {
    let mut lot = BatchCase::patient();
    // The slow one has more jobs in front than are held at a time, and is silent for as long as anybody looks.
    lot.options.dispatch.window = 64;
    let silent = OriginResource::new(ResourceContent::random(1, 100));
    let silent = silent.rule(RequestMatcher::always(), faults::delay_response(FOR_EVER));
    let slow = (0..300).fold(Origin::builder(), |origin, number| {
        origin.resource(&format!("/slow{number}"), silent.clone())
    });
    let (slow, fast) = (slow.start().await, everywhere().start().await);
    let first = (0..300).map(|number| slow.url(&format!("/slow{number}")));
    let others = (0..40).map(|number| fast.url(&format!("/fast{number}")));
    let ran = lot.get_until(40, first.chain(others)).await;
    assert_eq!(ran.summary.done, 40);
}

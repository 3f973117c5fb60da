//! The strategy of a job: a single response in memory or in an unnamed file, a partial file with segments, mirrors.

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
    faults,
};
use haul_net::ProxyRules;
use haul_transfer::ConnectionCount;
use haul_transfer::disk::StorageWrapping;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::JobRowState;

use super::{BatchCase, origin_with_files, small_content};
use crate::faulty_disk::DiskFaults;
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn c7_a_large_file_is_segmented_with_its_first_response() {
    let case = BatchCase::new();
    let large = ResourceContent::random(1, 3 << 20);
    let medium = ResourceContent::random(2, 400 << 10);
    let origin = origin_with_files(50)
        .resource("/large", OriginResource::new(large.clone()))
        .resource("/medium", OriginResource::new(medium.clone()))
        .start()
        .await;
    let names = ["large".into(), "medium".into()]
        .into_iter()
        .chain((0..50).map(|n| n.to_string()));
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (52, 0, 0));
    case.assert_file("large", &large);
    case.assert_file("medium", &medium);
    let requests_of = |path: &str| {
        origin
            .requests()
            .iter()
            .filter(|a| a.path() == path)
            .count()
    };
    assert_eq!(requests_of("/medium"), 1, "it had one response");
    assert!(requests_of("/large") > 1, "it had several segments");
    let first = origin
        .requests()
        .iter()
        .filter(|a| a.path() == "/large" && a.range(3 << 20) == Some(0..512 << 10))
        .count();
    assert_eq!(first, 1, "the first range was requested once");
    assert_eq!(case.listing().len(), 52);
}

/// The proxy takes as long to connect as a path of 20 ms, which is told by the first connections. A climb would begin with four files and
/// go on with twenty-four.
#[tokio::test(flavor = "multi_thread")]
async fn small_files_over_a_long_path_have_connections_of_their_own_at_once() {
    let authority = CertificateAuthority::new();
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), |_, reply| {
            reply.delay = Duration::from_millis(20);
        })
        .start()
        .await;
    let files = 40;
    let tls = authority.issue(&["127.0.0.1"]).server_config(None);
    let origin = origin_with_files(files).tls(tls).start().await;
    let mut case = BatchCase::new();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    case.client.proxy = ProxyRules::all(proxy.url().parse().unwrap());
    let urls = (0..files).map(|n| origin.url(&format!("/{n}")));
    let run = case.download(urls).await;
    assert_eq!(run.counts(), (40, 0, 0));
    let connections = origin.connection_count();
    assert!(connections > 28, "{connections} connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a12_origins_without_ranges_or_lengths_need_one_response() {
    let case = BatchCase::new();
    let long = ResourceContent::random(4, 700 << 10);
    let plain = |rule: fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse)| {
        OriginResource::new(long.clone())
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::always(), rule)
    };
    let origin = origin_with_files(1)
        .resource("/whole", plain(|_, _| {}))
        .resource("/chunked", plain(faults::chunked))
        .resource("/close", plain(faults::close_delimited))
        .resource(
            "/small",
            OriginResource::new(small_content(40))
                .rule(RequestMatcher::always(), faults::ignore_range)
                .rule(RequestMatcher::always(), faults::chunked),
        )
        .start()
        .await;
    let names = ["whole", "chunked", "close", "small"];
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (4, 0, 0));
    for name in ["whole", "chunked", "close"] {
        case.assert_file(name, &long);
    }
    case.assert_file("small", &small_content(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_an_unrequested_content_encoding_is_stored_as_sent() {
    let case = BatchCase::new();
    let resource =
        OriginResource::new(small_content(30)).rule(RequestMatcher::always(), faults::gzip);
    let origin = origin_with_files(1)
        .resource("/zip", resource)
        .start()
        .await;
    let run = case.download([origin.url("/zip")]).await;
    assert_eq!(run.row("/zip").state, JobRowState::Done);
    assert_eq!(std::fs::read(case.path("zip")).unwrap()[..2], [0x1f, 0x8b]);
    let is_expected = |warning: &String| warning.contains("sent the file as gzip");
    assert!(run.warnings.iter().any(is_expected), "{:?}", run.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_row_is_written_when_all_directories_of_a_large_file_are_durable() {
    let large = ResourceContent::random(1, 2 << 20);
    let origin = origin_with_files(1)
        .resource("/deep/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.options.layout = haul_transfer::PathLayout::Path;
    let host = origin.address().to_string().replace(':', "+");
    for unsyncable in ["", "x", "x/deep"] {
        let name = |name: &str| name.replace('x', &host);
        let disk = Arc::new(DiskFaults {
            unsyncable: Some(case.path(&name(unsyncable))).filter(|_| !unsyncable.is_empty()),
            ..DiskFaults::default()
        });
        case.get.storage_wrapping = disk.wrapping();
        let run = case.download([origin.url("/deep/large")]).await;
        if unsyncable.is_empty() {
            assert_eq!(run.counts(), (1, 0, 0));
            let synced = disk.synced.lock().unwrap();
            for directory in ["x/deep", "x", ""] {
                let directory = case.path(&name(directory));
                assert!(synced.contains(&directory), "{directory:?}: {synced:?}");
            }
        } else {
            assert!(run.error("/large").contains("directory sync failed"));
        }
        case.assert_file(&name("x/deep/large"), &large);
        std::fs::remove_dir_all(case.path(&host)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_subdirectory_without_unnamed_files_gets_its_files() {
    let medium = ResourceContent::random(2, 400 << 10);
    let origin = origin_with_files(40)
        .resource("/medium", OriginResource::new(medium.clone()))
        .start()
        .await;
    let mut case = BatchCase::new();
    let elsewhere = case.path("elsewhere");
    case.get.storage_wrapping = StorageWrapping::default()
        .without_unnamed_files_in(move |path| path.starts_with(&elsewhere));
    let entry = |name: String, directory: &str| {
        let entry = ListEntry::new(1, origin.url(&format!("/{name}")).parse().unwrap());
        Ok(ListEntry {
            directory: Some(directory.into()),
            ..entry
        })
    };
    let first = (0..20).map(|n| entry(n.to_string(), "here"));
    let second = (20..40).map(|n| entry(n.to_string(), "elsewhere/deep"));
    let third = [entry("medium".into(), "elsewhere")];
    let entries: Vec<_> = first.chain(second).chain(third).collect();
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (41, 0, 0), "{:?}", run.summary.failure_groups);
    for number in 20..40 {
        case.assert_file(&format!("elsewhere/deep/{number}"), &small_content(number));
    }
    case.assert_file("elsewhere/medium", &medium);
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_a_slow_body_goes_into_a_partial_file() {
    // Every connection is slow: a file that is restarted again and again would never be complete.
    let content = ResourceContent::random(1, 900);
    let slow =
        OriginResource::new(content.clone()).rule(RequestMatcher::always(), faults::body_rate(900));
    let origin = origin_with_files(1).resource("/slow", slow).start().await;
    let mut case = BatchCase::new();
    case.options.body_timeout = Duration::ZERO;
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    // A file that is restarted too often fails.
    case.get.retry.retries = 1;
    let run = case.download([origin.url("/slow")]).await;
    assert_eq!(run.counts(), (1, 0, 0), "{:?}", run.summary.failure_groups);
    case.assert_file("slow", &content);
    assert_eq!(case.listing(), ["slow"]);
}

/// A redirect to a host that accepts a signature only for some requests, and a host whose 403s are final.
#[tokio::test(flavor = "multi_thread")]
async fn a16_an_expired_signature_is_renewed_by_the_first_url() {
    let origin = (0..60).fold(Origin::builder(), |origin, n| {
        origin.resource(
            &format!("/denied{n}"),
            OriginResource::new(small_content(1))
                .rule(RequestMatcher::always(), faults::status(403)),
        )
    });
    // Each file answers 403 to the first request: the signature of the first redirect has expired.
    let target = (0..30)
        .fold(Origin::builder(), |origin, n| {
            let resource = OriginResource::new(small_content(n));
            origin.resource(
                &format!("/{n}"),
                resource.rule(RequestMatcher::first(1), faults::status(403)),
            )
        })
        .start()
        .await;
    let origin = (0..30)
        .fold(origin, |origin, n| {
            let to = faults::redirect(302, target.url(&format!("/{n}")));
            origin.resource(
                &format!("/{n}"),
                OriginResource::new(small_content(n)).rule(RequestMatcher::always(), to),
            )
        })
        .start()
        .await;
    let case = BatchCase::new();
    // First the batch learns that repeating requests to this host is of no use.
    let denied = (0..60).map(|n| origin.url(&format!("/denied{n}")));
    let urls = denied.chain((0..30).map(|n| origin.url(&format!("/{n}"))));
    let run = case.download(urls).await;
    assert_eq!(
        run.counts(),
        (30, 0, 60),
        "{:?}",
        run.summary.failure_groups
    );
    for number in 0..30 {
        case.assert_file(&number.to_string(), &small_content(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_a_signature_that_expires_while_waiting_for_a_connection_is_renewed() {
    // The target of the redirects takes one connection, and the first signature of each file is good for one request.
    let used_signatures = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&used_signatures);
    let expired_signature =
        move |request: &haul_lab::RecordedRequest, reply: &mut haul_lab::OriginResponse| {
            // A signature that was used before has expired.
            let again = !seen.lock().unwrap().insert(request.target.clone());
            if again && request.target.ends_with("-0") {
                faults::status(403)(request, reply);
            }
        };
    let store = (0..16).fold(Origin::builder(), |origin, n| {
        let resource = OriginResource::new(ResourceContent::random(n, 60_000))
            .rule(RequestMatcher::always(), faults::body_rate(600_000))
            .rule(RequestMatcher::always(), expired_signature.clone());
        origin.resource(&format!("/{n}"), resource)
    });
    // The 403s of this host are known to be final, too.
    let store = (0..30)
        .fold(store, |store, n| {
            let denied = OriginResource::new(small_content(1))
                .rule(RequestMatcher::always(), faults::status(403));
            store.resource(&format!("/denied{n}"), denied)
        })
        .start()
        .await;
    let origins = redirecting_origins(&store).await;
    let mut case = BatchCase::new();
    case.get.connections = ConnectionCount::Fixed(1);
    let denied = (0..30).map(|n| store.url(&format!("/denied{n}")));
    let urls = (0..16).map(|n| origins[n % origins.len()].url(&format!("/{n}")));
    let run = case.download(denied.chain(urls)).await;
    assert_eq!(
        run.counts(),
        (16, 0, 30),
        "{:?}",
        run.summary.failure_groups
    );
    for number in 0..16 {
        case.assert_file(
            &number.to_string(),
            &ResourceContent::random(number, 60_000),
        );
    }
    let requests = used_signatures.lock().unwrap().len();
    assert!(requests > 16, "no request had to wait");
}

/// Hosts that redirect each request to a store, with a new signature each time.
async fn redirecting_origins(store: &Origin) -> Vec<Origin> {
    let mut origins = Vec::new();
    for host in 0..8 {
        let origin = (0..16).fold(Origin::builder(), |origin, n| {
            let to = store.url(&format!("/{n}"));
            let signed = move |request: &haul_lab::RecordedRequest,
                               reply: &mut haul_lab::OriginResponse| {
                let to = format!("{to}?signed={host}-{}", request.number_for_path);
                faults::redirect(302, to)(request, reply);
            };
            let resource =
                OriginResource::new(small_content(1)).rule(RequestMatcher::always(), signed);
            origin.resource(&format!("/{n}"), resource)
        });
        origins.push(origin.start().await);
    }
    origins
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_broken_body_is_resumed_and_leaves_no_extra_files() {
    let case = BatchCase::new();
    let medium = ResourceContent::random(6, 450 << 10);
    let cut = OriginResource::new(medium.clone())
        .rule(RequestMatcher::first(2), faults::close_after(300 << 10));
    let origin = origin_with_files(1).resource("/cut", cut).start().await;
    let run = case.download([origin.url("/cut")]).await;
    // The second attempt keeps the bytes and resumes when its body breaks off, too.
    assert_eq!((run.counts(), run.row("/cut").attempts), ((1, 0, 0), 2));
    case.assert_file("cut", &medium);
    assert_eq!(case.listing(), ["cut"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_partial_file_of_an_earlier_run_is_resumed() {
    let case = BatchCase::new();
    let large = ResourceContent::random(1, 3 << 20);
    let cut = OriginResource::new(large.clone()).rule(
        RequestMatcher::after_bytes_sent(2 << 20),
        faults::status(404),
    );
    let origin = origin_with_files(1).resource("/large", cut).start().await;
    let run = case.download([origin.url("/large")]).await;
    assert_eq!(run.counts(), (0, 0, 1));
    assert_eq!(case.listing(), ["large.haul-journal", "large.haul-part"]);
    origin.replace("/large", OriginResource::new(large.clone()));
    let before = origin.bytes_sent();
    let run = case.download([origin.url("/large")]).await;
    assert_eq!(run.counts(), (1, 0, 0));
    case.assert_file("large", &large);
    assert!(
        origin.bytes_sent() - before < 2 << 20,
        "bytes on the disk were fetched again"
    );
    assert_eq!(case.listing(), ["large"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_of_files_are_created() {
    let (case, origin) = (BatchCase::new(), origin_with_files(2).start().await);
    let entry = |(line, path): (u64, &str)| {
        let url = origin.url("/1").parse().unwrap();
        Ok(ListEntry {
            path: Some(path.into()),
            ..ListEntry::new(line, url)
        })
    };
    let entries: Vec<_> = (1..).zip(["a/b/c", "a/d"]).map(entry).collect();
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (2, 0, 0));
    case.assert_file("a/b/c", &small_content(1));
    case.assert_file("a/d", &small_content(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_tried_when_the_first_source_fails() {
    let (case, bad, good) = (
        BatchCase::new(),
        origin_with_files(1).start().await,
        origin_with_files(9).start().await,
    );
    let url = |origin: &Origin, name: &str| origin.url(name).parse().unwrap();
    let unreachable = format!("http://127.0.0.1:{}/8", free_port());
    let entries = ["/7", "/8"].map(|name| {
        Ok(ListEntry {
            mirrors: vec![unreachable.parse().unwrap(), url(&good, name)],
            ..ListEntry::new(1, url(&bad, name))
        })
    });
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (2, 0, 0));
    case.assert_file("7", &small_content(7));
    case.assert_file("8", &small_content(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_tried_after_two_broken_responses() {
    for short in [true, false] {
        let mut case = BatchCase::new();
        case.get.retry.retries = 1000;
        let resource = OriginResource::new(small_content(8));
        let bad = if short {
            resource.rule(RequestMatcher::always(), faults::close_after(2))
        } else {
            resource.rule(RequestMatcher::always(), faults::reset_after(2))
        };
        let bad = Origin::builder().resource("/8", bad).start().await;
        let good = origin_with_files(9).start().await;
        let entry = ListEntry {
            mirrors: vec![good.url("/8").parse().unwrap()],
            ..ListEntry::new(1, bad.url("/8").parse().unwrap())
        };
        let run = case.run(Box::new([Ok(entry)].into_iter())).await;
        assert_eq!((run.counts(), bad.requests().len()), ((1, 0, 0), 2));
        case.assert_file("8", &small_content(8));
    }
}

/// The broken source is tried again when all others have failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_source_is_tried_again_after_its_mirrors() {
    let resource =
        OriginResource::new(small_content(8)).rule(RequestMatcher::first(4), |request, reply| {
            // At the same byte each time, it would be broken for good (row A41).
            let bytes = 1 + request.number_for_path as u64;
            faults::close_after(bytes)(request, reply);
        });
    let bad = Origin::builder().resource("/8", resource).start().await;
    let (case, empty) = (BatchCase::new(), origin_with_files(1).start().await);
    let entry = ListEntry {
        mirrors: vec![empty.url("/8").parse().unwrap()],
        ..ListEntry::new(1, bad.url("/8").parse().unwrap())
    };
    let run = case.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!((run.counts(), bad.requests().len()), ((1, 0, 0), 5));
    assert_eq!(empty.requests().len(), 1);
    case.assert_file("8", &small_content(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_of_two_versions_is_fetched_from_each_source_alone() {
    let (expected, other) = (
        ResourceContent::random(1, 2 << 20),
        ResourceContent::random(2, 2 << 20),
    );
    let serve = |content: &ResourceContent, tag| {
        let resource = OriginResource::without_validator(content.clone()).etag(tag);
        let origin = Origin::builder().resource("/large", resource);
        origin.rate_per_connection(1 << 20).start()
    };
    let (bad, good) = (
        serve(&other, "\"a\"").await,
        serve(&expected, "\"b\"").await,
    );
    let entry = ListEntry {
        mirrors: vec![good.url("/large").parse().unwrap()],
        checksums: vec![format!("sha256:{}", expected.sha256()).parse().unwrap()],
        ..ListEntry::new(1, bad.url("/large").parse().unwrap())
    };
    let case = BatchCase::new();
    let run = case.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 0));
    case.assert_file("large", &expected);
    assert_eq!(case.listing(), ["large"]);
}

/// A port on which nothing listens.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn c7_the_directory_of_a_large_file_is_created() {
    let large = ResourceContent::random(1, 2 << 20);
    let origin = origin_with_files(1)
        .resource("/deep/down/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.options.layout = haul_transfer::PathLayout::Path;
    let run = case
        .download(["/0", "/deep/down/large"].map(|path| origin.url(path)))
        .await;
    assert_eq!(run.counts(), (2, 0, 0));
    let host = case.listing().remove(0);
    case.assert_file(&format!("{host}/deep/down/large"), &large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_a_limit_of_four_requests_signalled_by_403_is_found() {
    let origin = (0..120)
        .fold(Origin::builder(), |origin, number| {
            let crowded = OriginResource::new(small_content(number)).rule(
                RequestMatcher::above_open_connections(4),
                faults::status(403),
            );
            origin.resource(&format!("/{number}"), crowded)
        })
        .start()
        .await;
    let mut case = BatchCase::new();
    case.get.retry.base_delay = Duration::from_millis(20);
    let run = case
        .download((0..120).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (120, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_403_is_repeated_a_few_times_for_all_jobs_together() {
    let origin = (0..50).fold(Origin::builder(), |origin, number| {
        let denied = OriginResource::new(small_content(number))
            .rule(RequestMatcher::always(), faults::status(403));
        origin.resource(&format!("/{number}"), denied)
    });
    let (case, origin) = (BatchCase::new(), origin.start().await);
    let run = case
        .download((0..50).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (0, 0, 50));
    // Requests that ran before the host was known are repeated, too.
    assert!(origin.requests().len() < 90, "{}", origin.requests().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_tried_after_a_wrong_digest() {
    let (case, bad, good) = (
        BatchCase::new(),
        origin_with_files(9).start().await,
        origin_with_files(9).start().await,
    );
    bad.replace("/8", OriginResource::new(small_content(7)));
    let entry = ListEntry {
        mirrors: vec![good.url("/8").parse().unwrap()],
        checksums: vec![
            format!("sha256:{}", small_content(8).sha256())
                .parse()
                .unwrap(),
        ],
        ..ListEntry::new(1, bad.url("/8").parse().unwrap())
    };
    let run = case.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 0));
    case.assert_file("8", &small_content(8));
    assert_eq!(case.listing(), ["8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_larger_than_expected_is_not_read_to_its_end() {
    let endless = OriginResource::new(ResourceContent::random(1, 64 << 20))
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::chunked);
    let origin = Origin::builder()
        .resource("/endless", endless)
        .start()
        .await;
    let mut case = BatchCase::new();
    case.client.stall_timeout = LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    case.get.expected_content.max_length = Some(1 << 20);
    let run = case.download([origin.url("/endless")]).await;
    assert_eq!(run.counts(), (0, 0, 1));
    assert_eq!(run.row("/endless").attempts, 1);
    assert!(origin.bytes_sent() < 48 << 20);
}

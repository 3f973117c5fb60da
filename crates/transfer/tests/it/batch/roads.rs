//! Which road a job goes: one answer, a file without a name, segments.

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::ConnectionCount;
use haul_transfer::disk::StorageLayer;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::RowState;

use super::{BatchCase, shelf, small};
use crate::disks::DiskFaults;
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn c7_large_files_are_segmented_with_the_answer_that_was_there() {
    let lot = BatchCase::new();
    let large = ResourceContent::random(1, 3 << 20);
    let medium = ResourceContent::random(2, 400 << 10);
    let origin = shelf(50)
        .resource("/large", OriginResource::new(large.clone()))
        .resource("/medium", OriginResource::new(medium.clone()))
        .start()
        .await;
    let names = ["large".into(), "medium".into()];
    let names = names.into_iter().chain((0..50).map(|n| n.to_string()));
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (52, 0, 0));
    lot.assert_file("large", &large);
    lot.assert_file("medium", &medium);
    let asked = |path: &str| {
        origin
            .requests()
            .iter()
            .filter(|a| a.path() == path)
            .count()
    };
    assert_eq!(asked("/medium"), 1, "it came whole");
    assert!(asked("/large") > 1, "it came in segments");
    let first = origin
        .requests()
        .iter()
        .filter(|a| a.path() == "/large" && a.range(3 << 20) == Some(0..512 << 10))
        .count();
    assert_eq!(first, 1, "the first answer was not asked for twice");
    assert_eq!(lot.listing().len(), 52);
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a12_origins_without_ranges_or_lengths_are_one_answer() {
    let lot = BatchCase::new();
    let long = ResourceContent::random(4, 700 << 10);
    let plain = |rule: fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse)| {
        OriginResource::new(long.clone())
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::always(), rule)
    };
    let origin = shelf(1)
        .resource("/whole", plain(|_, _| {}))
        .resource("/chunked", plain(faults::chunked))
        .resource("/close", plain(faults::close_delimited))
        .resource(
            "/small",
            OriginResource::new(small(40))
                .rule(RequestMatcher::always(), faults::ignore_range)
                .rule(RequestMatcher::always(), faults::chunked),
        )
        .start()
        .await;
    let names = ["whole", "chunked", "close", "small"];
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (4, 0, 0));
    for name in ["whole", "chunked", "close"] {
        lot.assert_file(name, &long);
    }
    lot.assert_file("small", &small(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_coding_that_nobody_asked_for_is_stored_as_it_was_sent() {
    let lot = BatchCase::new();
    let resource = OriginResource::new(small(30)).rule(RequestMatcher::always(), faults::gzip);
    let origin = shelf(1).resource("/zip", resource).start().await;
    let ran = lot.get([origin.url("/zip")]).await;
    assert_eq!(ran.row("/zip").state, RowState::Done);
    assert_eq!(std::fs::read(lot.path("zip")).unwrap()[..2], [0x1f, 0x8b]);
    let told = |warning: &String| warning.contains("sent it as gzip");
    assert!(ran.warnings.iter().any(told), "{:?}", ran.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_row_is_done_when_all_names_above_a_large_file_are_durable() {
    let large = ResourceContent::random(1, 2 << 20);
    let origin = shelf(1)
        .resource("/deep/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.options.layout = haul_plan::PathLayout::Path;
    let host = origin.address().to_string().replace(':', "+");
    for unsyncable in ["", "x", "x/deep"] {
        let name = |name: &str| name.replace('x', &host);
        let disk = Arc::new(DiskFaults {
            unsyncable: Some(lot.path(&name(unsyncable))).filter(|_| !unsyncable.is_empty()),
            ..DiskFaults::default()
        });
        lot.get.storage_layer = disk.layer();
        let ran = lot.get([origin.url("/deep/large")]).await;
        if unsyncable.is_empty() {
            assert_eq!(ran.counts(), (1, 0, 0));
            let synced = disk.synced.lock().unwrap();
            for directory in ["x/deep", "x", ""] {
                let directory = lot.path(&name(directory));
                assert!(synced.contains(&directory), "{directory:?}: {synced:?}");
            }
        } else {
            assert!(ran.error("/large").contains("no names are kept here"));
        }
        lot.assert_file(&name("x/deep/large"), &large);
        std::fs::remove_dir_all(lot.path(&host)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_place_beneath_where_files_cannot_be_without_a_name_gets_them_all_the_same() {
    let medium = ResourceContent::random(2, 400 << 10);
    let origin = shelf(40)
        .resource("/medium", OriginResource::new(medium.clone()))
        .start()
        .await;
    let mut lot = BatchCase::new();
    let elsewhere = lot.path("elsewhere");
    lot.get.storage_layer =
        StorageLayer::default().without_unnamed_files_in(move |path| path.starts_with(&elsewhere));
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
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (41, 0, 0), "{:?}", ran.summary.failure_groups);
    for number in 20..40 {
        lot.assert_file(&format!("elsewhere/deep/{number}"), &small(number));
    }
    lot.assert_file("elsewhere/medium", &medium);
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_a_body_that_drips_is_fetched_where_nothing_of_it_is_lost() {
    // As slow over every connection: begun again and again it would never come.
    let content = ResourceContent::random(1, 900);
    let slow =
        OriginResource::new(content.clone()).rule(RequestMatcher::always(), faults::body_rate(900));
    let origin = shelf(1).resource("/slow", slow).start().await;
    let mut lot = BatchCase::new();
    lot.options.body_timeout = Duration::ZERO;
    lot.client.stall_timeout = LIMIT;
    // What is begun again too often would fail.
    lot.get.retry.retries = 1;
    let ran = lot.get([origin.url("/slow")]).await;
    assert_eq!(ran.counts(), (1, 0, 0), "{:?}", ran.summary.failure_groups);
    lot.assert_file("slow", &content);
    assert_eq!(lot.listing(), ["slow"]);
}

/// A redirect to a place that takes what it signed for some requests only, and a host that means its 403s.
#[tokio::test(flavor = "multi_thread")]
async fn a16_a_signature_that_expired_is_renewed_by_the_first_url() {
    let origin = (0..60).fold(Origin::builder(), |origin, n| {
        origin.resource(
            &format!("/denied{n}"),
            OriginResource::new(small(1)).rule(RequestMatcher::always(), faults::status(403)),
        )
    });
    // Each place answers 403 to the first request: what the first redirect signed has expired.
    let far = (0..30).fold(Origin::builder(), |origin, n| {
        let resource = OriginResource::new(small(n));
        origin.resource(
            &format!("/{n}"),
            resource.rule(RequestMatcher::first(1), faults::status(403)),
        )
    });
    let far = far.start().await;
    let origin = (0..30).fold(origin, |origin, n| {
        let to = faults::redirect(302, far.url(&format!("/{n}")));
        origin.resource(
            &format!("/{n}"),
            OriginResource::new(small(n)).rule(RequestMatcher::always(), to),
        )
    });
    let origin = origin.start().await;
    let lot = BatchCase::new();
    // First it is learnt that asking this host again is of no use.
    let denied = (0..60).map(|n| origin.url(&format!("/denied{n}")));
    let urls = denied.chain((0..30).map(|n| origin.url(&format!("/{n}"))));
    let ran = lot.get(urls).await;
    assert_eq!(
        ran.counts(),
        (30, 0, 60),
        "{:?}",
        ran.summary.failure_groups
    );
    for number in 0..30 {
        lot.assert_file(&number.to_string(), &small(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_a_signature_that_expired_in_the_wait_for_a_connection_is_renewed() {
    // One connection at a time to the place that delivers, and the first signature of each file is good for one request.
    let far = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&far);
    let stale = move |asked: &haul_lab::RecordedRequest, reply: &mut haul_lab::OriginResponse| {
        // Whoever comes with one that was shown before comes too late.
        let again = !seen.lock().unwrap().insert(asked.target.clone());
        if again && asked.target.ends_with("-0") {
            faults::status(403)(asked, reply);
        }
    };
    let store = (0..16).fold(Origin::builder(), |origin, n| {
        let resource = OriginResource::new(ResourceContent::random(n, 60_000));
        let resource = resource
            .rule(RequestMatcher::always(), faults::body_rate(600_000))
            .rule(RequestMatcher::always(), stale.clone());
        origin.resource(&format!("/{n}"), resource)
    });
    // It is known to mean its 403s, too.
    let store = (0..30).fold(store, |store, n| {
        let denied =
            OriginResource::new(small(1)).rule(RequestMatcher::always(), faults::status(403));
        store.resource(&format!("/denied{n}"), denied)
    });
    let store = store.start().await;
    let origins = redirectors(&store).await;
    let mut lot = BatchCase::new();
    lot.get.connections = ConnectionCount::Fixed(1);
    let denied = (0..30).map(|n| store.url(&format!("/denied{n}")));
    let urls = (0..16).map(|n| origins[n % origins.len()].url(&format!("/{n}")));
    let ran = lot.get(denied.chain(urls)).await;
    assert_eq!(
        ran.counts(),
        (16, 0, 30),
        "{:?}",
        ran.summary.failure_groups
    );
    for number in 0..16 {
        lot.assert_file(
            &number.to_string(),
            &ResourceContent::random(number, 60_000),
        );
    }
    let asked = far.lock().unwrap().len();
    assert!(asked > 16, "none had to wait, so that nothing was shown");
}

/// Hosts that redirect each request to a store, with a signature of its own.
async fn redirectors(store: &Origin) -> Vec<Origin> {
    let mut origins = Vec::new();
    for host in 0..8 {
        let origin = (0..16).fold(Origin::builder(), |origin, n| {
            let to = store.url(&format!("/{n}"));
            let signed = move |asked: &haul_lab::RecordedRequest,
                               reply: &mut haul_lab::OriginResponse| {
                let to = format!("{to}?signed={host}-{}", asked.number_for_path);
                faults::redirect(302, to)(asked, reply);
            };
            let resource = OriginResource::new(small(1)).rule(RequestMatcher::always(), signed);
            origin.resource(&format!("/{n}"), resource)
        });
        origins.push(origin.start().await);
    }
    origins
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_body_that_breaks_is_begun_again_and_leaves_nothing() {
    let lot = BatchCase::new();
    let medium = ResourceContent::random(6, 450 << 10);
    let cut = OriginResource::new(medium.clone())
        .rule(RequestMatcher::first(2), faults::close_after(300 << 10));
    let origin = shelf(1).resource("/cut", cut).start().await;
    let ran = lot.get([origin.url("/cut")]).await;
    assert_eq!((ran.counts(), ran.row("/cut").attempts), ((1, 0, 0), 3));
    lot.assert_file("cut", &medium);
    assert_eq!(lot.listing(), ["cut"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_what_an_earlier_run_left_of_a_large_file_is_gone_on_with() {
    let lot = BatchCase::new();
    let large = ResourceContent::random(1, 3 << 20);
    let cut = OriginResource::new(large.clone()).rule(
        RequestMatcher::after_bytes_sent(2 << 20),
        faults::status(404),
    );
    let origin = shelf(1).resource("/large", cut).start().await;
    let ran = lot.get([origin.url("/large")]).await;
    assert_eq!(ran.counts(), (0, 0, 1));
    assert_eq!(lot.listing(), ["large.haul-journal", "large.haul-part"]);
    origin.replace("/large", OriginResource::new(large.clone()));
    let before = origin.bytes_sent();
    let ran = lot.get([origin.url("/large")]).await;
    assert_eq!(ran.counts(), (1, 0, 0));
    lot.assert_file("large", &large);
    assert!(
        origin.bytes_sent() - before < 2 << 20,
        "what was there came again"
    );
    assert_eq!(lot.listing(), ["large"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_into_directories_that_are_made() {
    let (lot, origin) = (BatchCase::new(), shelf(2).start().await);
    let entry = |(line, path): (u64, &str)| {
        let url = origin.url("/1").parse().unwrap();
        Ok(ListEntry {
            path: Some(path.into()),
            ..ListEntry::new(line, url)
        })
    };
    let entries: Vec<_> = (1..).zip(["a/b/c", "a/d"]).map(entry).collect();
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (2, 0, 0));
    lot.assert_file("a/b/c", &small(1));
    lot.assert_file("a/d", &small(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_asked_when_the_first_source_fails() {
    let (lot, bad, good) = (
        BatchCase::new(),
        shelf(1).start().await,
        shelf(9).start().await,
    );
    let url = |origin: &Origin, name: &str| origin.url(name).parse().unwrap();
    let nobody = format!("http://127.0.0.1:{}/8", free_port());
    let entries = ["/7", "/8"].map(|name| {
        Ok(ListEntry {
            mirrors: vec![nobody.parse().unwrap(), url(&good, name)],
            ..ListEntry::new(1, url(&bad, name))
        })
    });
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (2, 0, 0));
    lot.assert_file("7", &small(7));
    lot.assert_file("8", &small(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_asked_when_the_first_source_broke_twice() {
    for short in [true, false] {
        let mut lot = BatchCase::new();
        lot.get.retry.retries = 1000;
        let resource = OriginResource::new(small(8));
        let bad = match short {
            true => resource.rule(RequestMatcher::always(), faults::close_after(2)),
            false => resource.rule(RequestMatcher::always(), faults::reset_after(2)),
        };
        let bad = Origin::builder().resource("/8", bad).start().await;
        let good = shelf(9).start().await;
        let entry = ListEntry {
            mirrors: vec![good.url("/8").parse().unwrap()],
            ..ListEntry::new(1, bad.url("/8").parse().unwrap())
        };
        let ran = lot.run(Box::new([Ok(entry)].into_iter())).await;
        assert_eq!((ran.counts(), bad.requests().len()), ((1, 0, 0), 2));
        lot.assert_file("8", &small(8));
    }
}

/// The one that broke is still there, when all others have nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_broke_twice_is_asked_again_after_its_mirrors() {
    let resource =
        OriginResource::new(small(8)).rule(RequestMatcher::first(4), faults::close_after(2));
    let bad = Origin::builder().resource("/8", resource).start().await;
    let (lot, empty) = (BatchCase::new(), shelf(1).start().await);
    let entry = ListEntry {
        mirrors: vec![empty.url("/8").parse().unwrap()],
        ..ListEntry::new(1, bad.url("/8").parse().unwrap())
    };
    let ran = lot.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!((ran.counts(), bad.requests().len()), ((1, 0, 0), 5));
    assert_eq!(empty.requests().len(), 1);
    lot.assert_file("8", &small(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_of_two_versions_is_fetched_again_from_each_alone() {
    let (meant, other) = (
        ResourceContent::random(1, 2 << 20),
        ResourceContent::random(2, 2 << 20),
    );
    let serve = |content: &ResourceContent, tag| {
        let resource = OriginResource::without_validator(content.clone()).etag(tag);
        let origin = Origin::builder().resource("/large", resource);
        origin.rate_per_connection(1 << 20).start()
    };
    let (bad, good) = (serve(&other, "\"a\"").await, serve(&meant, "\"b\"").await);
    let entry = ListEntry {
        mirrors: vec![good.url("/large").parse().unwrap()],
        checksums: vec![format!("sha256:{}", meant.sha256()).parse().unwrap()],
        ..ListEntry::new(1, bad.url("/large").parse().unwrap())
    };
    let lot = BatchCase::new();
    let ran = lot.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 0));
    lot.assert_file("large", &meant);
    assert_eq!(lot.listing(), ["large"]);
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn c7_a_large_file_goes_into_a_directory_that_is_made() {
    let large = ResourceContent::random(1, 2 << 20);
    let origin = shelf(1)
        .resource("/deep/down/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.options.layout = haul_plan::PathLayout::Path;
    let ran = lot
        .get(["/0", "/deep/down/large"].map(|path| origin.url(path)))
        .await;
    assert_eq!(ran.counts(), (2, 0, 0));
    let host = lot.listing().remove(0);
    lot.assert_file(&format!("{host}/deep/down/large"), &large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_a_host_that_says_403_to_more_than_four_at_once_is_learnt() {
    let origin = (0..120).fold(Origin::builder(), |origin, number| {
        let crowded = OriginResource::new(small(number)).rule(
            RequestMatcher::above_open_connections(4),
            faults::status(403),
        );
        origin.resource(&format!("/{number}"), crowded)
    });
    let origin = origin.start().await;
    let mut lot = BatchCase::new();
    lot.get.connections = ConnectionCount::Auto { max: 128 };
    lot.get.retry.base_delay = Duration::from_millis(20);
    let ran = lot
        .get((0..120).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(ran.counts(), (120, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_403_that_is_meant_is_asked_again_a_few_times_for_all_jobs_together() {
    let origin = (0..50).fold(Origin::builder(), |origin, number| {
        let denied =
            OriginResource::new(small(number)).rule(RequestMatcher::always(), faults::status(403));
        origin.resource(&format!("/{number}"), denied)
    });
    let (lot, origin) = (BatchCase::new(), origin.start().await);
    let ran = lot.get((0..50).map(|n| origin.url(&format!("/{n}")))).await;
    assert_eq!(ran.counts(), (0, 0, 50));
    // Those that were under way until it was clear are asked again, too.
    assert!(origin.requests().len() < 90, "{}", origin.requests().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_asked_when_what_came_is_not_the_file_meant() {
    let (lot, bad, good) = (
        BatchCase::new(),
        shelf(9).start().await,
        shelf(9).start().await,
    );
    bad.replace("/8", OriginResource::new(small(7)));
    let entry = ListEntry {
        mirrors: vec![good.url("/8").parse().unwrap()],
        checksums: vec![format!("sha256:{}", small(8).sha256()).parse().unwrap()],
        ..ListEntry::new(1, bad.url("/8").parse().unwrap())
    };
    let ran = lot.run(Box::new([Ok(entry)].into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 0));
    lot.assert_file("8", &small(8));
    assert_eq!(lot.listing(), ["8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_more_than_expected_is_not_fetched_to_its_end() {
    let endless = OriginResource::new(ResourceContent::random(1, 64 << 20))
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::chunked);
    let origin = Origin::builder()
        .resource("/endless", endless)
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.client.stall_timeout = LIMIT;
    lot.get.expected_content.max_length = Some(1 << 20);
    let ran = lot.get([origin.url("/endless")]).await;
    assert_eq!(ran.counts(), (0, 0, 1));
    assert_eq!(ran.row("/endless").attempts, 1);
    assert!(origin.bytes_sent() < 48 << 20);
}

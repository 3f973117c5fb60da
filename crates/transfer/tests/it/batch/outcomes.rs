//! How jobs end: each in one row, and a failed job does not affect the others.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::Checksum;
use haul_transfer::ErrorClass;
use haul_transfer::batch::{FailureGroup, HostRequestLimit};
use haul_transfer::list::{DownloadList, ListEntry};
use haul_transfer::manifest::JobRowState;

use super::{BatchCase, origin_with_files, small_content};

#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_in_place_and_has_a_row() {
    let (mut case, origin) = (BatchCase::new(), origin_with_files(300).start().await);
    case.options.dispatch.per_host = HostRequestLimit::Auto { max: 4 };
    let run = case
        .download((0..300).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (300, 0, 0));
    assert_eq!((run.summary.listed, run.rows.len()), (300, 300));
    assert_eq!(case.listing().len(), 300, "there are no other files");
    for (number, row) in (0..).zip(&run.rows) {
        case.assert_file(&number.to_string(), &small_content(number));
        assert_eq!(row.line, Some(number + 1));
        assert_eq!(
            (row.state, row.bytes),
            (JobRowState::Done, small_content(number).length())
        );
        assert_eq!(
            (row.status, row.attempts),
            (Some(if row.bytes == 0 { 416 } else { 206 }), 1)
        );
        assert_eq!(row.etag.as_deref(), Some("\"v1\""));
    }
    let connections = origin.connection_count();
    assert!(
        connections <= 4,
        "{connections} connections, but the limit is four"
    );
    assert_eq!(origin.requests().len(), 300, "one request each");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_groups_smaller_than_a_flush_cause_no_deadlock() {
    // As with a low limit of open files.
    let (mut case, origin) = (BatchCase::new(), origin_with_files(200).start().await);
    case.options.commit_group.max_files = 4;
    let run = case
        .download((0..200).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (200, 0, 0));
}

/// A response that broke off counts as fetched, and not as a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_counts_the_bytes_of_files_and_those_of_its_list() {
    let cut = OriginResource::new(ResourceContent::random(1, 5000))
        .rule(RequestMatcher::first(1), faults::close_after(3000));
    let large = OriginResource::new(ResourceContent::random(2, 2 << 20));
    let gone = OriginResource::new(ResourceContent::random(3, 700))
        .rule(RequestMatcher::always(), faults::status(410));
    let origin = Origin::builder()
        .resource("/cut", cut)
        .resource("/large", large)
        .resource("/gone", gone)
        .start()
        .await;
    let entries = |sizes: [Option<u64>; 3]| {
        let names = (1..).zip(["cut", "large", "gone"]).zip(sizes);
        let entries = names.map(|((line, name), size)| {
            let url = origin.url(&format!("/{name}")).parse().unwrap();
            Ok(ListEntry {
                size,
                ..ListEntry::new(line, url)
            })
        });
        Box::new(entries.collect::<Vec<_>>().into_iter())
    };
    let sizes = [Some(5000), Some(2 << 20), Some(700)];
    let summary = BatchCase::new().run(entries(sizes)).await.summary;
    assert_eq!((summary.done, summary.failed), (2, 1));
    assert_eq!(summary.bytes, 5000 + (2 << 20));
    assert_eq!(summary.fetched, 3000 + 5000 + (2 << 20));
    assert_eq!(summary.planned_bytes, Some(5700 + (2 << 20)));
    assert_eq!(summary.ended_bytes, 5700 + (2 << 20));
    let some = [Some(5000), None, Some(700)];
    let summary = BatchCase::new().run(entries(some)).await.summary;
    assert_eq!(summary.planned_bytes, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_transient_failures_are_retried_and_others_are_grouped_by_cause() {
    let case = BatchCase::new();
    let broken = |rule| OriginResource::new(small_content(7)).rule(RequestMatcher::always(), rule);
    let origin = origin_with_files(20)
        .resource(
            "/late",
            OriginResource::new(small_content(5))
                .rule(RequestMatcher::first(2), faults::status(500)),
        )
        .resource(
            "/cut",
            OriginResource::new(small_content(6))
                .rule(RequestMatcher::first(1), faults::reset_after(10)),
        )
        .resource("/down", broken(faults::status(500)))
        .resource(
            "/gone",
            OriginResource::new(small_content(7))
                .rule(RequestMatcher::always(), faults::status(410)),
        )
        .start()
        .await;
    let names = ["late", "cut", "down", "gone", "missing", "missing2"];
    let urls = (0..20)
        .map(|n| n.to_string())
        .chain(names.map(str::to_owned));
    let run = case
        .download(urls.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (22, 0, 4));
    assert_eq!((run.row("late").attempts, run.row("cut").attempts), (3, 2));
    case.assert_file("late", &small_content(5));
    case.assert_file("cut", &small_content(6));
    assert_eq!(case.listing().len(), 22);
    let causes: Vec<_> = run
        .summary
        .failure_groups
        .iter()
        .map(|c| (c.cause.as_str(), c.count))
        .collect();
    assert_eq!(
        causes,
        [
            ("404 Not Found", 2),
            ("410 Gone", 1),
            ("500 Internal Server Error", 1)
        ]
    );
    let FailureGroup { example, class, .. } = &run.summary.failure_groups[0];
    assert!(example.contains("/missing"), "{example}");
    assert_eq!(*class, ErrorClass::Network);
    assert!(run.row("down").attempts > 3 && run.row("gone").attempts == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_a_file_with_a_wrong_digest_is_renamed() {
    let case = BatchCase::new();
    let origin = origin_with_files(3).start().await;
    let entry = |(name, digest): (u64, String)| {
        let url = origin.url(&format!("/{name}")).parse().unwrap();
        let checksum: Checksum = format!("sha256:{digest}").parse().unwrap();
        Ok(ListEntry {
            checksums: vec![checksum],
            ..ListEntry::new(name, url)
        })
    };
    let digests = [small_content(1).sha256(), small_content(1).sha256()];
    let entries: Vec<_> = (1..).zip(digests).map(entry).collect();
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 1));
    assert_eq!(run.row("/1").checksums[0].1, small_content(1).sha256());
    assert!(run.error("/2").contains(&small_content(2).sha256()));
    assert_eq!(case.listing(), ["1", "2.haul-bad-checksum"]);
    case.assert_file("2.haul-bad-checksum", &small_content(2));
    assert_eq!(
        run.summary.failure_groups[0].class,
        ErrorClass::Verification
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a26_a_digest_that_the_origin_announces_is_checked() {
    let case = BatchCase::new();
    let wrong = faults::wrong_digest(faults::DigestHeader::Content);
    let bad = OriginResource::new(small_content(9)).rule(RequestMatcher::always(), wrong);
    let origin = Origin::builder().resource("/bad", bad).start().await;
    let run = case.download([origin.url("/bad")]).await;
    assert_eq!(run.counts(), (0, 0, 1));
    assert_eq!(case.listing(), ["bad.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_a_bad_line_is_a_failed_row_with_its_number() {
    let case = BatchCase::new();
    let origin = origin_with_files(2).start().await;
    let text = format!("{}\nnot a URL\n{}\n", origin.url("/0"), origin.url("/1"));
    let list = DownloadList::open(Box::new(std::io::Cursor::new(text)), None, "the list");
    let run = case.run(Box::new(list)).await;
    assert_eq!(run.counts(), (2, 0, 1));
    let row = &run.rows[1];
    assert_eq!((row.line, row.state), (Some(2), JobRowState::Failed));
    assert_eq!(run.summary.failure_groups[0].class, ErrorClass::Usage);
    assert_eq!(run.summary.listed, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_body_longer_than_its_range_is_refused() {
    let mut case = BatchCase::new();
    // The body takes longer to make than the usual timeout.
    case.client.stall_timeout = crate::harness::LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let long = OriginResource::new(ResourceContent::random(3, 5000));
    let endless = OriginResource::new(ResourceContent::random(3, 5000));
    let origin = origin_with_files(1)
        .resource(
            "/long",
            long.rule(RequestMatcher::with_range(), faults::extra_bytes(10)),
        )
        .resource(
            "/endless",
            endless
                .rule(RequestMatcher::with_range(), faults::extra_bytes(64 << 20))
                .rule(RequestMatcher::with_range(), faults::chunked),
        )
        .start()
        .await;
    let names = ["long", "endless", "0"];
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (3, 0, 0));
    for name in ["long", "endless"] {
        case.assert_file(name, &ResourceContent::random(3, 5000));
        assert!(run.row(name).attempts > 1);
    }
    assert!(
        origin.bytes_sent() < 64 << 20,
        "a body without end was read on"
    );
}

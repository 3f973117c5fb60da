//! How jobs end: each of them in one row, and one that failed harms no other.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::Checksum;
use haul_transfer::ErrorClass;
use haul_transfer::batch::FailureGroup;
use haul_transfer::list::{DownloadList, ListEntry};
use haul_transfer::manifest::RowState;

use super::{BatchCase, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_in_its_place_and_has_a_row() {
    let (lot, origin) = (BatchCase::new(), shelf(300).start().await);
    let ran = lot
        .get((0..300).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(ran.counts(), (300, 0, 0));
    assert_eq!((ran.summary.listed, ran.rows.len()), (300, 300));
    assert_eq!(lot.listing().len(), 300, "nothing lies beside the files");
    for (number, row) in (0..).zip(&ran.rows) {
        lot.assert_file(&number.to_string(), &small(number));
        assert_eq!(row.line, Some(number + 1));
        assert_eq!(
            (row.state, row.bytes),
            (RowState::Done, small(number).length())
        );
        assert_eq!(
            (row.status, row.attempts),
            (Some(if row.bytes == 0 { 416 } else { 206 }), 1)
        );
        assert_eq!(row.etag.as_deref(), Some("\"v1\""));
    }
    let most = origin.connection_count();
    assert!(most <= 4, "{most} connections where four may be");
    assert_eq!(origin.requests().len(), 300, "one request each");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_are_smaller_than_an_armful_hold_nothing_up() {
    // As where few files may be open.
    let (mut lot, origin) = (BatchCase::new(), shelf(200).start().await);
    lot.options.commit_group.max_files = 4;
    let ran = lot
        .get((0..200).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(ran.counts(), (200, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_what_may_heal_is_tried_again_and_the_rest_is_told_by_cause() {
    let lot = BatchCase::new();
    let broken = |rule| OriginResource::new(small(7)).rule(RequestMatcher::always(), rule);
    let origin = shelf(20)
        .resource(
            "/late",
            OriginResource::new(small(5)).rule(RequestMatcher::first(2), faults::status(500)),
        )
        .resource(
            "/cut",
            OriginResource::new(small(6)).rule(RequestMatcher::first(1), faults::reset_after(10)),
        )
        .resource("/down", broken(faults::status(500)))
        .resource(
            "/gone",
            OriginResource::new(small(7)).rule(RequestMatcher::always(), faults::status(410)),
        )
        .start()
        .await;
    let names = ["late", "cut", "down", "gone", "missing", "missing2"];
    let urls = (0..20)
        .map(|n| n.to_string())
        .chain(names.map(str::to_owned));
    let ran = lot
        .get(urls.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (22, 0, 4));
    assert_eq!((ran.row("late").attempts, ran.row("cut").attempts), (3, 2));
    lot.assert_file("late", &small(5));
    lot.assert_file("cut", &small(6));
    assert_eq!(lot.listing().len(), 22);
    let causes = ran
        .summary
        .failure_groups
        .iter()
        .map(|c| (c.cause.as_str(), c.count));
    let causes: Vec<_> = causes.collect();
    assert_eq!(
        causes,
        [
            ("404 Not Found", 2),
            ("410 Gone", 1),
            ("500 Internal Server Error", 1)
        ]
    );
    let FailureGroup { example, class, .. } = &ran.summary.failure_groups[0];
    assert!(example.contains("/missing"), "{example}");
    assert_eq!(*class, ErrorClass::Network);
    assert!(ran.row("down").attempts > 3 && ran.row("gone").attempts == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_bytes_that_are_not_the_file_meant_are_set_aside() {
    let lot = BatchCase::new();
    let origin = shelf(3).start().await;
    let entry = |(name, digest): (u64, String)| {
        let url = origin.url(&format!("/{name}")).parse().unwrap();
        let checksum: Checksum = format!("sha256:{digest}").parse().unwrap();
        Ok(ListEntry {
            checksums: vec![checksum],
            ..ListEntry::new(name, url)
        })
    };
    let digests = [small(1).sha256(), small(1).sha256()];
    let entries: Vec<_> = (1..).zip(digests).map(entry).collect();
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 1));
    assert_eq!(ran.row("/1").checksums[0].1, small(1).sha256());
    assert!(ran.error("/2").contains(&small(2).sha256()));
    assert_eq!(lot.listing(), ["1", "2.haul-bad-checksum"]);
    lot.assert_file("2.haul-bad-checksum", &small(2));
    assert_eq!(
        ran.summary.failure_groups[0].class,
        ErrorClass::Verification
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a26_a_digest_that_the_origin_announces_is_checked() {
    let lot = BatchCase::new();
    let wrong = faults::wrong_digest(faults::DigestHeader::Content);
    let bad = OriginResource::new(small(9)).rule(RequestMatcher::always(), wrong);
    let origin = Origin::builder().resource("/bad", bad).start().await;
    let ran = lot.get([origin.url("/bad")]).await;
    assert_eq!(ran.counts(), (0, 0, 1));
    assert_eq!(lot.listing(), ["bad.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_a_bad_line_is_a_failed_row_with_its_number() {
    let lot = BatchCase::new();
    let origin = shelf(2).start().await;
    let text = format!("{}\nnot a URL\n{}\n", origin.url("/0"), origin.url("/1"));
    let list = DownloadList::open(Box::new(std::io::Cursor::new(text)), None, "the list");
    let ran = lot.run(Box::new(list)).await;
    assert_eq!(ran.counts(), (2, 0, 1));
    let row = &ran.rows[1];
    assert_eq!((row.line, row.state), (Some(2), RowState::Failed));
    assert_eq!(ran.summary.failure_groups[0].class, ErrorClass::Usage);
    assert_eq!(ran.summary.listed, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_part_longer_than_it_says_is_not_the_file() {
    let mut lot = BatchCase::new();
    // So much is not made in a moment.
    lot.client.stall_timeout = crate::harness::LIMIT;
    let long = OriginResource::new(ResourceContent::random(3, 5000));
    let endless = OriginResource::new(ResourceContent::random(3, 5000));
    let origin = shelf(1)
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
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (3, 0, 0));
    for name in ["long", "endless"] {
        lot.assert_file(name, &ResourceContent::random(3, 5000));
        assert!(ran.row(name).attempts > 1);
    }
    assert!(
        origin.bytes_sent() < 64 << 20,
        "what is too much was read on and on"
    );
}

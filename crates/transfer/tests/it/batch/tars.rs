//! Archives in place of files where something goes wrong: kills, entries that are refused, bytes that are not those meant.

use std::path::PathBuf;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::list::ListEntry;

use super::kept::unpacked;
use super::{BatchCase, shelf, small};

/// A lot whose files go into an archive that the next run goes on with.
fn archived() -> BatchCase {
    BatchCase {
        tar: Some(("all.tar", None)),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    }
}

/// Where a large entry lies until it is in.
fn staged(lot: &BatchCase, path: &str) -> PathBuf {
    lot.path(&blake3::hash(path.as_bytes()).to_hex()[..32])
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_large_file_that_a_kill_left_without_a_row_is_fetched_again() {
    let large = ResourceContent::random(2, 2 << 20);
    let dated = OriginResource::new(large.clone()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/large", dated).start().await;
    for existing in [
        ExistingFilePolicy::Keep,
        ExistingFilePolicy::Overwrite,
        ExistingFilePolicy::Update,
    ] {
        let mut lot = archived();
        lot.get.existing_file = existing;
        // Of which version it is nobody knows any more; it is newer than the origin's.
        std::fs::write(staged(&lot, "large"), "an older version").unwrap();
        let ran = lot.get([origin.url("/large")]).await;
        assert_eq!(ran.counts(), (1, 0, 0), "{existing:?}: {:?}", ran.rows);
        assert!(unpacked(&lot, &["all.tar"])["large"] == large.to_vec());
        assert!(lot.listing().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_that_the_archive_refuses_leaves_nothing_behind() {
    let origin = Origin::builder()
        .resource(
            "/large",
            OriginResource::new(ResourceContent::random(2, 2 << 20)),
        )
        .resource("/1", OriginResource::new(small(1)))
        .start()
        .await;
    let lot = archived();
    let entry = |line, name: &str, path: Option<PathBuf>| {
        let url = origin.url(name).parse().unwrap();
        Ok(ListEntry {
            path,
            ..ListEntry::new(line, url)
        })
    };
    // Longer than an entry's name may be.
    let path = PathBuf::from("n/".repeat(2100) + "x");
    let entries = [entry(1, "/large", Some(path)), entry(2, "/1", None)];
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 1));
    assert!(ran.error("/large").contains("too long"));
    assert!(lot.listing().is_empty(), "{:?}", lot.listing());
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_wrong_bytes_of_an_entry_are_laid_nowhere() {
    let origin = Origin::builder()
        .resource("/wrong-small", OriginResource::new(small(7)))
        .resource(
            "/wrong-medium",
            OriginResource::new(ResourceContent::random(1, 400 << 10)),
        )
        .resource(
            "/wrong-large",
            OriginResource::new(ResourceContent::random(2, 2 << 20)),
        )
        .start()
        .await;
    let lot = archived();
    let entry = |(line, name): (u64, &str)| {
        let url = origin.url(name).parse().unwrap();
        Ok(ListEntry {
            checksums: vec![format!("md5:{}", "0".repeat(32)).parse().unwrap()],
            ..ListEntry::new(line, url)
        })
    };
    let names = ["/wrong-small", "/wrong-medium", "/wrong-large"];
    let entries: Vec<_> = (1..).zip(names).map(entry).collect();
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (0, 0, 3));
    assert!(lot.listing().is_empty(), "{:?}", lot.listing());
    for name in names {
        let aside = PathBuf::from(format!("{}.haul-bad-checksum", &name[1..]));
        assert!(!aside.exists(), "the working directory is no archive's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_finished_archive_is_gone_on_with() {
    let late = || OriginResource::new(small(9));
    let missing = OriginResource::new(small(9)).rule(RequestMatcher::always(), faults::status(404));
    for (size, names) in [
        (None, &["all.tar"][..]),
        (Some(1 << 20), &["all-000000.tar", "all-000001.tar"]),
    ] {
        let origin = shelf(5).resource("/late", missing.clone()).start().await;
        let lot = BatchCase {
            tar: Some(("all.tar", size)),
            ..archived()
        };
        let urls = || {
            let numbers = (0..5).map(|n| n.to_string());
            numbers
                .chain(["late".into()])
                .map(|name| origin.url(&format!("/{name}")))
        };
        assert_eq!(lot.get(urls()).await.counts(), (5, 0, 1));
        // As it is, then with what can be had now, then with nothing to do.
        assert_eq!(lot.get(urls()).await.counts(), (0, 0, 1));
        origin.replace("/late", late());
        assert_eq!(lot.get(urls()).await.counts(), (1, 0, 0));
        let ran = lot.get(urls()).await;
        assert_eq!((ran.counts(), ran.summary.done_earlier), ((0, 0, 0), 6));
        assert!(ran.summary.halted.is_none());
        let found = unpacked(&lot, names);
        assert_eq!(found.len(), 6);
        assert!(found["late"] == small(9).to_vec() && found["3"] == small(3).to_vec());
    }
}

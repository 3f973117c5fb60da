//! Archives in place of files when something goes wrong: kills, refused entries, wrong digests.

use std::path::PathBuf;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::list::ListEntry;

use super::manifests::archive_entries;
use super::{BatchCase, origin_with_files, small_content};

/// A batch that writes an archive and a manifest, so that the next run continues both.
fn archive_case() -> BatchCase {
    BatchCase {
        tar: Some(("all.tar", None)),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    }
}

/// Where a large entry is stored until it is in the archive.
fn staging_path(case: &BatchCase, path: &str) -> PathBuf {
    case.path(&blake3::hash(path.as_bytes()).to_hex()[..32])
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_large_file_without_a_row_is_fetched_again_after_a_kill() {
    let large = ResourceContent::random(2, 2 << 20);
    let dated = OriginResource::new(large.clone()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/large", dated).start().await;
    for existing in [
        ExistingFilePolicy::Keep,
        ExistingFilePolicy::Overwrite,
        ExistingFilePolicy::Update,
    ] {
        let mut case = archive_case();
        case.get.existing_file = existing;
        // Its version is unknown, and its date is newer than the origin's.
        std::fs::write(staging_path(&case, "large"), "an older version").unwrap();
        let run = case.download([origin.url("/large")]).await;
        assert_eq!(run.counts(), (1, 0, 0), "{existing:?}: {:?}", run.rows);
        assert!(archive_entries(&case, &["all.tar"])["large"] == large.to_vec());
        assert!(case.listing().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_that_the_archive_refuses_is_removed() {
    let origin = Origin::builder()
        .resource(
            "/large",
            OriginResource::new(ResourceContent::random(2, 2 << 20)),
        )
        .resource("/1", OriginResource::new(small_content(1)))
        .start()
        .await;
    let case = archive_case();
    let entry = |line, name: &str, path: Option<PathBuf>| {
        let url = origin.url(name).parse().unwrap();
        Ok(ListEntry {
            path,
            ..ListEntry::new(line, url)
        })
    };
    // Longer than the name of an entry may be.
    let path = PathBuf::from("n/".repeat(2100) + "x");
    let entries = [entry(1, "/large", Some(path)), entry(2, "/1", None)];
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 1));
    assert!(run.error("/large").contains("too long"));
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_an_entry_with_a_wrong_digest_is_kept_nowhere() {
    let origin = Origin::builder()
        .resource("/wrong-small", OriginResource::new(small_content(7)))
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
    let case = archive_case();
    let entry = |(line, name): (u64, &str)| {
        let url = origin.url(name).parse().unwrap();
        Ok(ListEntry {
            checksums: vec![format!("md5:{}", "0".repeat(32)).parse().unwrap()],
            ..ListEntry::new(line, url)
        })
    };
    let names = ["/wrong-small", "/wrong-medium", "/wrong-large"];
    let entries: Vec<_> = (1..).zip(names).map(entry).collect();
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (0, 0, 3));
    assert!(case.listing().is_empty(), "{:?}", case.listing());
    for name in names {
        let aside = PathBuf::from(format!("{}.haul-bad-checksum", &name[1..]));
        assert!(!aside.exists(), "nothing is left in the working directory");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_finished_archive_is_extended() {
    let late = || OriginResource::new(small_content(9));
    let missing =
        OriginResource::new(small_content(9)).rule(RequestMatcher::always(), faults::status(404));
    for (size, names) in [
        (None, &["all.tar"][..]),
        (Some(1 << 20), &["all-000000.tar", "all-000001.tar"]),
    ] {
        let origin = origin_with_files(5)
            .resource("/late", missing.clone())
            .start()
            .await;
        let case = BatchCase {
            tar: Some(("all.tar", size)),
            ..archive_case()
        };
        let urls = || {
            let numbers = (0..5).map(|n| n.to_string());
            numbers
                .chain(["late".into()])
                .map(|name| origin.url(&format!("/{name}")))
        };
        assert_eq!(case.download(urls()).await.counts(), (5, 0, 1));
        // First with a missing file, then with that file, then with nothing to do.
        assert_eq!(case.download(urls()).await.counts(), (0, 0, 1));
        origin.replace("/late", late());
        assert_eq!(case.download(urls()).await.counts(), (1, 0, 0));
        let run = case.download(urls()).await;
        assert_eq!((run.counts(), run.summary.done_earlier), ((0, 0, 0), 6));
        assert!(run.summary.stopped.is_none());
        let found = archive_entries(&case, names);
        assert_eq!(found.len(), 6);
        assert!(
            found["late"] == small_content(9).to_vec() && found["3"] == small_content(3).to_vec()
        );
    }
}

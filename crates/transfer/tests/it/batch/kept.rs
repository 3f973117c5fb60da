//! What a batch writes beside its files: the manifest that the next run goes on with, and archives in place of files.

use std::collections::BTreeMap;
use std::io::Read;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::{Manifest, RowState};

use super::{BatchCase, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn c6_done_rows_are_not_asked_for_again_and_failed_ones_are() {
    let flaky = OriginResource::new(small(40));
    let origin = shelf(30).resource("/flaky", flaky).start().await;
    for name in ["m.jsonl", "m.csv"] {
        let mut lot = BatchCase {
            manifest: Some(name),
            ..BatchCase::new()
        };
        lot.get.retry.retries = 3;
        let names = || (0..30).map(|n| n.to_string()).chain(["flaky".into()]);
        let urls = || names().map(|name| origin.url(&format!("/{name}")));
        origin.replace(
            "/flaky",
            OriginResource::new(small(40)).rule(RequestMatcher::always(), faults::status(500)),
        );
        let ran = lot.get(urls()).await;
        assert_eq!(ran.counts(), (30, 0, 1));
        origin.replace("/flaky", OriginResource::new(small(40)));
        let before = origin.requests().len();
        let ran = lot.get(urls()).await;
        assert_eq!((ran.counts(), ran.summary.done_earlier), ((1, 0, 0), 30));
        assert_eq!(origin.requests().len() - before, 1);
        lot.assert_file("flaky", &small(40));
        let ran = lot.get(urls()).await;
        assert_eq!((ran.counts(), ran.summary.done_earlier), ((0, 0, 0), 31));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_batch_that_was_stopped_goes_on_with_its_manifest() {
    let lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let stop = lot.stop.clone();
    let enough =
        OriginResource::new(small(3)).rule(RequestMatcher::first(1), move |_, _| stop.cancel());
    let origin = shelf(300).resource("/enough", enough).start().await;
    let names = || {
        (0..150)
            .map(|n| n.to_string())
            .chain(["enough".into()])
            .chain((150..300).map(|n| n.to_string()))
    };
    let urls = || names().map(|name| origin.url(&format!("/{name}")));
    let first = lot.get(urls()).await;
    let lot = BatchCase {
        stop: Default::default(),
        ..lot
    };
    let asked = origin.requests().len();
    let second = lot.get(urls()).await;
    assert_eq!(second.summary.done_earlier, first.summary.done);
    assert_eq!(first.summary.done + second.summary.done, 301);
    assert_eq!(
        origin.requests().len() - asked,
        usize::try_from(second.summary.done).unwrap()
    );
    for number in 0..300 {
        lot.assert_file(&number.to_string(), &small(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_asks_with_the_tag_of_the_manifest() {
    let mut lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let dated = OriginResource::new(small(3)).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/f", dated).start().await;
    assert_eq!(lot.get([origin.url("/f")]).await.counts(), (1, 0, 0));
    lot.get.existing_file = ExistingFilePolicy::Update;
    let ran = lot.get([origin.url("/f")]).await;
    assert_eq!((ran.counts(), ran.row("/f").status), ((0, 1, 0), Some(304)));
    let asked = origin.requests();
    let tag = asked
        .last()
        .unwrap()
        .header("if-none-match")
        .map(str::to_owned);
    assert_eq!(tag.as_deref(), Some("\"v1\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_done_row_whose_file_is_gone_is_no_reason_to_skip() {
    let origin = shelf(5).start().await;
    let urls = || (0..5).map(|n| origin.url(&format!("/{n}")));
    let mut lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    assert_eq!(lot.get(urls()).await.counts(), (5, 0, 0));
    std::fs::remove_file(lot.path("3")).unwrap();
    for existing in [ExistingFilePolicy::Keep, ExistingFilePolicy::Overwrite] {
        lot.get.existing_file = existing;
        let ran = lot.get(urls()).await;
        assert_eq!((ran.counts(), ran.summary.done_earlier), ((1, 0, 0), 4));
        lot.assert_file("3", &small(3));
        std::fs::remove_file(lot.path("3")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_takes_the_place_of_the_manifest() {
    let origin = shelf(2)
        .resource("/m.jsonl", OriginResource::new(small(5)))
        .resource("/link", OriginResource::new(small(6)))
        .start()
        .await;
    for existing in [
        ExistingFilePolicy::Keep,
        ExistingFilePolicy::Overwrite,
        ExistingFilePolicy::Update,
    ] {
        let mut lot = BatchCase {
            manifest: Some("m.jsonl"),
            ..BatchCase::new()
        };
        // One job is named like it, in its directory; the name of another leads to it.
        lot.get.existing_file = existing;
        std::os::unix::fs::symlink(lot.beside.path().join("m.jsonl"), lot.path("link")).unwrap();
        let entry = |line, name: &str| {
            let url = origin.url(&format!("/{name}")).parse().unwrap();
            let directory = (name == "m.jsonl").then(|| lot.beside.path().to_owned());
            Ok(ListEntry {
                directory,
                ..ListEntry::new(line, url)
            })
        };
        let names = (1..).zip(["0", "m.jsonl", "link", "1"]);
        let entries: Vec<_> = names.map(|(line, name)| entry(line, name)).collect();
        let ran = lot.run(Box::new(entries.into_iter())).await;
        assert_eq!(ran.counts(), (2, 0, 2), "{existing:?}");
        for name in ["/m.jsonl", "/link"] {
            let error = ran.error(name);
            assert!(
                error.contains("it is the manifest of this batch"),
                "{error}"
            );
        }
        let (_manifest, past) = Manifest::open(&lot.beside.path().join("m.jsonl")).unwrap();
        assert_eq!((past.done_count(), past.failed_count()), (2, 2));
    }
}

/// What an archive holds, by name.
pub(super) fn unpacked(lot: &BatchCase, names: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names {
        let file = std::fs::File::open(lot.beside.path().join(name)).unwrap();
        for entry in tar::Archive::new(file).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            assert!(found.insert(name, bytes).is_none(), "an entry stands twice");
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_all_sizes_become_entries_of_an_archive() {
    let lot = BatchCase {
        tar: Some(("all.tar", None)),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let (medium, large) = (
        ResourceContent::random(1, 400 << 10),
        ResourceContent::random(2, 2 << 20),
    );
    let origin = shelf(60)
        .resource("/medium", OriginResource::new(medium.clone()))
        .resource("/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let names =
        (0..60)
            .map(|n| n.to_string())
            .chain(["medium".into(), "large".into(), "missing".into()]);
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (62, 0, 1));
    assert!(
        lot.listing().is_empty(),
        "nothing is left of what was staged"
    );
    let found = unpacked(&lot, &["all.tar"]);
    assert_eq!(found.len(), 62);
    for number in 0..60 {
        assert!(found[&number.to_string()] == small(number).to_vec());
    }
    assert!(found["medium"] == medium.to_vec() && found["large"] == large.to_vec());
    let placed = ran
        .rows
        .iter()
        .filter(|row| row.state == RowState::Done)
        .all(|row| row.shard.is_some());
    assert!(placed, "rows say where in the archive");
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_shards_are_gone_on_with() {
    let lot = BatchCase {
        tar: Some(("s.tar", Some(64 << 10))),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let stop = lot.stop.clone();
    let enough =
        OriginResource::new(small(3)).rule(RequestMatcher::first(1), move |_, _| stop.cancel());
    let origin = shelf(100).resource("/enough", enough).start().await;
    let names = || {
        (0..50)
            .map(|n| n.to_string())
            .chain(["enough".into()])
            .chain((50..100).map(|n| n.to_string()))
    };
    let urls = || names().map(|name| origin.url(&format!("/{name}")));
    let first = lot.get(urls()).await;
    assert!(first.summary.done < 101);
    let lot = BatchCase {
        stop: Default::default(),
        ..lot
    };
    let second = lot.get(urls()).await;
    assert_eq!(second.summary.done_earlier + second.summary.done, 101);
    let mut names: Vec<_> = std::fs::read_dir(lot.beside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".tar"));
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(names.len() > 3, "{names:?}");
    let found = unpacked(&lot, &names);
    assert_eq!(found.len(), 101);
    for number in 0..100 {
        assert!(found[&number.to_string()] == small(number).to_vec());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_urls_that_differ_in_what_is_masked_are_two_jobs() {
    let lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let origin = shelf(2).start().await;
    let url = |key: &str| origin.url(&format!("/1?token={key}"));
    let first = lot.get([url("A")]).await;
    assert_eq!(first.counts(), (1, 0, 0));
    assert!(
        !first.rows[0].url.contains("token=A"),
        "{}",
        first.rows[0].url
    );
    let second = lot.get([url("A"), url("B")]).await;
    assert_eq!(
        (second.summary.done_earlier, second.counts()),
        (1, (1, 0, 0))
    );
    assert_eq!(lot.listing().len(), 2);
}

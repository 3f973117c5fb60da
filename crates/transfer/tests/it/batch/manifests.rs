//! What a batch writes beside its files: the manifest, with which the next run continues, and archives in place of
//! files.

use std::collections::BTreeMap;
use std::io::Read;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::{JobRowState, Manifest};

use super::{BatchCase, origin_with_files, small_content};

#[tokio::test(flavor = "multi_thread")]
async fn c6_done_jobs_are_skipped_and_failed_ones_run_again() {
    let flaky = OriginResource::new(small_content(40));
    let origin = origin_with_files(30)
        .resource("/flaky", flaky)
        .start()
        .await;
    for name in ["m.jsonl", "m.csv"] {
        let mut case = BatchCase {
            manifest: Some(name),
            ..BatchCase::new()
        };
        case.get.retry.retries = 3;
        let names = || (0..30).map(|n| n.to_string()).chain(["flaky".into()]);
        let urls = || names().map(|name| origin.url(&format!("/{name}")));
        origin.replace(
            "/flaky",
            OriginResource::new(small_content(40))
                .rule(RequestMatcher::always(), faults::status(500)),
        );
        let run = case.download(urls()).await;
        assert_eq!(run.counts(), (30, 0, 1));
        origin.replace("/flaky", OriginResource::new(small_content(40)));
        let before = origin.requests().len();
        let run = case.download(urls()).await;
        assert_eq!((run.counts(), run.summary.done_earlier), ((1, 0, 0), 30));
        assert_eq!(origin.requests().len() - before, 1);
        case.assert_file("flaky", &small_content(40));
        let run = case.download(urls()).await;
        assert_eq!((run.counts(), run.summary.done_earlier), ((0, 0, 0), 31));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_stopped_batch_continues_with_its_manifest() {
    let case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let stop = case.stop.clone();
    let stopping = OriginResource::new(small_content(3))
        .rule(RequestMatcher::first(1), move |_, _| stop.cancel());
    let origin = origin_with_files(300)
        .resource("/stopping", stopping)
        .start()
        .await;
    let names = || {
        (0..150)
            .map(|n| n.to_string())
            .chain(["stopping".into()])
            .chain((150..300).map(|n| n.to_string()))
    };
    let urls = || names().map(|name| origin.url(&format!("/{name}")));
    let first = case.download(urls()).await;
    let case = BatchCase {
        stop: Default::default(),
        ..case
    };
    let requests_before = origin.requests().len();
    let second = case.download(urls()).await;
    assert_eq!(second.summary.done_earlier, first.summary.done);
    assert_eq!(first.summary.done + second.summary.done, 301);
    assert_eq!(
        origin.requests().len() - requests_before,
        usize::try_from(second.summary.done).unwrap()
    );
    for number in 0..300 {
        case.assert_file(&number.to_string(), &small_content(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_sends_the_tag_of_the_manifest() {
    let mut case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let dated =
        OriginResource::new(small_content(3)).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/f", dated).start().await;
    assert_eq!(case.download([origin.url("/f")]).await.counts(), (1, 0, 0));
    case.get.existing_file = ExistingFilePolicy::Update;
    let run = case.download([origin.url("/f")]).await;
    assert_eq!((run.counts(), run.row("/f").status), ((0, 1, 0), Some(304)));
    let requests = origin.requests();
    let tag = requests
        .last()
        .unwrap()
        .header("if-none-match")
        .map(str::to_owned);
    assert_eq!(tag.as_deref(), Some("\"v1\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_done_job_whose_file_is_gone_runs_again() {
    let origin = origin_with_files(5).start().await;
    let urls = || (0..5).map(|n| origin.url(&format!("/{n}")));
    let mut case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    assert_eq!(case.download(urls()).await.counts(), (5, 0, 0));
    std::fs::remove_file(case.path("3")).unwrap();
    for existing in [ExistingFilePolicy::Keep, ExistingFilePolicy::Overwrite] {
        case.get.existing_file = existing;
        let run = case.download(urls()).await;
        assert_eq!((run.counts(), run.summary.done_earlier), ((1, 0, 0), 4));
        case.assert_file("3", &small_content(3));
        std::fs::remove_file(case.path("3")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_replaces_the_manifest() {
    let origin = origin_with_files(2)
        .resource("/m.jsonl", OriginResource::new(small_content(5)))
        .resource("/link", OriginResource::new(small_content(6)))
        .start()
        .await;
    for existing in [
        ExistingFilePolicy::Keep,
        ExistingFilePolicy::Overwrite,
        ExistingFilePolicy::Update,
    ] {
        let mut case = BatchCase {
            manifest: Some("m.jsonl"),
            ..BatchCase::new()
        };
        // One job has the manifest's name in its directory; the name of another is a link to it.
        case.get.existing_file = existing;
        std::os::unix::fs::symlink(case.outer_dir.path().join("m.jsonl"), case.path("link"))
            .unwrap();
        let entry = |line, name: &str| {
            let url = origin.url(&format!("/{name}")).parse().unwrap();
            let directory = (name == "m.jsonl").then(|| case.outer_dir.path().to_owned());
            Ok(ListEntry {
                directory,
                ..ListEntry::new(line, url)
            })
        };
        let names = (1..).zip(["0", "m.jsonl", "link", "1"]);
        let entries: Vec<_> = names.map(|(line, name)| entry(line, name)).collect();
        let run = case.run(Box::new(entries.into_iter())).await;
        assert_eq!(run.counts(), (2, 0, 2), "{existing:?}");
        for name in ["/m.jsonl", "/link"] {
            let error = run.error(name);
            assert!(
                error.contains("it is the manifest of this batch"),
                "{error}"
            );
        }
        let (_manifest, previous_runs) =
            Manifest::open(&case.outer_dir.path().join("m.jsonl")).unwrap();
        assert_eq!(previous_runs.done_count(), 2);
    }
}

pub(super) fn archive_entries(case: &BatchCase, names: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names {
        let file = std::fs::File::open(case.outer_dir.path().join(name)).unwrap();
        for entry in tar::Archive::new(file).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            assert!(
                found.insert(name, bytes).is_none(),
                "an entry is there twice"
            );
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_all_sizes_become_entries_of_an_archive() {
    let case = BatchCase {
        tar: Some(("all.tar", None)),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let (medium, large) = (
        ResourceContent::random(1, 400 << 10),
        ResourceContent::random(2, 2 << 20),
    );
    let origin = origin_with_files(60)
        .resource("/medium", OriginResource::new(medium.clone()))
        .resource("/large", OriginResource::new(large.clone()))
        .start()
        .await;
    let names =
        (0..60)
            .map(|n| n.to_string())
            .chain(["medium".into(), "large".into(), "missing".into()]);
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (62, 0, 1));
    assert!(case.listing().is_empty(), "the staging directory is empty");
    let found = archive_entries(&case, &["all.tar"]);
    assert_eq!(found.len(), 62);
    for number in 0..60 {
        assert!(found[&number.to_string()] == small_content(number).to_vec());
    }
    assert!(found["medium"] == medium.to_vec() && found["large"] == large.to_vec());
    let placed = run
        .rows
        .iter()
        .filter(|row| row.state == JobRowState::Done)
        .all(|row| row.shard.is_some());
    assert!(placed, "rows have locations in the archive");
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_shards_of_a_stopped_batch_are_continued() {
    let case = BatchCase {
        tar: Some(("s.tar", Some(64 << 10))),
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let stop = case.stop.clone();
    let stopping = OriginResource::new(small_content(3))
        .rule(RequestMatcher::first(1), move |_, _| stop.cancel());
    let origin = origin_with_files(100)
        .resource("/stopping", stopping)
        .start()
        .await;
    let names = || {
        (0..50)
            .map(|n| n.to_string())
            .chain(["stopping".into()])
            .chain((50..100).map(|n| n.to_string()))
    };
    let urls = || names().map(|name| origin.url(&format!("/{name}")));
    let first = case.download(urls()).await;
    assert!(first.summary.done < 101);
    let case = BatchCase {
        stop: Default::default(),
        ..case
    };
    let second = case.download(urls()).await;
    assert_eq!(second.summary.done_earlier + second.summary.done, 101);
    let mut names: Vec<_> = std::fs::read_dir(case.outer_dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".tar"));
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(names.len() > 3, "{names:?}");
    let found = archive_entries(&case, &names);
    assert_eq!(found.len(), 101);
    for number in 0..100 {
        assert!(found[&number.to_string()] == small_content(number).to_vec());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_urls_that_differ_in_a_redacted_part_are_two_jobs() {
    let case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let origin = origin_with_files(2).start().await;
    let url = |key: &str| origin.url(&format!("/1?token={key}"));
    let first = case.download([url("A")]).await;
    assert_eq!(first.counts(), (1, 0, 0));
    assert!(
        !first.rows[0].url.contains("token=A"),
        "{}",
        first.rows[0].url
    );
    let second = case.download([url("A"), url("B")]).await;
    assert_eq!(
        (second.summary.done_earlier, second.counts()),
        (1, (1, 0, 0))
    );
    assert_eq!(case.listing().len(), 2);
}

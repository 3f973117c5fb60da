//! File systems that keep neither times nor attributes, and have no unnamed files (row B11).

use haul_lab::{Origin, OriginResource};
use haul_transfer::disk::StorageWrapping;
use haul_transfer::manifest::JobRowState;
use haul_transfer::{ExistingFilePolicy, TransferEvent};

use crate::batch::{BatchCase, small_content};
use crate::harness::{JobCase, content};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn poor() -> StorageWrapping {
    StorageWrapping::default()
        .without_unnamed_files_in(|_| true)
        .without_metadata()
}

fn is_about_times(text: &str) -> bool {
    text.contains("does not keep the time")
}

/// The next run asks with what haul noted, whichever validator the origin has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_update_asks_with_what_haul_noted() {
    let notes = tempfile::tempdir().unwrap();
    let tag = || OriginResource::without_validator(content()).etag("\"v1\"");
    let date = || OriginResource::without_validator(content()).last_modified(DATE);
    for (resource, field, value) in [
        (tag(), "if-none-match", "\"v1\""),
        (date(), "if-modified-since", DATE),
    ] {
        let mut case = JobCase::new();
        case.options.storage_wrapping = poor();
        case.options.notes_directory = Some(notes.path().join("new/files"));
        let origin = Origin::builder().resource("/f.bin", resource).start().await;
        let url = origin.url("/f.bin");
        let run = case.get(&url).await;
        run.outcome();
        let told = run.events.iter().filter(
            |event| matches!(event, TransferEvent::Warning { warning, .. } if is_about_times(&warning.to_string())),
        );
        let has_date = field == "if-modified-since";
        assert_eq!(told.count(), usize::from(has_date), "{:?}", run.events);
        case.assert_file(&content());
        case.options.existing_file = ExistingFilePolicy::Update;
        let run = case.get(&url).await;
        assert!(run.outcome().not_modified, "{field}");
        let requests = origin.requests();
        assert_eq!(requests.last().unwrap().header(field), Some(value));
        // The tag is not that of a file that was edited.
        std::fs::write(case.path(), "edited").unwrap();
        case.get(&url).await.outcome();
        let requests = origin.requests();
        assert_eq!(requests.last().unwrap().header("if-none-match"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_a_batch_says_it_once_and_its_manifest_knows_the_tags_of_every_run() {
    let mut case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    case.get.storage_wrapping = poor();
    let mut builder = Origin::builder();
    for number in 0..3 {
        let resource = OriginResource::new(small_content(number))
            .etag("\"t\"")
            .last_modified(DATE);
        builder = builder.resource(&format!("/{number}"), resource);
    }
    let origin = builder.start().await;
    let urls = || {
        (0..3)
            .map(|number| origin.url(&format!("/{number}")))
            .collect::<Vec<_>>()
    };
    let run = case.download(urls()).await;
    assert_eq!(run.counts(), (3, 0, 0));
    let told = run.warnings.iter().filter(|text| is_about_times(text));
    assert_eq!(told.count(), 1, "{:?}", run.warnings);
    case.get.existing_file = ExistingFilePolicy::Update;
    for _ in 0..3 {
        let run = case.download(urls()).await;
        assert_eq!(run.counts(), (0, 3, 0));
        assert!(run.rows.iter().all(|row| row.state == JobRowState::Skipped));
        let last = origin.requests().pop().unwrap();
        assert_eq!(last.header("if-none-match"), Some("\"t\""));
    }
}

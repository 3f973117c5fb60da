//! Batches that end before the end of their list.

use std::sync::mpsc;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};

use haul_transfer::batch::StopReason;

use super::{BatchCase, entries, origin_with_files, small_content};

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_stop_leaves_complete_files_and_nothing_else() {
    let case = BatchCase::new();
    let stop = case.stop.clone();
    let stopping = OriginResource::new(small_content(3))
        .rule(RequestMatcher::always(), move |_, _| stop.cancel());
    let origin = origin_with_files(400)
        .resource("/stopping", stopping)
        .start()
        .await;
    let names = (0..200)
        .map(|n| n.to_string())
        .chain(["stopping".into()])
        .chain((200..400).map(|n| n.to_string()));
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert!(run.summary.is_interrupted());
    let done = run.summary.done;
    // The 200 before it and those that are requested beside it, up to 128 at once, may be done.
    assert!((100..=328).contains(&done), "{done} done");
    assert_eq!((run.summary.failed, run.rows.len() as u64), (0, done));
    assert_eq!(case.listing().len() as u64, done);
    for row in &run.rows {
        let name = row.url.rsplit('/').next().unwrap();
        if let Ok(number) = name.parse() {
            case.assert_file(name, &small_content(number));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_list_delays_neither_downloads_nor_a_stop() {
    let (case, origin) = (BatchCase::new(), origin_with_files(5).start().await);
    // A pipe with five lines, whose writer then keeps it open until the end of the test.
    let (writer, pipe) = mpsc::channel();
    for number in 0..5 {
        writer.send(origin.url(&format!("/{number}"))).unwrap();
    }
    let lines = entries_from_pipe(pipe);
    let mut case = BatchCase {
        stop_after_files: Some(5),
        ..case
    };
    // Files get their names although no other file comes, however long a group may wait.
    case.options.commit_group.linger = Duration::from_secs(3600);
    let run = case.run(lines).await;
    assert_eq!(run.counts(), (5, 0, 0));
    assert!(!run.summary.list_complete, "more lines might have come");
    drop(writer);
}

fn entries_from_pipe(pipe: mpsc::Receiver<String>) -> haul_transfer::batch::ListEntries {
    Box::new(pipe.into_iter().flat_map(|url| entries(vec![url])))
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a bug in the list")]
async fn a_panic_is_propagated_and_ends_the_batch() {
    let (case, origin) = (BatchCase::new(), origin_with_files(1).start().await);
    let url = origin.url("/0");
    let lines = (0..3).flat_map(move |number| {
        assert!(number < 2, "a bug in the list");
        entries(vec![url.clone()])
    });
    case.run(Box::new(lines)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_large_file_is_continued_after_a_stop() {
    let case = BatchCase::new();
    let large = ResourceContent::random(1, 4 << 20);
    let stop = case.stop.clone();
    let resource = OriginResource::new(large.clone())
        .rule(RequestMatcher::after_bytes_sent(2 << 20), move |_, _| {
            stop.cancel()
        })
        .rule(
            RequestMatcher::after_bytes_sent(2 << 20),
            faults::stall_after(0),
        );
    let origin = Origin::builder().resource("/large", resource).start().await;
    let run = case.download([origin.url("/large")]).await;
    assert_eq!(run.counts(), (0, 0, 0));
    assert!(run.summary.is_interrupted());
    assert_eq!(case.listing(), ["large.haul-journal", "large.haul-part"]);
    let again = BatchCase {
        stop: Default::default(),
        ..case
    };
    origin.replace("/large", OriginResource::new(large.clone()));
    let before = origin.bytes_sent();
    assert_eq!(
        again.download([origin.url("/large")]).await.counts(),
        (1, 0, 0)
    );
    again.assert_file("large", &large);
    assert!(
        origin.bytes_sent() - before < 3 << 20,
        "bytes on the disk were fetched again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_full_disk_ends_the_batch_with_a_reason() {
    let case = BatchCase::new();
    let Some(_mounted) = crate::harness::small_disk(case.dir.path()) else {
        return;
    };
    let files = 60;
    let origin = (0..files)
        .fold(Origin::builder(), |origin, n| {
            let content = ResourceContent::random(n, 50_000);
            origin.resource(&format!("/{n}"), OriginResource::new(content))
        })
        .start()
        .await;
    let run = case
        .download((0..files).map(|n| origin.url(&format!("/{n}"))))
        .await;
    let stopped = run.summary.stopped.as_ref().expect("it ended early");
    assert_eq!(stopped.reason, StopReason::LocalIo);
    assert!(stopped.text.contains("No space left"), "{stopped:?}");
    assert!(run.summary.done < 21);
    for row in run.rows.iter().filter(|row| row.error.is_none()) {
        let name = row.url.rsplit('/').next().unwrap();
        case.assert_file(
            name,
            &ResourceContent::random(name.parse().unwrap(), 50_000),
        );
    }
}

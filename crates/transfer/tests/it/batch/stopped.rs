//! Batches that end before their lists.

use std::sync::mpsc;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};

use haul_transfer::batch::BatchHaltKind;

use super::{BatchCase, entries, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_stop_leaves_whole_files_alone_and_nothing_else() {
    let lot = BatchCase::new();
    let stop = lot.stop.clone();
    let enough =
        OriginResource::new(small(3)).rule(RequestMatcher::always(), move |_, _| stop.cancel());
    let origin = shelf(400).resource("/enough", enough).start().await;
    let names = (0..200).map(|n| n.to_string()).chain(["enough".into()]);
    let names = names.chain((200..400).map(|n| n.to_string()));
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    let done = ran.summary.done;
    assert!((100..=250).contains(&done), "{done} done");
    assert_eq!((ran.summary.failed, ran.rows.len() as u64), (0, done));
    assert_eq!(lot.listing().len() as u64, done);
    for row in &ran.rows {
        let name = row.url.rsplit('/').next().unwrap();
        if let Ok(number) = name.parse() {
            lot.assert_file(name, &small(number));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_stands_still_holds_up_neither_downloads_nor_a_stop() {
    let (lot, origin) = (BatchCase::new(), shelf(5).start().await);
    // A pipe whose writer says five lines and then nothing, until the test is over.
    let (writer, pipe) = mpsc::channel();
    for number in 0..5 {
        writer.send(origin.url(&format!("/{number}"))).unwrap();
    }
    let lines = entries_of(pipe);
    let mut lot = BatchCase {
        enough: Some(5),
        ..lot
    };
    // Nor are files without their names while no other comes, however long they might wait for one.
    lot.options.commit_group.linger = Duration::from_secs(3600);
    let ran = lot.run(lines).await;
    assert_eq!(ran.counts(), (5, 0, 0));
    assert!(
        !ran.summary.list_complete,
        "nobody knows what would have come"
    );
    drop(writer);
}

fn entries_of(pipe: mpsc::Receiver<String>) -> haul_transfer::batch::ListEntries {
    Box::new(pipe.into_iter().flat_map(|url| entries(vec![url])))
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a bug in the list")]
async fn a_bug_is_passed_on_and_ends_the_batch() {
    let (lot, origin) = (BatchCase::new(), shelf(1).start().await);
    let url = origin.url("/0");
    let lines = (0..3).flat_map(move |number| {
        assert!(number < 2, "a bug in the list");
        entries(vec![url.clone()])
    });
    lot.run(Box::new(lines)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_large_file_that_was_stopped_is_gone_on_with() {
    let lot = BatchCase::new();
    let large = ResourceContent::random(1, 4 << 20);
    let stop = lot.stop.clone();
    let resource = OriginResource::new(large.clone())
        .rule(RequestMatcher::after_bytes_sent(2 << 20), move |_, _| {
            stop.cancel()
        })
        .rule(
            RequestMatcher::after_bytes_sent(2 << 20),
            faults::stall_after(0),
        );
    let origin = Origin::builder().resource("/large", resource).start().await;
    let ran = lot.get([origin.url("/large")]).await;
    assert_eq!(ran.counts(), (0, 0, 0));
    assert_eq!(lot.listing(), ["large.haul-journal", "large.haul-part"]);
    let again = BatchCase {
        stop: Default::default(),
        ..lot
    };
    origin.replace("/large", OriginResource::new(large.clone()));
    let before = origin.bytes_sent();
    assert_eq!(again.get([origin.url("/large")]).await.counts(), (1, 0, 0));
    again.assert_file("large", &large);
    assert!(
        origin.bytes_sent() - before < 3 << 20,
        "what was there came again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_full_disk_ends_the_batch_with_a_reason() {
    let lot = BatchCase::new();
    let Some(_mounted) = crate::harness::small_disk(lot.dir.path()) else {
        return;
    };
    let files = 60;
    let origin = (0..files).fold(Origin::builder(), |origin, n| {
        let content = ResourceContent::random(n, 50_000);
        origin.resource(&format!("/{n}"), OriginResource::new(content))
    });
    let origin = origin.start().await;
    let ran = lot
        .get((0..files).map(|n| origin.url(&format!("/{n}"))))
        .await;
    let halted = ran.summary.halted.as_ref().expect("it ended early");
    assert_eq!(halted.kind, BatchHaltKind::LocalIo);
    assert!(halted.reason.contains("No space left"), "{halted:?}");
    assert!(ran.summary.done < 21);
    for row in ran.rows.iter().filter(|row| row.error.is_none()) {
        let name = row.url.rsplit('/').next().unwrap();
        lot.assert_file(
            name,
            &ResourceContent::random(name.parse().unwrap(), 50_000),
        );
    }
}

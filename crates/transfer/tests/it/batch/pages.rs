//! Rows A35, A36 and A38 in batches: pages in place of files, and refused ranges.

use haul_lab::{
    Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, ResourceContent,
    faults,
};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::manifest::JobRowState;

use super::{BatchCase, small_content};
use crate::rows_a_pages::{Change, PAGE, document, pages};

fn rule(
    what: &'static str,
    change: Change,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |request, reply| match what {
        "a redirect to a page" => document(200, Some("text/html"), PAGE, reply),
        _ => change(request, reply),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_a_page_does_not_take_the_place_of_a_partial_file() {
    let large = ResourceContent::random(1, 4 << 20);
    let file =
        || OriginResource::new(large.clone()).header("Content-Type", "application/octet-stream");
    for (what, change) in pages() {
        let case = BatchCase::new();
        let stop = case.stop.clone();
        let half_sent = || RequestMatcher::after_bytes_sent(2 << 20);
        let stopped = file()
            .rule(half_sent(), move |_, _| stop.cancel())
            .rule(half_sent(), faults::stall_after(0));
        let origin = Origin::builder().resource("/f.bin", stopped).start().await;
        let run = case.download([origin.url("/f.bin")]).await;
        assert_eq!(run.counts(), (0, 0, 0));
        let case = BatchCase {
            stop: Default::default(),
            ..case
        };
        origin.replace(
            "/f.bin",
            file().rule(RequestMatcher::always(), rule(what, change)),
        );
        let run = case.download([origin.url("/f.bin")]).await;
        assert_eq!(run.counts(), (0, 0, 1), "{what}");
        assert!(
            run.error("/f.bin").contains("in place of the file"),
            "{what}"
        );
        assert_eq!(
            case.listing(),
            ["f.bin.haul-journal", "f.bin.haul-part"],
            "{what}"
        );
        origin.replace("/f.bin", file());
        let before = origin.bytes_sent();
        let run = case.download([origin.url("/f.bin")]).await;
        assert_eq!(run.counts(), (1, 0, 0), "{what}");
        case.assert_file("f.bin", &large);
        assert!(origin.bytes_sent() - before < 3 << 20, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_update_replaces_no_file_by_a_page() {
    for (what, change) in pages() {
        let mut case = BatchCase::new();
        case.get.existing_file = ExistingFilePolicy::Update;
        let file = |tag: &str| OriginResource::new(small_content(9)).etag(tag);
        let origin = Origin::builder()
            .resource("/f.bin", file("\"1\""))
            .start()
            .await;
        assert_eq!(
            case.download([origin.url("/f.bin")]).await.counts(),
            (1, 0, 0)
        );
        origin.replace(
            "/f.bin",
            file("\"2\"").rule(RequestMatcher::always(), rule(what, change)),
        );
        let run = case.download([origin.url("/f.bin")]).await;
        assert_eq!(run.counts(), (0, 0, 1), "{what}");
        case.assert_file("f.bin", &small_content(9));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a36_pages_that_are_first_responses_are_counted() {
    let (mut origin, mut expected) = (Origin::builder(), 0);
    let file = || OriginResource::new(small_content(9));
    for (number, (what, change)) in pages().into_iter().enumerate() {
        expected += u64::from(!matches!(
            what,
            "nothing" | "a line of text" | "a page that is longer than the file and has a tag"
        ));
        let page = file().rule(RequestMatcher::always(), rule(what, change));
        origin = origin.resource(&format!("/{number}.zip"), page.clone());
        // Here a page is what the name promises.
        origin = origin.resource(&format!("/{number}.html"), page);
    }
    let origin = origin.resource("/right.zip", file()).start().await;
    let urls: Vec<String> = (0..pages().len())
        .flat_map(|number| [format!("/{number}.zip"), format!("/{number}.html")])
        .chain(["/right.zip".to_owned()])
        .map(|path| origin.url(&path))
        .collect();
    let run = BatchCase::new().download(urls).await;
    assert_eq!(run.summary.failed, 0, "{:?}", run.rows);
    assert_eq!(run.summary.pages, expected);
    // A larger one has a warning of its own.
    assert_eq!(
        run.warnings
            .iter()
            .filter(|text| text.contains("promises"))
            .count(),
        1
    );
    let mut strict = BatchCase::new();
    strict.get.expected_content.media_types = vec!["application/zip".parse().unwrap()];
    let run = strict.download([origin.url("/0.zip")]).await;
    assert_eq!((run.summary.failed, run.summary.pages), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a38_files_of_a_host_that_refuses_ranges_come_without() {
    for status in [400, 403, 416] {
        let files = 12;
        let origin = (0..files)
            .fold(Origin::builder(), |origin, number| {
                let length = if number < 2 { 3 << 20 } else { 5000 };
                let file = OriginResource::new(ResourceContent::random(number, length))
                    .rule(RequestMatcher::with_range(), faults::status(status));
                origin.resource(&format!("/{number}"), file)
            })
            .start()
            .await;
        let case = BatchCase::new();
        let run = case
            .download((0..files).map(|number| origin.url(&format!("/{number}"))))
            .await;
        assert_eq!(run.counts(), (files, 0, 0), "{status}: {:?}", run.rows);
        assert!(run.rows.iter().all(|row| row.state == JobRowState::Done));
        case.assert_file("11", &ResourceContent::random(11, 5000));
        assert!((origin.requests().len() as u64) < 4 * files, "{status}");
    }
}

//! Batches that give the bytes of files to a function, in place of directories and archives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::batch::{FetchedBody, StopReason};
use haul_transfer::disk::StorageWrapping;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::{JobRowState, ManifestRow};

use super::{BatchCase, BatchRun, origin_with_files, small_content};
use crate::faulty_disk::DiskFaults;

/// The bodies that a batch has handed over, by line.
#[derive(Default)]
pub(crate) struct TakenBodies {
    bodies: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Called before a body is taken.
    before: Option<Box<dyn Fn() + Send + Sync>>,
}

impl TakenBodies {
    pub(super) fn take(&self, line: u64, body: &FetchedBody) {
        if let Some(before) = &self.before {
            before();
        }
        let bytes = body.pieces.concat();
        assert_eq!(bytes.len(), body.length());
        let earlier = self.bodies.lock().unwrap().insert(line, bytes);
        assert!(earlier.is_none(), "line {line} is handed over twice");
    }

    /// Asserts that a file was handed over before its row was published, and that no other was.
    pub(super) fn check_row(&self, row: &ManifestRow) {
        let bodies = self.bodies.lock().unwrap();
        let body = row.line.and_then(|line| bodies.get(&line));
        let length = body.map(|body| body.len() as u64);
        let expected = (row.state == JobRowState::Done).then_some(row.bytes);
        assert_eq!(length, expected, "{row:?}");
        assert_eq!(row.path, None, "it is nowhere");
    }

    fn count(&self) -> usize {
        self.bodies.lock().unwrap().len()
    }

    #[track_caller]
    fn assert_body(&self, line: u64, content: &ResourceContent) {
        let bodies = self.bodies.lock().unwrap();
        assert!(
            bodies[&line] == content.to_vec(),
            "line {line} is not what was served"
        );
    }
}

fn memory_case() -> (BatchCase, Arc<TakenBodies>) {
    let bodies = Arc::new(TakenBodies::default());
    let case = BatchCase {
        bodies: Some(Arc::clone(&bodies)),
        ..BatchCase::new()
    };
    (case, bodies)
}

/// In an unnamed file on its way.
fn medium() -> ResourceContent {
    ResourceContent::random(1, 300 << 10)
}

/// In a file of the staging directory on its way, in several segments.
fn large() -> ResourceContent {
    ResourceContent::random(2, (3 << 20) + 77)
}

/// The path of a line, and what is there: `None` for a failure.
fn resource_of_line(line: u64) -> (String, Option<ResourceContent>) {
    match line {
        _ if line.is_multiple_of(50) => ("/missing".into(), None),
        _ if line.is_multiple_of(40) => ("/late".into(), Some(small_content(5))),
        _ if line % 25 == 1 => ("/large".into(), Some(large())),
        _ if line % 10 == 2 => ("/medium".into(), Some(medium())),
        _ if line % 10 == 3 => ("/empty".into(), Some(small_content(0))),
        _ if line % 10 == 4 => ("/chunked".into(), Some(small_content(100))),
        // Most URLs are in the list several times.
        _ => {
            let number = line % 7 + 1;
            (format!("/{number}"), Some(small_content(number)))
        }
    }
}

async fn origin_of_lines() -> Origin {
    let late = OriginResource::new(small_content(5))
        .rule(RequestMatcher::first(2), faults::status(500))
        .rule(RequestMatcher::nth(2), faults::reset_after(10));
    let chunked = OriginResource::new(small_content(100))
        .rule(RequestMatcher::always(), |_, response| {
            *response = haul_lab::OriginResponse::whole(&OriginResource::new(small_content(100)));
        })
        .rule(RequestMatcher::always(), faults::chunked);
    origin_with_files(8)
        .resource("/empty", OriginResource::new(small_content(0)))
        .resource("/late", late)
        .resource("/chunked", chunked)
        .resource("/medium", OriginResource::new(medium()))
        .resource("/large", OriginResource::new(large()))
        .start()
        .await
}

async fn download_lines(case: &BatchCase, origin: &Origin, lines: u64) -> BatchRun {
    let urls = (1..=lines).map(|line| origin.url(&resource_of_line(line).0));
    case.download(urls).await
}

#[track_caller]
fn assert_lines(bodies: &TakenBodies, lines: u64) {
    let mut count = 0;
    for line in 1..=lines {
        if let (_, Some(content)) = resource_of_line(line) {
            count += 1;
            bodies.assert_body(line, &content);
        }
    }
    assert_eq!(bodies.count(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_of_any_size_is_handed_over_once_before_its_row_even_if_urls_repeat() {
    let ((case, bodies), origin) = (memory_case(), origin_of_lines().await);
    let run = download_lines(&case, &origin, 300).await;
    assert_lines(&bodies, 300);
    assert_eq!(run.counts(), (294, 0, 6), "{:?}", run.summary);
    assert_eq!(run.rows.len(), 300);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_staged_where_there_are_no_unnamed_files() {
    let ((mut case, bodies), origin) = (memory_case(), origin_of_lines().await);
    case.get.storage_wrapping = StorageWrapping::default().without_unnamed_files_in(|_| true);
    let run = download_lines(&case, &origin, 60).await;
    assert_lines(&bodies, 60);
    assert_eq!(run.counts(), (59, 0, 1));
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread")]
async fn small_files_use_no_disk() {
    let ((mut case, bodies), origin) = (memory_case(), origin_with_files(100).start().await);
    let files = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&files);
    case.get.storage_wrapping = StorageWrapping::default().without_unnamed_files_in(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        false
    });
    let urls = (0..100).map(|n| origin.url(&format!("/{n}")));
    assert_eq!(case.download(urls).await.counts(), (100, 0, 0));
    for number in 0..100 {
        bodies.assert_body(number + 1, &small_content(number));
    }
    // The reader looks once whether there are such files.
    assert_eq!(files.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_a_wrong_digest_is_handed_over_to_nobody_and_kept_nowhere() {
    let ((case, bodies), origin) = (memory_case(), origin_of_lines().await);
    let entry = |(line, name): (u64, &str)| {
        Ok(ListEntry {
            checksums: vec![format!("md5:{}", "0".repeat(32)).parse().unwrap()],
            ..ListEntry::new(line, origin.url(name).parse().unwrap())
        })
    };
    let entries: Vec<_> = (1..).zip(["/1", "/medium", "/large"]).map(entry).collect();
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!((run.counts(), bodies.count()), ((0, 0, 3), 0));
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_full_staging_disk_ends_the_batch_with_a_reason() {
    let ((mut case, bodies), origin) = (memory_case(), origin_of_lines().await);
    let disk = Arc::new(DiskFaults {
        free_bytes: Some(AtomicU64::new(1 << 20)),
        ..DiskFaults::default()
    });
    case.get.storage_wrapping = disk.wrapping();
    // Line 2 is a medium file, whose unnamed file this disk does not count.
    let run = download_lines(&case, &origin, 300).await;
    let stopped = run.summary.stopped.as_ref().expect("it ended early");
    assert_eq!(stopped.reason, StopReason::LocalIo);
    for row in run.rows.iter().filter(|row| row.error.is_none()) {
        let line = row.line.unwrap();
        bodies.assert_body(line, &resource_of_line(line).1.unwrap());
    }
    assert_eq!(bodies.count() as u64, run.summary.done);
    assert!(run.rows.iter().any(|row| row.url.ends_with("/large")));
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_stop_loses_no_row_of_a_body() {
    let ((mut case, bodies), origin) = (memory_case(), origin_of_lines().await);
    case.stop_after_files = Some(50);
    let run = download_lines(&case, &origin, 1000).await;
    assert!((50..1000).contains(&run.summary.done), "{:?}", run.summary);
    assert_eq!(bodies.count() as u64, run.summary.done);
    for row in run.rows.iter().filter(|row| row.error.is_none()) {
        let line = row.line.unwrap();
        bodies.assert_body(line, &resource_of_line(line).1.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_blocks_holds_the_batch_up() {
    let origin = Arc::new(origin_with_files(8).start().await);
    let watched = Arc::clone(&origin);
    let (calls, (_sender, never)) = (AtomicUsize::new(0), mpsc::channel::<()>());
    let never = Mutex::new(never);
    let bodies = Arc::new(TakenBodies {
        before: Some(Box::new(move || {
            if calls.fetch_add(1, Ordering::Relaxed) > 0 {
                return;
            }
            // The first body is taken when no request has come for a while.
            let mut seen = 0;
            while seen < watched.requests().len() {
                seen = watched.requests().len();
                let quiet = Duration::from_millis(200);
                let _ = never.lock().unwrap().recv_timeout(quiet);
            }
            assert!(seen < 1500, "{seen} requests with one body taken");
        })),
        ..TakenBodies::default()
    });
    let case = BatchCase {
        bodies: Some(Arc::clone(&bodies)),
        ..BatchCase::new()
    };
    let urls = (0..4000).map(|n| origin.url(&format!("/{}", n % 8)));
    assert_eq!(case.download(urls).await.counts(), (4000, 0, 0));
    assert_eq!(bodies.count(), 4000);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_an_earlier_run_are_handed_over_again_whatever_the_manifest_says() {
    let ((case, bodies), origin) = (memory_case(), origin_with_files(5).start().await);
    let mut case = BatchCase {
        manifest: Some("m.jsonl"),
        ..case
    };
    for _ in 0..2 {
        let urls = (0..5).map(|n| origin.url(&format!("/{n}")));
        assert_eq!(case.download(urls).await.counts(), (5, 0, 0));
        assert_eq!(std::mem::take(&mut *bodies.bodies.lock().unwrap()).len(), 5);
    }
    case.bodies = None;
    let urls = (0..5).map(|n| origin.url(&format!("/{n}")));
    assert_eq!(case.download(urls).await.counts(), (5, 0, 0));
}

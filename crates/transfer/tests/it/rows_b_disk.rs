//! Rows B4 and B7 and the reading back, with the engine at work on disks that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_lab::{OriginResource, ResourceContent};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, TransferEvent};
use tokio::time::Instant;

use crate::disks::DiskFaults;
use crate::harness::{JobCase, content, serve};

/// A disk without room from some byte on: what was claimed before stays, and the same command goes on when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_disk_that_is_full_at_some_byte_keeps_the_state_and_no_wrong_file() {
    for room in [0, 100_000, 1 << 20, 2 << 20] {
        let mut case = JobCase::new();
        let full = Arc::new(DiskFaults {
            room: Some(AtomicU64::new(room)),
            ..DiskFaults::default()
        });
        case.options.storage_layer = full.layer();
        let origin = serve(OriginResource::new(content())).await;
        let url = origin.url("/f.bin");
        let ran = case.get(&url).await;
        assert_eq!(
            ran.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            ran.error()
        );
        assert!(!case.path().exists());
        let written = full.written.load(Ordering::SeqCst);
        assert_eq!(
            ran.hints_at_resuming(),
            written > 0,
            "{room}: {written} written"
        );
        case.options.storage_layer = Arc::new(DiskFaults::default()).layer();
        let again = case.get(&url).await;
        assert_eq!(again.outcome().resumed, written, "{room}");
        assert_eq!(again.outcome().fetched, content().length() - written);
        case.assert_file(&content());
    }
}

/// How late timers were meanwhile, and how far the origin was ahead of the disk.
#[derive(Debug, Default)]
struct MeasuredDelays {
    late: Duration,
    ahead: u64,
}

/// Four writers on two threads, each write longer than what counts as a stall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_slow_disk_holds_back_the_origin_and_stalls_nothing() {
    let all = ResourceContent::random(1, 64 << 20);
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(4);
    case.options.segment_size = Some(8 << 20);
    case.client.stall_timeout = Duration::from_millis(100);
    let slow = Arc::new(DiskFaults {
        write: Duration::from_millis(200),
        ..DiskFaults::default()
    });
    case.options.storage_layer = slow.layer();
    let origin = Arc::new(serve(OriginResource::new(all.clone())).await);
    let (sends, length) = (Arc::clone(&origin), all.length());
    let mut heart = tokio::task::JoinSet::new();
    heart.spawn(async move {
        let mut seen = MeasuredDelays::default();
        while slow.written.load(Ordering::SeqCst) < length {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            seen.late = seen.late.max(due.elapsed());
            let written = slow.written.load(Ordering::SeqCst);
            seen.ahead = seen.ahead.max(sends.bytes_sent().saturating_sub(written));
        }
        seen
    });
    let ran = case.get(&origin.url("/f.bin")).await;
    ran.outcome();
    assert_eq!(ran.retries(), 0);
    case.assert_file(&all);
    let seen = heart.join_next().await.unwrap().unwrap();
    // A reactor that waits for a write would be late by all of it.
    assert!(seen.late < Duration::from_millis(150), "{seen:?}");
    // What the sockets' buffers and a batch hold, times four: Linux gives a connection six mebibytes to receive, two and more to send.
    assert!(seen.ahead < 4 * (8 << 20), "{seen:?}");
}

/// What an earlier run left is read back with a word about it, and a stop in the middle is soon obeyed and costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_reading_back_is_reported_and_can_be_interrupted() {
    let all = ResourceContent::random(1, 64 << 20);
    let mut case = JobCase::new();
    case.options.segment_size = Some(8 << 20);
    let room = Arc::new(DiskFaults {
        room: Some(AtomicU64::new(48 << 20)),
        ..DiskFaults::default()
    });
    case.options.storage_layer = room.layer();
    let origin = serve(OriginResource::new(all.clone())).await;
    let url = origin.url("/f.bin");
    case.get(&url).await.error();
    let left = room.written.load(Ordering::SeqCst);
    // A mebibyte in a tenth of a second: seconds for all of it.
    let slow = Arc::new(DiskFaults {
        read: Duration::from_millis(100),
        ..DiskFaults::default()
    });
    case.options.storage_layer = slow.layer();
    let request_count = origin.requests().len();
    let (stop, disk) = (case.stop.clone(), Arc::clone(&slow));
    let late = async move {
        while disk.reads.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        Instant::now()
    };
    let (ran, stopped) = tokio::join!(case.get(&url), late);
    assert!(stopped.elapsed() < Duration::from_secs(2));
    assert!(matches!(ran.error(), GetError::Interrupted { .. }));
    assert!(ran.hints_at_resuming());
    assert_eq!(origin.requests().len(), request_count);
    let verifying = |event: &TransferEvent| matches!(event, TransferEvent::Verifying { bytes, .. } if *bytes == left);
    assert!(ran.events.iter().any(verifying), "{:?}", ran.events);
    case.stop = tokio_util::sync::CancellationToken::new();
    case.options.storage_layer = haul_transfer::disk::StorageLayer::default();
    let again = case.get(&url).await;
    assert_eq!(again.outcome().resumed, left);
    case.assert_file(&all);
}

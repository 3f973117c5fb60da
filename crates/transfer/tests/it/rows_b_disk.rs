//! Rows B3, B4 and B7: full and slow disks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_lab::{OriginResource, ResourceContent};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, TransferEvent};
use tokio::time::Instant;

use crate::faulty_disk::DiskFaults;
use crate::harness::{JobCase, content, serve};

/// The disk is full after some bytes. They are kept, and the same command resumes when there is space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_disk_that_becomes_full_keeps_the_written_bytes_for_the_next_run() {
    for free_bytes in [0, 100_000, 1 << 20, 2 << 20] {
        let mut case = JobCase::new();
        let full = Arc::new(DiskFaults {
            free_bytes: Some(AtomicU64::new(free_bytes)),
            ..DiskFaults::default()
        });
        case.options.storage_wrapping = full.wrapping();
        let origin = serve(OriginResource::new(content())).await;
        let url = origin.url("/f.bin");
        let run = case.get(&url).await;
        assert_eq!(
            run.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            run.error()
        );
        assert!(!case.path().exists());
        let written = full.written.load(Ordering::SeqCst);
        assert_eq!(
            run.hints_at_resuming(),
            written > 0,
            "{free_bytes}: {written} written"
        );
        case.options.storage_wrapping = Arc::new(DiskFaults::default()).wrapping();
        let again = case.get(&url).await;
        assert_eq!(again.outcome().resumed, written, "{free_bytes}");
        assert_eq!(again.outcome().fetched, content().length() - written);
        case.assert_file(&content());
    }
}

/// The largest delay of a timer, and the largest number of bytes by which the origin was ahead of the disk.
#[derive(Debug, Default)]
struct MeasuredDelays {
    timer_delay: Duration,
    bytes_ahead: u64,
}

/// Four workers write on two threads. Each write takes longer than the stall timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_slow_disk_slows_the_origin_down_and_is_not_a_stall() {
    let file = ResourceContent::random(1, 64 << 20);
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(4);
    case.options.segment_size = Some(8 << 20);
    case.client.stall_timeout = Duration::from_millis(100);
    case.client.response_timeout = case.client.stall_timeout;
    let slow = Arc::new(DiskFaults {
        write_delay: Duration::from_millis(200),
        ..DiskFaults::default()
    });
    case.options.storage_wrapping = slow.wrapping();
    let origin = Arc::new(serve(OriginResource::new(file.clone())).await);
    let (watched_origin, length) = (Arc::clone(&origin), file.length());
    let mut measuring = tokio::task::JoinSet::new();
    measuring.spawn(async move {
        let mut measured = MeasuredDelays::default();
        while slow.written.load(Ordering::SeqCst) < length {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            measured.timer_delay = measured.timer_delay.max(due.elapsed());
            let written = slow.written.load(Ordering::SeqCst);
            measured.bytes_ahead = measured
                .bytes_ahead
                .max(watched_origin.bytes_sent().saturating_sub(written));
        }
        measured
    });
    let run = case.get(&origin.url("/f.bin")).await;
    run.outcome();
    assert_eq!(run.retries(), 0);
    case.assert_file(&file);
    let measured = measuring.join_next().await.unwrap().unwrap();
    // A reactor that is blocked by a write would be late by the duration of that write.
    assert!(
        measured.timer_delay < Duration::from_millis(150),
        "{measured:?}"
    );
    // Socket buffers and a write batch, times four: Linux has receive buffers of up to 6 MiB and send buffers of 2 MiB and more.
    assert!(measured.bytes_ahead < 4 * (8 << 20), "{measured:?}");
}

/// The partial file of an earlier run is read and verified. That is reported, and an interruption ends it soon and loses no bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_verifying_a_partial_file_is_reported_and_can_be_interrupted() {
    let file = ResourceContent::random(1, 64 << 20);
    let mut case = JobCase::new();
    case.options.segment_size = Some(8 << 20);
    let small_disk = Arc::new(DiskFaults {
        free_bytes: Some(AtomicU64::new(48 << 20)),
        ..DiskFaults::default()
    });
    case.options.storage_wrapping = small_disk.wrapping();
    let origin = serve(OriginResource::new(file.clone())).await;
    let url = origin.url("/f.bin");
    case.get(&url).await.error();
    let kept_bytes = small_disk.written.load(Ordering::SeqCst);
    // Reading takes 0.1 s per MiB: seconds for the whole file.
    let slow = Arc::new(DiskFaults {
        read_delay: Duration::from_millis(100),
        ..DiskFaults::default()
    });
    case.options.storage_wrapping = slow.wrapping();
    let request_count = origin.requests().len();
    let (stop, watched_disk) = (case.stop.clone(), Arc::clone(&slow));
    let stop_after_three_reads = async move {
        while watched_disk.reads.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        Instant::now()
    };
    let (run, stopped) = tokio::join!(case.get(&url), stop_after_three_reads);
    assert!(stopped.elapsed() < Duration::from_secs(2));
    assert!(matches!(run.error(), GetError::Interrupted { .. }));
    assert!(run.hints_at_resuming());
    assert_eq!(origin.requests().len(), request_count);
    let verifying = |event: &TransferEvent| matches!(event, TransferEvent::Verifying { bytes, .. } if *bytes == kept_bytes);
    assert!(run.events.iter().any(verifying), "{:?}", run.events);
    case.stop = tokio_util::sync::CancellationToken::new();
    case.options.storage_wrapping = haul_transfer::disk::StorageWrapping::default();
    let again = case.get(&url).await;
    assert_eq!(again.outcome().resumed, kept_bytes);
    case.assert_file(&file);
}

//! Row B7: writes to a slow disk never block the reactor.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_lab::{OriginResource, ResourceContent};
use haul_transfer::JobOutput;
use haul_transfer::disk::{PartialStorage, blocking};
use tokio::time::Instant;

use crate::harness::{JobCase, serve};

/// A disk on which each write takes 400 ms.
#[derive(Debug)]
struct SlowStorage;

impl PartialStorage for SlowStorage {
    #[expect(
        clippy::disallowed_methods,
        reason = "a slow disk blocks the thread that writes: that is what is tested"
    )]
    fn write_at(&self, _offset: u64, _pieces: &[Bytes]) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(400));
        Ok(())
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(0)
    }
}

/// With as many writes in progress as there are reactor threads, a timer still fires on time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_writes_to_a_slow_disk_do_not_stall_the_reactor() {
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        writers.spawn(async {
            for _ in 0..2 {
                blocking(|| SlowStorage.write_at(0, &[])).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    let mut timer_task = tokio::task::JoinSet::new();
    timer_task.spawn(async {
        let mut largest_delay = Duration::ZERO;
        for _ in 0..50 {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            largest_delay = largest_delay.max(due.elapsed());
        }
        largest_delay
    });
    let largest_delay = timer_task.join_next().await.unwrap().unwrap();
    // A blocked reactor would be late by a whole write.
    assert!(
        largest_delay < Duration::from_millis(300),
        "a timer was late by {largest_delay:?}"
    );
    writers.join_all().await;
}

/// If the reader of the output is late, the origin is slowed down. That is not a stall, and the bytes are not buffered in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_slow_reader_of_the_output_slows_the_origin_down_and_is_not_a_stall() {
    let mut case = JobCase::new();
    let fifo = case.dir.path().join("fifo");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    case.output = Some(JobOutput::File(fifo.clone()));
    let file = ResourceContent::random(1, 64 << 20);
    let origin = Arc::new(serve(OriginResource::new(file.clone())).await);
    // Twice the stall timeout.
    let wait = case.client.stall_timeout * 2;
    let (start_reading, reading_allowed) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut fifo = std::fs::File::open(fifo).unwrap();
        reading_allowed.recv().unwrap();
        let mut output = Vec::new();
        io::Read::read_to_end(&mut fifo, &mut output).unwrap();
        output
    });
    let url = origin.url("/f.bin");
    // In a task of its own, since a write to a FIFO blocks its task.
    let mut watch = tokio::task::JoinSet::new();
    let watched = Arc::clone(&origin);
    watch.spawn(async move {
        tokio::time::sleep(wait).await;
        let sent = watched.bytes_sent();
        start_reading.send(()).unwrap();
        sent
    });
    let run = case.get(&url).await;
    let sent = watch.join_next().await.unwrap().unwrap();
    run.outcome();
    assert_eq!(run.retries(), 0);
    assert!(reader.join().unwrap() == file.to_vec());
    // Only socket buffers and one chunk can hold bytes.
    assert!(sent < file.length() / 2, "{sent} bytes were sent");
}

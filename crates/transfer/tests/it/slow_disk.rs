//! Row B7, and the promise that writes never stall the reactor.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_lab::{OriginResource, ResourceContent};
use haul_transfer::JobOutput;
use haul_transfer::disk::{PartialStorage, blocking};
use tokio::time::Instant;

use crate::harness::{JobCase, serve};

/// A disk that takes its time.
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

/// With as many writes under way as there are reactor threads, a timer still fires when it is due.
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
    let mut heart = tokio::task::JoinSet::new();
    heart.spawn(async {
        let mut worst = Duration::ZERO;
        for _ in 0..50 {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            worst = worst.max(due.elapsed());
        }
        worst
    });
    let worst = heart.join_next().await.unwrap().unwrap();
    // A stalled reactor would be late by a whole write.
    assert!(
        worst < Duration::from_millis(300),
        "a timer was late by {worst:?}"
    );
    writers.join_all().await;
}

/// Whoever takes the bytes late holds back the origin: neither is that a stall, nor do they pile up here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_reader_that_waits_holds_back_the_origin_and_is_no_stall() {
    let mut case = JobCase::new();
    let fifo = case.dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    case.output = Some(JobOutput::File(fifo.clone()));
    let all = ResourceContent::random(1, 64 << 20);
    let origin = Arc::new(serve(OriginResource::new(all.clone())).await);
    // Twice as long as what is taken for a stall.
    let wait = case.client.stall_timeout * 2;
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut fifo = std::fs::File::open(fifo).unwrap();
        waits.recv().unwrap();
        let mut output = Vec::new();
        io::Read::read_to_end(&mut fifo, &mut output).unwrap();
        output
    });
    let url = origin.url("/f.bin");
    // On its own, since a write to a FIFO blocks the task that makes it.
    let mut watch = tokio::task::JoinSet::new();
    let watched = Arc::clone(&origin);
    watch.spawn(async move {
        tokio::time::sleep(wait).await;
        let sent = watched.bytes_sent();
        go.send(()).unwrap();
        sent
    });
    let ran = case.get(&url).await;
    let sent = watch.join_next().await.unwrap().unwrap();
    ran.outcome();
    assert_eq!(ran.retries(), 0);
    assert!(reader.join().unwrap() == all.to_vec());
    // What the sockets' buffers and one piece on its way hold.
    assert!(sent < all.length() / 2, "{sent} bytes were sent");
}

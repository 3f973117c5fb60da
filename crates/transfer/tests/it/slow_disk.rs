//! Row B7, and the promise that writes never stall the reactor.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use haul_transfer::disk::{Storage, blocking};
use tokio::time::Instant;

/// A disk that takes its time.
#[derive(Debug)]
struct SlowDisk;

impl Storage for SlowDisk {
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
                blocking(|| SlowDisk.write_at(0, &[])).unwrap();
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

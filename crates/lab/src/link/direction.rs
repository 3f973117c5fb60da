//! One direction of a link: a delay line between a reader and a writer.
//!
//! The reader stamps each chunk with the time at which it is due and puts it in a queue; the writer waits for that time, then for
//! the rate. The queue is bounded by bytes, so that small reads do not make the line shorter than large ones would.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::bandwidth_limit::{self, BandwidthLimit};
use crate::stream_cut::StreamCut;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes in flight without a rate limit: 16 MiB are 160 MB/s at 100 ms.
const MAX_IN_FLIGHT: usize = 16 << 20;

/// With a rate limit, the capacity beyond the latency, as a time at that rate: the length of a short queue in a router.
const QUEUE_TIME: Duration = Duration::from_millis(20);

/// Chunks in the queue; the limit on bytes is reached first unless reads are tiny.
const MAX_CHUNKS: usize = 1 << 14;

/// How the script or a side broke a direction off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkError {
    /// A side was reset, or the script resets the connection.
    Reset,
    /// The script closes the connection.
    Close,
}

impl From<io::Error> for LinkError {
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

/// One direction of a connection through the link.
#[derive(Debug, Default)]
pub(super) struct LinkDirection {
    /// The time from the read of a byte to its write.
    pub(super) latency: Duration,
    pub(super) limits: Vec<BandwidthLimit>,
    pub(super) cut: Option<StreamCut>,
}

#[derive(Debug)]
struct InFlightChunk {
    /// When it is written.
    due_at: Instant,
    /// Empty at the end of the stream.
    bytes: Bytes,
    /// Its share of the capacity, released after it was written.
    _permit: OwnedSemaphorePermit,
}

impl LinkDirection {
    /// Carries bytes until the end, and reports each write to `sent`.
    pub(super) async fn relay(
        &self,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
        sent: impl Fn(u64),
    ) -> Result<(), LinkError> {
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
        tokio::try_join!(
            self.read_chunks(from, sender),
            self.write_chunks(to, receiver, sent)
        )?;
        Ok(())
    }

    /// How many bytes may be in flight.
    fn capacity(&self) -> usize {
        let rate = self.limits.iter().map(BandwidthLimit::rate).min();
        let bytes = rate.map_or(MAX_IN_FLIGHT as u128, |rate| {
            u128::from(rate) * (self.latency + QUEUE_TIME).as_millis() / 1000
        });
        usize::try_from(bytes)
            .unwrap_or(MAX_IN_FLIGHT)
            .clamp(2 * READ_BYTES, MAX_IN_FLIGHT)
    }

    async fn read_chunks(
        &self,
        mut from: ReadHalf<'_>,
        sender: mpsc::Sender<InFlightChunk>,
    ) -> Result<(), LinkError> {
        let permits = Arc::new(Semaphore::new(self.capacity()));
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // Reserves capacity for a whole read first: bytes in flight make the sender wait.
            let wanted = u32::try_from(READ_BYTES).unwrap_or(u32::MAX);
            let permit = Arc::clone(&permits).acquire_many_owned(wanted).await;
            let Ok(mut permit) = permit else {
                return Ok(());
            };
            let count = from.read(&mut buffer).await?;
            drop(permit.split(READ_BYTES - count));
            let chunk = InFlightChunk {
                due_at: Instant::now() + self.latency,
                bytes: Bytes::copy_from_slice(&buffer[..count]),
                _permit: permit,
            };
            if sender.send(chunk).await.is_err() || count == 0 {
                return Ok(());
            }
        }
    }

    async fn write_chunks(
        &self,
        mut to: WriteHalf<'_>,
        mut receiver: mpsc::Receiver<InFlightChunk>,
        sent: impl Fn(u64),
    ) -> Result<(), LinkError> {
        let limits: Vec<&BandwidthLimit> = self.limits.iter().collect();
        let burst = bandwidth_limit::smallest_burst(&limits).unwrap_or(READ_BYTES);
        let mut left = self.cut.map_or(u64::MAX, StreamCut::offset);
        while let Some(chunk) = receiver.recv().await {
            // A timer rounds up, even for a time that has passed.
            if chunk.due_at > Instant::now() {
                sleep_until(chunk.due_at).await;
            }
            for bytes in chunk.bytes.chunks(burst) {
                let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                bandwidth_limit::wait_for_all(&limits, bytes.len()).await;
                to.write_all(bytes).await?;
                sent(bytes.len() as u64);
                left -= bytes.len() as u64;
                if left == 0 {
                    return Err(match self.cut {
                        Some(StreamCut::Reset { .. }) => LinkError::Reset,
                        _ => LinkError::Close,
                    });
                }
            }
        }
        Ok(to.shutdown().await?)
    }
}

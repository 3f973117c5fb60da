//! One direction of a link: a delay line between a reader and a writer.
//!
//! The reader stamps each piece with the time at which it is due and puts it in a queue; the writer waits for that time, then for
//! the rate. The queue is bounded by bytes, so that small reads do not make the line shorter than large ones would.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::bandwidth_limit::{self, BandwidthLimit};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes under way where no rate says how many may be: 16 MiB are 160 MB/s at 100 ms.
const MAX_IN_FLIGHT: usize = 16 << 20;

/// Under a rate, what is held beyond the line itself: as long as a router's short queue.
const QUEUE_TIME: Duration = Duration::from_millis(20);

/// Pieces in the queue; bytes bind first unless reads are tiny.
const MAX_CHUNKS: usize = 1 << 14;

/// How a direction ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkError {
    /// By a reset of either side, or as one.
    Reset,
    /// By a cut that looks like an end.
    Close,
}

impl From<io::Error> for LinkError {
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

/// What is done in one direction.
#[derive(Debug, Default)]
pub(super) struct LinkDirection {
    /// From reading to writing.
    pub(super) latency: Duration,
    /// The smallest of the rates, in bytes a second.
    pub(super) rate: Option<u64>,
    /// All rates.
    pub(super) limits: Vec<BandwidthLimit>,
    /// After how many bytes it ends, and whether by a reset.
    pub(super) cut: Option<(u64, bool)>,
}

impl LinkDirection {
    /// How many bytes may be between the two sides.
    fn capacity(&self) -> usize {
        let held = self.rate.map_or(MAX_IN_FLIGHT as u128, |rate| {
            u128::from(rate) * (self.latency + QUEUE_TIME).as_millis() / 1000
        });
        usize::try_from(held)
            .unwrap_or(MAX_IN_FLIGHT)
            .clamp(2 * READ_BYTES, MAX_IN_FLIGHT)
    }
}

/// What is under way.
#[derive(Debug)]
struct InFlightChunk {
    /// When it arrives.
    due_at: Instant,
    /// Nothing at the end.
    bytes: Bytes,
    /// Its place in the line, given back when it has left.
    _permit: OwnedSemaphorePermit,
}

/// Carries both directions until both have ended, or one has broken; `told` of each piece that went down.
pub(super) async fn relay(
    (client, server): (&mut TcpStream, &mut TcpStream),
    (up, down): (LinkDirection, LinkDirection),
    told: &(impl Fn(u64) + Sync),
) -> Result<(), LinkError> {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        relay_direction((from_client, to_server), up, &|_| ()),
        relay_direction((from_server, to_client), down, told),
    )?;
    Ok(())
}

async fn relay_direction(
    (from, to): (ReadHalf<'_>, WriteHalf<'_>),
    way: LinkDirection,
    told: &(impl Fn(u64) + Sync),
) -> Result<(), LinkError> {
    let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
    tokio::try_join!(
        read_chunks(from, sender, &way),
        write_chunks(to, receiver, (&way, told))
    )?;
    Ok(())
}

async fn read_chunks(
    mut from: ReadHalf<'_>,
    sender: mpsc::Sender<InFlightChunk>,
    way: &LinkDirection,
) -> Result<(), LinkError> {
    let places = Arc::new(Semaphore::new(way.capacity()));
    let mut buffer = vec![0; READ_BYTES];
    loop {
        // Room for what may come, before it is read: what is not yet due keeps the sender waiting.
        let wanted = u32::try_from(READ_BYTES).unwrap_or(u32::MAX);
        let room = Arc::clone(&places).acquire_many_owned(wanted).await;
        let Ok(mut place) = room else {
            return Ok(());
        };
        let count = from.read(&mut buffer).await?;
        drop(place.split(READ_BYTES - count));
        let piece = InFlightChunk {
            due_at: Instant::now() + way.latency,
            bytes: Bytes::copy_from_slice(&buffer[..count]),
            _permit: place,
        };
        if sender.send(piece).await.is_err() || count == 0 {
            return Ok(());
        }
    }
}

async fn write_chunks(
    mut to: WriteHalf<'_>,
    mut receiver: mpsc::Receiver<InFlightChunk>,
    (way, told): (&LinkDirection, &(impl Fn(u64) + Sync)),
) -> Result<(), LinkError> {
    let paces: Vec<&BandwidthLimit> = way.limits.iter().collect();
    let quantum = bandwidth_limit::smallest_burst(&paces).unwrap_or(READ_BYTES);
    let (mut left, hard) = way.cut.unwrap_or((u64::MAX, false));
    while let Some(piece) = receiver.recv().await {
        // A timer would round up what is due already.
        if piece.due_at > Instant::now() {
            sleep_until(piece.due_at).await;
        }
        for part in piece.bytes.chunks(quantum) {
            let part = &part[..part.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            bandwidth_limit::wait_for_all(&paces, part.len()).await;
            to.write_all(part).await?;
            told(part.len() as u64);
            left -= part.len() as u64;
            if left == 0 {
                return Err(if hard {
                    LinkError::Reset
                } else {
                    LinkError::Close
                });
            }
        }
    }
    Ok(to.shutdown().await?)
}

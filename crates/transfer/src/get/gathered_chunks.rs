//! Chunks of a body that are written by one call.
//!
//! Every write is handed to another thread ([`blocking`](crate::disk::blocking)), which costs more than copying a few
//! kilobytes. So pieces are gathered until a write is worth that, but never for longer than [`MAX_WAIT`].

use std::time::Duration;

use bytes::Bytes;
use haul_net::{Error, FetchResponse};
use tokio::time::{Instant, timeout_at};

use super::download_monitor::BodyMeter;

/// How many bytes are gathered before a write. Larger saves calls, but the bytes leave the processor's cache before
/// they are copied to the file, and sixteen connections hold this much each.
const WRITE_SIZE: u64 = 512 * 1024;

/// How long bytes wait for more. A killed download loses what was not written, and a bar should not stutter.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Pieces of a body, as they arrived.
#[derive(Debug)]
pub(super) struct GatheredChunks {
    chunks: Vec<Bytes>,
    bytes: u64,
    /// When pieces were last written: what arrived since tells the rate.
    last_write: Instant,
}

impl GatheredChunks {
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            bytes: 0,
            last_write: Instant::now(),
        }
    }

    /// Waits for the next piece, and a little longer for what follows it. False at the body's end.
    ///
    /// `meter` counts bytes as they come and not as they are written: rates are taken over windows as short as [`MAX_WAIT`].
    pub(super) async fn gather(
        &mut self,
        response: &mut FetchResponse,
        meter: &BodyMeter,
    ) -> Result<bool, Error> {
        let _waiting = meter.waiting();
        let mut deadline = None;
        while self.bytes < WRITE_SIZE {
            let piece = match response.try_chunk() {
                Some(piece) => piece?,
                None if self.bytes == 0 && response.low_water() == 1 => response.chunk().await?,
                None => {
                    let end = *deadline.get_or_insert_with(|| Instant::now() + MAX_WAIT);
                    let Ok(piece) = timeout_at(end, response.chunk()).await else {
                        // Slower than before: from now on every byte wakes the task.
                        response.set_low_water(1);
                        if self.bytes == 0 {
                            continue;
                        }
                        break;
                    };
                    piece?
                }
            };
            let Some(piece) = piece else {
                return Ok(false);
            };
            meter.add(piece.len());
            self.push(piece);
        }
        self.update_low_water(response);
        Ok(true)
    }

    /// Sets the low-water mark to as many bytes as are worth waking for at this rate.
    fn update_low_water(&mut self, response: &mut FetchResponse) {
        let now = Instant::now();
        let seconds = (now - std::mem::replace(&mut self.last_write, now)).as_secs_f64();
        let rate = self.bytes as f64 / seconds;
        response.set_low_water(crate::get::low_water::low_water_mark(
            rate,
            response.remaining(),
        ));
    }

    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len() as u64;
        self.chunks.push(piece);
    }

    pub(super) fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Bytes in all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops all but the first bytes.
    pub(super) fn truncate(&mut self, keep: u64) {
        while self.bytes > keep {
            let Some(last) = self.chunks.last_mut() else {
                break;
            };
            let excess = self.bytes - keep;
            match usize::try_from(excess) {
                Ok(excess) if excess < last.len() => {
                    last.truncate(last.len() - excess);
                    self.bytes = keep;
                }
                _ => {
                    self.bytes -= last.len() as u64;
                    self.chunks.pop();
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn truncate_keeps_the_first_bytes(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9), keep in 0u64..90) {
            let whole = pieces.concat();
            let mut gathered = GatheredChunks::new();
            pieces.into_iter().for_each(|piece| gathered.push(piece.into()));
            gathered.truncate(keep);
            let keep = whole.len().min(usize::try_from(keep).unwrap());
            prop_assert_eq!(gathered.chunks.concat(), &whole[..keep]);
            prop_assert_eq!(gathered.bytes, keep as u64);
        }
    }
}

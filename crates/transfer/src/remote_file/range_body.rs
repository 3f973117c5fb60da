//! The range that was requested last: its response is read block by block, and requested again from where it broke.

use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::block_cache::BlockCache;
use super::part_response::PartResponse;
use super::read_ahead::{READ_BLOCK_BYTES, ReadAhead};
use super::source::RemoteFileSource;
use crate::error::GetError;

/// How long the rest of a response that nobody wants may take. A new connection takes a round trip or three.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct RangeBody {
    /// From the next block on.
    rest: Range<u64>,
    /// The bytes of that block that have come, if not all of it was in one chunk.
    block: BytesMut,
    /// What has come and was not looked at yet. It follows `block`.
    chunk: Bytes,
    /// The response that brings the rest. It is requested when bytes are missing.
    response: Option<PartResponse>,
}

impl RangeBody {
    /// A range that begins with a block, and the response to a request for it, if it was sent.
    pub(super) fn new(range: Range<u64>, response: Option<PartResponse>) -> Self {
        Self {
            rest: range,
            block: BytesMut::new(),
            chunk: Bytes::new(),
            response,
        }
    }

    /// What is still to be read, from the beginning of a block on.
    pub(super) fn rest(&self) -> Range<u64> {
        self.rest.clone()
    }

    /// The next block, and where it begins. Cancel safe.
    ///
    /// # Errors
    /// The error of a request that failed for good, or too often.
    pub(super) async fn next_block(
        &mut self,
        source: &mut RemoteFileSource,
    ) -> Result<(u64, Bytes), GetError> {
        loop {
            if let Some(block) = self.take_block() {
                return Ok(block);
            }
            self.chunk = self.next_chunk(source).await?;
        }
    }

    /// Reads the rest of the response into the cache if little is missing and comes soon: then its connection can be used again.
    pub(super) async fn leave(&mut self, cache: &mut BlockCache) {
        let drain = async {
            loop {
                while let Some((start, block)) = self.take_block() {
                    cache.insert(start, block);
                }
                let Some(response) = &mut self.response else {
                    return;
                };
                if !ReadAhead::is_worth_draining(response.missing()) {
                    return;
                }
                let Ok(chunk) = response.next_chunk().await else {
                    return;
                };
                self.chunk = chunk;
                self.end_response().await;
            }
        };
        // What came in time is enough.
        let _ = timeout(DRAIN_TIMEOUT, drain).await;
    }

    /// Where the next byte to come belongs.
    fn received(&self) -> u64 {
        self.rest.start + (self.block.len() + self.chunk.len()) as u64
    }

    /// The next block if all of it has come. Else all that has come is in `block`.
    fn take_block(&mut self) -> Option<(u64, Bytes)> {
        let length = READ_BLOCK_BYTES.min(self.rest.end - self.rest.start);
        let missing = usize::try_from(length).unwrap_or(0) - self.block.len();
        if length == 0 || self.chunk.len() < missing {
            if !self.chunk.is_empty() {
                self.block.reserve(missing);
            }
            self.block
                .extend_from_slice(&std::mem::take(&mut self.chunk));
            return None;
        }
        let last = self.chunk.split_to(missing);
        let block = if self.block.is_empty() {
            last
        } else {
            self.block.extend_from_slice(&last);
            std::mem::take(&mut self.block).freeze()
        };
        let start = self.rest.start;
        self.rest.start += length;
        Some((start, block))
    }

    /// Bytes that come next. Requests them if need be, and again after a failure that may pass.
    async fn next_chunk(&mut self, source: &mut RemoteFileSource) -> Result<Bytes, GetError> {
        loop {
            let Some(response) = &mut self.response else {
                let missing = self.received()..self.rest.end;
                self.response = Some(source.request_part(missing).await?);
                continue;
            };
            match source.unless_stopped(response.next_chunk()).await? {
                Ok(chunk) => {
                    source.on_bytes(chunk.len() as u64);
                    self.end_response().await;
                    return Ok(chunk);
                }
                Err(error) => {
                    let brought = response.brought();
                    self.response = None;
                    source.recover(*error, brought).await?;
                }
            }
        }
    }

    /// Gives back the connection of a response whose range was read to its end.
    async fn end_response(&mut self) {
        let ended = self.response.take_if(|response| response.missing() == 0);
        if let Some(ended) = ended {
            ended.end().await;
        }
    }
}

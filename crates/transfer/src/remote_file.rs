//! A file of one URL that is read at any offset: what a seekable file object of a program reads from.
//!
//! [`ReadAhead`] decides which ranges are requested. One response is open at a time ([`range_body`]), whose body is
//! read as far as reads need it; the blocks that were read last are kept ([`block_cache`]). Each request says which version it wants, and
//! each response must be of the version that the file was opened with ([`source`]): a file that changes is an error, never a mix. A file
//! that cannot be read so, since its server has no ranges or nothing tells its versions apart, is read whole into memory if it is small
//! ([`whole_file`]). A single range is read without opening the file ([`single_range`]).

mod block_cache;
mod part_response;
mod range_body;
mod read_ahead;
mod single_range;
mod source;
mod whole_file;

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use haul_net::Client;
use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::error::GetError;
use crate::recovery::RetryOptions;
use crate::remote_file::read_ahead::{READ_BLOCK_BYTES, ReadAhead, ReadStep};
use crate::response::ResponseContent;
use block_cache::BlockCache;
use part_response::PartResponse;
use range_body::RangeBody;
pub use single_range::RemoteFileMetadata;
use source::RemoteFileSource;
use whole_file::{WholeResponse, read_whole};

/// How much memory a read takes before its bytes come.
const MAX_RESERVED: usize = 8 << 20;

/// An open file. It holds at most one connection, which is closed when it is dropped.
///
/// A reader from front to back costs two requests in all, or one if the file is small. Memory: some megabytes, or the file where it is read
/// whole, up to 64 MiB.
#[derive(Debug)]
pub struct RemoteFile {
    size: u64,
    content: RemoteContent,
}

/// Where the bytes of a file are.
#[derive(Debug)]
enum RemoteContent {
    Memory(Bytes),
    Origin(Box<OriginFile>),
}

/// A file whose ranges are requested.
#[derive(Debug)]
struct OriginFile {
    source: RemoteFileSource,
    plan: ReadAhead,
    /// The range that was requested last.
    body: RangeBody,
    cache: BlockCache,
}

impl RemoteFile {
    /// Opens the file of a URL with one request, which also brings its first bytes. `headers` are the user's, beside those of the client.
    /// Requests that fail are sent again as `retry` says, here and in [`Self::read_at`]. Both end soon with [`GetError::Interrupted`] when
    /// `stop` is cancelled.
    ///
    /// # Errors
    /// [`NetworkError::NoRandomAccess`](crate::NetworkError::NoRandomAccess); else those of a download that has no file yet.
    pub async fn open(
        client: Client,
        url: Url,
        headers: HeaderMap,
        retry: RetryOptions,
        stop: CancellationToken,
    ) -> Result<Self, GetError> {
        let mut source = RemoteFileSource::new(client, url, headers, retry, stop);
        let (response, content) = source.request(ReadAhead::FIRST_REQUEST).await?;
        let (range, size, version) = match content {
            ResponseContent::Part {
                range,
                total,
                version,
            } if version.has_validator() => (range, total, version),
            content => {
                // Boxed: it is rare, and its future large.
                let first = WholeResponse { response, content };
                return Box::pin(Self::read_whole(source, first)).await;
            }
        };
        source.set_version(version);
        let requested_end = ReadAhead::FIRST_REQUEST.end.min(size);
        let response = PartResponse::new(response, &range);
        Ok(Self {
            size,
            content: RemoteContent::Origin(Box::new(OriginFile {
                source,
                plan: ReadAhead::new(size),
                body: RangeBody::new(0..requested_end, Some(response)),
                cache: BlockCache::default(),
            })),
        })
    }

    async fn read_whole(
        mut source: RemoteFileSource,
        first: WholeResponse,
    ) -> Result<Self, GetError> {
        let bytes = read_whole(&mut source, first).await?;
        Ok(Self {
            size: bytes.len() as u64,
            content: RemoteContent::Memory(bytes),
        })
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads `length` bytes from `offset` on; fewer only where the file ends. Cancel safe: dropped, it keeps what has come.
    ///
    /// # Errors
    /// [`VerificationError::VersionChanged`](crate::VerificationError::VersionChanged) when the origin has another version now; [`GetError::Interrupted`]; else the last error of a request
    /// that failed for good, or too often. A later read may work.
    pub async fn read_at(&mut self, offset: u64, length: usize) -> Result<Bytes, GetError> {
        let end = offset.saturating_add(length as u64).min(self.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        match &mut self.content {
            RemoteContent::Memory(bytes) => Ok(bytes.slice(index(offset)..index(end))),
            RemoteContent::Origin(file) => file.read(offset..end).await,
        }
    }
}

impl OriginFile {
    /// Reads a range that is within the file and not empty.
    async fn read(&mut self, range: Range<u64>) -> Result<Bytes, GetError> {
        let mut start = range.start / READ_BLOCK_BYTES * READ_BLOCK_BYTES;
        let part = |start: u64, block: &Bytes| {
            let within = |at: u64| index(at.saturating_sub(start)).min(block.len());
            block.slice(within(range.start)..within(range.end))
        };
        let first = self.block(start..range.end).await?;
        start += READ_BLOCK_BYTES;
        if range.end <= start {
            return Ok(part(start - READ_BLOCK_BYTES, &first));
        }
        let mut bytes = BytesMut::with_capacity(index(range.end - range.start).min(MAX_RESERVED));
        bytes.extend_from_slice(&part(start - READ_BLOCK_BYTES, &first));
        while start < range.end {
            let block = self.block(start..range.end).await?;
            bytes.extend_from_slice(&part(start, &block));
            start += READ_BLOCK_BYTES;
        }
        Ok(bytes.freeze())
    }

    /// The block at the start of `wanted`, which ends with the read that needs it.
    async fn block(&mut self, wanted: Range<u64>) -> Result<Bytes, GetError> {
        if let Some(block) = self.cache.get(wanted.start) {
            return Ok(block);
        }
        loop {
            match self.plan.next_step(wanted.clone(), &self.body.rest()) {
                ReadStep::ReadOn => {
                    let (start, block) = self.body.next_block(&mut self.source).await?;
                    self.cache.insert(start, block.clone());
                    if start == wanted.start {
                        return Ok(block);
                    }
                }
                ReadStep::Request(range) => {
                    self.body.leave(&mut self.cache).await;
                    self.body = RangeBody::new(range, None);
                }
            }
        }
    }
}

/// A position within something that is in memory.
fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

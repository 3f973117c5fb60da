//! Reads without an open file: one range, or the metadata of a file. Where the origin has ranges, each costs one request, for
//! exactly what is wanted.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use haul_net::{Client, FetchResponse};
use haul_plan::ResourceVersion;
use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::part_response::PartResponse;
use super::range_body::RangeBody;
use super::source::RemoteFileSource;
use super::whole_file::{WholeResponse, read_whole};
use super::{MAX_RESERVED, RemoteFile, index};
use crate::error::GetError;
use crate::get::AttemptError;
use crate::recovery::RetryOptions;
use crate::response::{RequestFailure, ResponseContent, UnusableResponse};

/// What a response says of a file.
#[derive(Debug, Clone)]
pub struct RemoteFileMetadata {
    /// Bytes in the file, where the origin says so.
    pub size: Option<u64>,
    pub version: ResourceVersion,
}

impl RemoteFile {
    /// Reads a range of a file that is not opened: fewer bytes where the file ends, none behind it. An end of `u64::MAX` is open. All bytes
    /// are of one version. Other arguments as in [`RemoteFile::open`].
    ///
    /// # Errors
    /// As [`RemoteFile::open`] and [`RemoteFile::read_at`].
    pub async fn read_range(
        client: Client,
        url: Url,
        headers: HeaderMap,
        retry: RetryOptions,
        stop: CancellationToken,
        range: Range<u64>,
    ) -> Result<Bytes, GetError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let source = RemoteFileSource::new(client, url, headers, retry, stop);
        RangeRead { source, range }.read().await
    }

    /// Asks for the size and the version of a file, by its first byte. Arguments as in [`RemoteFile::open`].
    ///
    /// # Errors
    /// Those of [`RemoteFile::open`], but for files without random access.
    pub async fn fetch_metadata(
        client: Client,
        url: Url,
        headers: HeaderMap,
        retry: RetryOptions,
        stop: CancellationToken,
    ) -> Result<RemoteFileMetadata, GetError> {
        let mut source = RemoteFileSource::new(client, url, headers, retry, stop);
        let (response, content) = source.request(0..1).await?;
        let size = content.file_length();
        let version = match content {
            ResponseContent::Part { version, .. }
            | ResponseContent::Whole { version, .. }
            | ResponseContent::Empty { version } => version,
            ResponseContent::NotModified => unreachable!("no condition was sent"),
        };
        response.discard().await;
        Ok(RemoteFileMetadata { size, version })
    }
}

struct RangeRead {
    source: RemoteFileSource,
    /// Not empty.
    range: Range<u64>,
}

impl RangeRead {
    async fn read(mut self) -> Result<Bytes, GetError> {
        loop {
            let sent = self.source.request_once(self.range.clone()).await?;
            let failed = match sent {
                Ok((response, content)) => match self.read_response(response, content).await? {
                    Ok(bytes) => return Ok(bytes),
                    Err(failed) => failed,
                },
                Err(failed) => failed,
            };
            match failed.failure {
                Some(RequestFailure::PastEnd) => return Ok(Bytes::new()),
                Some(RequestFailure::RangeIgnored) => self.source.give_up_ranges(),
                _ => self.source.recover(*failed, 0).await?,
            }
        }
    }

    async fn read_response(
        &mut self,
        response: FetchResponse,
        content: ResponseContent,
    ) -> Result<Result<Bytes, Box<AttemptError>>, GetError> {
        match content {
            ResponseContent::Part {
                range,
                total,
                version,
            } => {
                let part = PartResponse::new(response, &range);
                let wanted = self.range.start..self.range.end.min(total);
                if version.has_validator() {
                    self.source.set_version(version);
                    return self.read_versioned(part, wanted).await.map(Ok);
                }
                self.read_one_response(part, &wanted).await
            }
            content => {
                // Boxed: it is rare, and its future large.
                let first = WholeResponse { response, content };
                let bytes = Box::pin(read_whole(&mut self.source, first)).await?;
                let within = |at: u64| index(at).min(bytes.len());
                Ok(Ok(
                    bytes.slice(within(self.range.start)..within(self.range.end))
                ))
            }
        }
    }

    /// Reads a range of the version of its first response, over as many responses as it takes.
    async fn read_versioned(
        &mut self,
        part: PartResponse,
        wanted: Range<u64>,
    ) -> Result<Bytes, GetError> {
        let mut bytes = reserve(&wanted);
        let mut body = RangeBody::new(wanted, Some(part));
        while !body.rest().is_empty() {
            let (_, block) = body.next_block(&mut self.source).await?;
            bytes.extend_from_slice(&block);
        }
        Ok(bytes.freeze())
    }

    /// Reads a range of which nothing tells the version: one response has to bring all of it.
    async fn read_one_response(
        &self,
        mut part: PartResponse,
        wanted: &Range<u64>,
    ) -> Result<Result<Bytes, Box<AttemptError>>, GetError> {
        let mut bytes = reserve(wanted);
        if part.missing() < wanted.end - wanted.start {
            let failure = RequestFailure::Unusable(UnusableResponse::WrongRange);
            return Ok(Err(part.error(failure)));
        }
        while part.missing() > 0 {
            match self.source.unless_stopped(part.next_chunk()).await? {
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(failed) => return Ok(Err(failed)),
            }
        }
        part.end().await;
        Ok(Ok(bytes.freeze()))
    }
}

/// Memory for a range, or for its beginning.
fn reserve(range: &Range<u64>) -> BytesMut {
    BytesMut::with_capacity(index(range.end - range.start).min(MAX_RESERVED))
}

//! Reads the body of an upload in portions.

use std::future::Future;

use bytes::Bytes;

use super::UploadError;
use crate::http::coalesce::CoalescedChunks;
use crate::http::request_body::RequestBody;

/// Where an upload's bytes come from.
pub(crate) trait UploadSource: Send {
    /// The next chunk; `None` at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, UploadError>> + Send;

    /// Whether the source is known to have ended.
    fn is_finished(&self) -> bool;
}

impl UploadSource for RequestBody {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
        let next = futures_util::StreamExt::next(self).await;
        next.transpose()
            .map_err(|error| UploadError::Broken(error.into()))
    }

    fn is_finished(&self) -> bool {
        self.is_end_stream()
    }
}

/// The body of an upload.
pub(super) struct UploadBody<S> {
    source: S,
    /// Bytes that the body may still have.
    remaining: u64,
    /// Whether the whole body has been read.
    pub(super) is_finished: bool,
}

impl<S: UploadSource> UploadBody<S> {
    /// Reads at most `max_bytes`.
    pub(super) fn new(source: S, max_bytes: u64) -> Self {
        Self {
            source,
            remaining: max_bytes,
            is_finished: false,
        }
    }

    /// Reads at least `len` bytes, or up to the end.
    pub(super) async fn read(&mut self, room: usize) -> Result<Vec<Bytes>, UploadError> {
        let mut chunks = CoalescedChunks::default();
        while chunks.bytes() < room && !self.is_finished {
            let Some(data) = self.source.next_chunk().await? else {
                self.is_finished = true;
                break;
            };
            self.remaining = self
                .remaining
                .checked_sub(data.len() as u64)
                .ok_or(UploadError::TooLong)?;
            chunks.push(data);
            self.is_finished = self.source.is_finished();
        }
        Ok(chunks.into_chunks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of chunks of one size, without end.
    struct EndlessSmallChunks(Bytes);

    impl UploadSource for EndlessSmallChunks {
        async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
            Ok(Some(self.0.clone()))
        }

        fn is_finished(&self) -> bool {
            false
        }
    }

    /// The client's chunk size must not decide how much memory an upload takes.
    #[tokio::test]
    async fn many_small_chunks_are_copied_together() {
        const LOAD: usize = 512 << 10;
        for chunk in [1, 2, 100] {
            let mut body =
                UploadBody::new(EndlessSmallChunks(Bytes::from(vec![b'x'; chunk])), u64::MAX);
            let chunks = body.read(LOAD).await.expect("a load");
            let bytes: usize = chunks.iter().map(Bytes::len).sum();
            assert!((LOAD..LOAD + chunk).contains(&bytes), "{bytes}");
            assert_eq!(chunks.len(), 1);
        }
    }
}

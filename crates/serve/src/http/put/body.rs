//! An upload's bytes as they come in, gathered into loads.

use std::future::Future;

use bytes::Bytes;

use super::UploadError;
use crate::http::coalesce::CoalescedChunks;
use crate::http::request_body::RequestBody;

/// Where an upload's bytes come from.
pub(crate) trait UploadSource: Send {
    /// The next of them; `None` when all have come.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, UploadError>> + Send;

    /// Whether it is known that none will come.
    fn is_over(&self) -> bool;
}

impl UploadSource for RequestBody {
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        let next = futures_util::StreamExt::next(self).await;
        next.transpose()
            .map_err(|error| UploadError::Broken(error.into()))
    }

    fn is_over(&self) -> bool {
        self.is_end()
    }
}

/// An upload's bytes as they come in.
pub(super) struct UploadBody<S> {
    source: S,
    /// Bytes that may still come.
    left: u64,
    /// Whether all of it has come.
    pub(super) is_over: bool,
}

impl<S: UploadSource> UploadBody<S> {
    /// Takes at most `most` bytes.
    pub(super) fn new(source: S, most: u64) -> Self {
        Self {
            source,
            left: most,
            is_over: false,
        }
    }

    /// Gathers `room` bytes, or what there is.
    pub(super) async fn load(&mut self, room: usize) -> Result<Vec<Bytes>, UploadError> {
        let mut load = CoalescedChunks::default();
        while load.bytes() < room && !self.is_over {
            let Some(data) = self.source.next().await? else {
                self.is_over = true;
                break;
            };
            self.left = self
                .left
                .checked_sub(data.len() as u64)
                .ok_or(UploadError::TooLong)?;
            load.push(data);
            self.is_over = self.source.is_over();
        }
        Ok(load.into_pieces())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body in pieces of this many bytes, without end.
    struct EndlessSmallChunks(Bytes);

    impl UploadSource for EndlessSmallChunks {
        async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
            Ok(Some(self.0.clone()))
        }

        fn is_over(&self) -> bool {
            false
        }
    }

    /// What an upload holds is not of its peer's making.
    #[tokio::test]
    async fn a_load_of_many_small_pieces_is_few() {
        const LOAD: usize = 512 << 10;
        for piece in [1, 2, 100] {
            let mut intake =
                UploadBody::new(EndlessSmallChunks(Bytes::from(vec![b'x'; piece])), u64::MAX);
            let load = intake.load(LOAD).await.expect("a load");
            let bytes: usize = load.iter().map(Bytes::len).sum();
            assert!((LOAD..LOAD + piece).contains(&bytes), "{bytes}");
            assert_eq!(load.len(), 1);
        }
    }
}

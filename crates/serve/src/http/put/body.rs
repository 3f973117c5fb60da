//! Reads the body of an upload in portions.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use super::UploadError;
use crate::http::request_body::IncomingBody;

/// Where an upload's bytes come from.
pub trait UploadSource: Send {
    /// The next chunk; `None` at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, UploadError>> + Send;

    /// Whether the source is known to have ended.
    fn is_finished(&self) -> bool;

    /// The trailer fields, at the end.
    fn take_trailers(&mut self) -> Option<HeaderMap> {
        None
    }
}

impl UploadSource for IncomingBody {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
        let next = futures_util::StreamExt::next(self).await;
        next.transpose()
            .map_err(|error| UploadError::Broken(error.into()))
    }

    fn is_finished(&self) -> bool {
        self.is_end_stream()
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        Self::take_trailers(self)
    }
}

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

/// Chunks of at least this many bytes are kept as they are: their overhead is small, and a copy
/// would cost more.
const KEEP_MIN: usize = 4 << 10;

/// Chunks in order.
///
/// Copies small chunks of a request body together before they are written.
///
/// The client chooses the length of a chunk: a chunk or an HTTP/2 frame may have one byte. Kept
/// alone, that byte costs thirty times as much, and keeps alive the buffer of hyper's that it was
/// read into. A bound on bytes would then not bound memory. So short chunks are copied together,
/// and only long ones, or a single one, are kept as they are.
#[derive(Debug, Default)]
pub(super) struct CoalescedChunks {
    /// Finished chunks.
    chunks: Vec<Bytes>,
    /// Short chunks that follow them.
    short: ShortChunks,
    bytes: usize,
}

#[derive(Debug, Default)]
enum ShortChunks {
    #[default]
    None,
    /// The usual case: a small body, or the end of a long one.
    One(Bytes),
    /// Copied together.
    Many(BytesMut),
}

impl CoalescedChunks {
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        if chunk.len() >= KEEP_MIN {
            self.seal();
            self.chunks.push(chunk);
            return;
        }
        self.short = match std::mem::take(&mut self.short) {
            ShortChunks::None => ShortChunks::One(chunk),
            ShortChunks::One(first) => {
                let mut many = BytesMut::with_capacity(KEEP_MIN.max(first.len() + chunk.len()));
                many.extend_from_slice(&first);
                many.extend_from_slice(&chunk);
                ShortChunks::Many(many)
            }
            ShortChunks::Many(mut many) => {
                many.extend_from_slice(&chunk);
                ShortChunks::Many(many)
            }
        };
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_chunks(mut self) -> Vec<Bytes> {
        self.seal();
        self.chunks
    }

    fn seal(&mut self) {
        match std::mem::take(&mut self.short) {
            ShortChunks::None => {}
            ShortChunks::One(chunk) => self.chunks.push(chunk),
            ShortChunks::Many(many) => self.chunks.push(many.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    fn gathered(chunks: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
        let mut gathered = CoalescedChunks::default();
        chunks.into_iter().for_each(|chunk| gathered.push(chunk));
        gathered.into_chunks()
    }

    #[test]
    fn long_or_single_chunks_are_not_copied() {
        let (one, long) = (Bytes::from(vec![1; 10]), Bytes::from(vec![2; KEEP_MIN]));
        for given in [vec![one.clone()], vec![long.clone(), one, long]] {
            let came = gathered(given.clone());
            let places = |all: &[Bytes]| all.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>();
            assert_eq!(places(&came), places(&given));
        }
    }

    #[test]
    fn one_byte_does_not_keep_a_buffer_alive() {
        let large = Bytes::from(vec![0; 1 << 20]);
        let came = gathered((0..1000).map(|at| large.slice(at..=at)));
        assert_eq!(came.len(), 1);
        assert!(large.is_unique(), "nobody else has it");
    }

    proptest! {
        #[test]
        fn bytes_stay_in_order_and_chunks_are_few(
            lengths in prop::collection::vec(prop_oneof![0_usize..10, 4000_usize..4200], 0..60),
        ) {
            let mut next = 0_u8;
            let chunks: Vec<Bytes> = lengths.iter().map(|length| {
                (0..*length).map(|_| { next = next.wrapping_add(7); next }).collect()
            }).collect();
            let mut all = CoalescedChunks::default();
            chunks.iter().for_each(|chunk| all.push(chunk.clone()));
            prop_assert_eq!(all.bytes(), lengths.iter().sum::<usize>());
            let came = all.into_chunks();
            prop_assert_eq!(came.concat(), chunks.concat());
            // Of two neighbours at least one is long.
            prop_assert!(came.windows(2).all(|two| two[0].len() >= KEEP_MIN || two[1].len() >= KEEP_MIN));
        }
    }
}

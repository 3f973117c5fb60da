//! Several ranges in one answer: multipart/byteranges (RFC 9110 14.6).

use std::ops::Range;

use http::HeaderValue;

use crate::body::{BodyChunk, ServeBody};

/// The parts of one answer.
#[derive(Debug)]
pub(crate) struct MultipartRanges {
    /// What stands between them: random, so that no file holds it but by chance.
    boundary: String,
    /// Of the file.
    kind: HeaderValue,
    /// Of the file.
    len: u64,
}

impl MultipartRanges {
    /// Parts of a file of some type and length.
    pub(crate) fn new(kind: HeaderValue, len: u64) -> Self {
        Self {
            boundary: format!("{:032x}", rand::random::<u128>()),
            kind,
            len,
        }
    }

    /// The answer's own type.
    pub(crate) fn media_type(&self) -> HeaderValue {
        let text = format!("multipart/byteranges; boundary={}", self.boundary);
        HeaderValue::try_from(text)
            .unwrap_or_else(|_| HeaderValue::from_static("multipart/byteranges"))
    }

    /// The answer's body, from the bodies of its parts.
    pub(crate) fn body(
        &self,
        ranges: &[Range<u64>],
        mut piece: impl FnMut(Range<u64>) -> BodyChunk,
    ) -> ServeBody {
        let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
        for (index, range) in ranges.iter().enumerate() {
            pieces.push(BodyChunk::Bytes(self.head(index, range).into()));
            pieces.push(piece(range.clone()));
        }
        pieces.push(BodyChunk::Bytes(
            format!("\r\n--{}--\r\n", self.boundary).into(),
        ));
        ServeBody::pieces(pieces)
    }

    fn head(&self, index: usize, range: &Range<u64>) -> String {
        let before = if index == 0 { "" } else { "\r\n" };
        let kind = self.kind.to_str().unwrap_or("application/octet-stream");
        format!(
            "{before}--{}\r\nContent-Type: {kind}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            self.boundary,
            range.start,
            range.end - 1,
            self.len
        )
    }
}

//! Several ranges in one response: multipart/byteranges (RFC 9110 14.6).

use std::ops::Range;

use http::HeaderValue;

use crate::body::{BodyChunk, ServeBody};

/// The parts of one response.
#[derive(Debug)]
pub(crate) struct MultipartRanges {
    /// The boundary between parts: random, so that a file contains it only by chance.
    boundary: String,
    /// The file's media type.
    content_type: HeaderValue,
    /// The file's length.
    len: u64,
}

impl MultipartRanges {
    /// Parts of a file of this type and length.
    pub(crate) fn new(content_type: HeaderValue, len: u64) -> Self {
        Self {
            boundary: format!("{:032x}", rand::random::<u128>()),
            content_type,
            len,
        }
    }

    /// The Content-Type of the response.
    pub(crate) fn media_type(&self) -> HeaderValue {
        let text = format!("multipart/byteranges; boundary={}", self.boundary);
        HeaderValue::try_from(text)
            .unwrap_or_else(|_| HeaderValue::from_static("multipart/byteranges"))
    }

    /// The body of the response, from the bodies of its parts.
    pub(crate) fn body(
        &self,
        ranges: &[Range<u64>],
        mut chunk: impl FnMut(Range<u64>) -> BodyChunk,
    ) -> ServeBody {
        let mut chunks = Vec::with_capacity(ranges.len() * 2 + 1);
        for (index, range) in ranges.iter().enumerate() {
            chunks.push(BodyChunk::Bytes(self.head(index, range).into()));
            chunks.push(chunk(range.clone()));
        }
        chunks.push(BodyChunk::Bytes(
            format!("\r\n--{}--\r\n", self.boundary).into(),
        ));
        ServeBody::chunks(chunks)
    }

    fn head(&self, index: usize, range: &Range<u64>) -> String {
        let before = if index == 0 { "" } else { "\r\n" };
        let content_type = self
            .content_type
            .to_str()
            .unwrap_or("application/octet-stream");
        format!(
            "{before}--{}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            self.boundary,
            range.start,
            range.end - 1,
            self.len
        )
    }
}

//! How the bytes of a file are sent: read at once, sent by the kernel, or read chunk by chunk.
//!
//! That depends on the connection and on the number of bytes. Bytes that are read at once belong to
//! the version that was opened a moment before, and the file is not checked again: a check costs
//! half a microsecond of the ten or so that a small response takes. For everything longer the file
//! is checked before its last bytes are sent: by a [`FileRangeReader`], or by the connection's I/O
//! where the kernel sends it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;

use crate::body::{BodyChunk, FileRangeReader, ServeBody};
use crate::sendfile::{MappedBody, MappingRegistry};
use crate::store::{DiskThreads, OpenObject};

/// Bodies of up to this many bytes are sent in one call with the head: copying them twice costs
/// less than a second call.
const WITH_HEAD_MAX: u64 = 8 << 10;

/// Bodies of up to this many bytes, if the kernel cannot send them, are read as one chunk.
const ONE_READ_MAX: u64 = 64 << 10;

/// The ranges of one file, to be sent on one connection.
#[derive(Debug)]
pub(super) struct FileBody<'a> {
    disk: &'a DiskThreads,
    object: &'a Arc<OpenObject>,
    /// Present if the kernel sends the file.
    mapped: Option<Arc<MappedBody>>,
    /// Bytes of all ranges.
    total: u64,
}

impl<'a> FileBody<'a> {
    /// For `total` bytes of a file.
    pub(super) fn new(
        disk: &'a DiskThreads,
        mappings: Option<&MappingRegistry>,
        object: &'a Arc<OpenObject>,
        total: u64,
    ) -> Self {
        // On a remote file system even a check may block, so such files are read on blocking
        // threads.
        let mappings = mappings.filter(|_| total > WITH_HEAD_MAX && !object.is_remote());
        // If the system has no room for a mapping, the file is read instead.
        let mapped = mappings.and_then(|mappings| {
            let mapped = MappedBody::new(Arc::clone(object))?;
            mappings.register(&mapped);
            Some(mapped)
        });
        Self {
            disk,
            object,
            mapped,
            total,
        }
    }

    pub(super) fn single(&mut self, range: Range<u64>) -> ServeBody {
        match self.chunk(range) {
            BodyChunk::Bytes(bytes) => ServeBody::whole(bytes),
            chunk => ServeBody::chunks(std::iter::once(chunk)),
        }
    }

    pub(super) fn chunk(&mut self, range: Range<u64>) -> BodyChunk {
        if range.is_empty() {
            return BodyChunk::Bytes(Bytes::new());
        }
        if let Some(slice) = self
            .mapped
            .as_ref()
            .and_then(|mapped| mapped.slice(range.clone()))
        {
            return BodyChunk::Bytes(slice);
        }
        if self.total <= ONE_READ_MAX
            && let Some(bytes) = self.try_read(&range)
        {
            return BodyChunk::Bytes(bytes);
        }
        self.reader(range)
    }

    fn reader(&self, range: Range<u64>) -> BodyChunk {
        BodyChunk::Reader(Box::new(FileRangeReader::new(
            Arc::clone(self.object),
            self.disk.clone(),
            range,
        )))
    }

    /// The whole range, if it is in memory.
    fn try_read(&self, range: &Range<u64>) -> Option<Bytes> {
        let len = usize::try_from(range.end - range.start).ok()?;
        let mut buffer = vec![0; len];
        let read = self.object.try_read(&mut buffer, range.start).ok()??;
        // Fewer bytes mean that the file was truncated: the reader reports that.
        (read == len).then(|| buffer.into())
    }
}

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

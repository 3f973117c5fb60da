//! A range of a file: its checksums, and its bytes as the body of a request.
//!
//! A range is read chunk by chunk while it is sent. Chunks that are in the page cache are read in place; others on a thread that may
//! wait. Buffers are used again: a fresh one for each chunk costs as much as reading it.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use haul_digest::{Crc64Nvme, DigestSet};
use haul_net::{BodySource, BodyStream, RequestBody};
use haul_plan::{Checksum, DigestAlgorithm, UnixTime};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::slots::SlotActivity;
use crate::disk::blocking;

/// Bytes of a chunk: what a socket takes at once on a fast link.
const CHUNK: usize = 256 << 10;

/// A file that is uploaded, and what it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    pub(super) snapshot: FileSnapshot,
    /// All of it, if it is small: read when it was opened, so that whatever happens to the file later does not matter.
    content: Option<Bytes>,
}

/// What shows that a file is still the same (row F12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSnapshot {
    pub(super) size: u64,
    /// The modification time in nanoseconds since 1970.
    pub(super) modified: i128,
    /// The time of the inode's last change: setting the modification time back changes it.
    pub(super) changed: i128,
    pub(super) inode: u64,
    pub(super) mode: u32,
}

impl OpenFile {
    /// Opens a file, and reads it if it is small. Whoever calls this has looked at the file before, so opening it waits for nothing; what
    /// is not in the page cache is read where this thread may wait. A hand-over of this thread for each of many small files would cost
    /// more than all the rest.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let snapshot = FileSnapshot::of(&file)?;
        let mut opened = Self {
            file,
            snapshot,
            content: None,
        };
        if snapshot.size > CHUNK as u64 {
            return Ok(opened);
        }
        // Files of /proc have no size, and content. An empty object in their place would be a wrong one.
        if snapshot.size == 0 && opened.file.read_at(&mut [0], 0)? > 0 {
            let text = "its size is 0, but it is not empty: send it through standard input";
            return Err(io::Error::other(text));
        }
        let mut content = vec![0; chunk_length(0, snapshot.size)];
        let mut filled = 0;
        while filled < content.len() {
            filled += read_cached_or_wait(&opened.file, &mut content[filled..], filled as u64)?;
        }
        // A file that is being written to is read while it is sent, so that the change is noticed.
        if opened.is_unchanged(path)? {
            opened.content = Some(content.into());
        }
        Ok(opened)
    }

    /// A range as the body of a request, and its SHA-256 if it was computed for a signature.
    pub(super) fn body(
        self: &Arc<Self>,
        range: Range<u64>,
        sent: &SentBytes,
        sha256: Option<Vec<u8>>,
    ) -> RequestBody {
        match &self.content {
            // A body that does not exist has no source.
            _ if range.is_empty() => RequestBody::Empty,
            Some(content) if range == (0..self.snapshot.size) => {
                sent.add(self.snapshot.size);
                RequestBody::Bytes(content.clone())
            }
            _ => RequestBody::Source(Arc::new(FilePart {
                file: Arc::clone(self),
                range,
                sent: sent.clone(),
                sha256,
            })),
        }
    }

    /// Whether the open file, and the one at the path, are what was opened. Does not matter where the content was read at once.
    pub(super) fn is_unchanged(&self, path: &Path) -> io::Result<bool> {
        if self.content.is_some() {
            return Ok(true);
        }
        let now = FileSnapshot::of(&self.file)?;
        let at_path =
            std::fs::metadata(path).and_then(|metadata| FileSnapshot::of_metadata(&metadata));
        Ok(now == self.snapshot && at_path.is_ok_and(|there| there == self.snapshot))
    }

    /// The CRC-64/NVME of a range, and other checksums of it. May wait for the disk.
    pub(super) fn checksums(
        &self,
        range: Range<u64>,
        algorithms: &[DigestAlgorithm],
    ) -> io::Result<(u64, Vec<Checksum>)> {
        let (mut crc, mut digests) = (Crc64Nvme::new(), DigestSet::new(algorithms.iter().copied()));
        let mut update = |bytes: &[u8]| {
            crc.update(bytes);
            if !digests.is_empty() {
                digests.update(bytes);
            }
        };
        match &self.content {
            Some(content) if range == (0..self.snapshot.size) => update(content),
            _ => self.read(range, update)?,
        }
        Ok((crc.finish(), finished(digests)))
    }

    /// Whether nothing of it has to be read any more.
    pub(super) fn is_in_memory(&self) -> bool {
        self.content.is_some()
    }

    /// Reads a range, chunk by chunk.
    fn read(&self, range: Range<u64>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let room = chunk_length(at, range.end);
            let read = read_at(&self.file, &mut buffer[..room], at)?;
            take(&buffer[..read]);
            at += read as u64;
        }
        Ok(())
    }
}

impl FileSnapshot {
    fn of(file: &File) -> io::Result<Self> {
        Self::of_metadata(&file.metadata()?)
    }

    fn of_metadata(metadata: &Metadata) -> io::Result<Self> {
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self {
            size: metadata.len(),
            modified: UnixTime::from_stat(metadata.mtime(), metadata.mtime_nsec()).nanoseconds(),
            changed: UnixTime::from_stat(metadata.ctime(), metadata.ctime_nsec()).nanoseconds(),
            inode: metadata.ino(),
            mode: metadata.mode(),
        })
    }
}

/// The checksums that were computed.
pub(super) fn finished(digests: DigestSet) -> Vec<Checksum> {
    let computed = digests.finish().into_iter().map(|computed| Checksum {
        algorithm: computed.algorithm,
        digest: Some(computed.digest),
    });
    computed.collect()
}

/// A checksum that S3 calls CRC64NVME.
pub(super) fn crc64nvme_checksum(crc: u64) -> Checksum {
    Checksum {
        algorithm: DigestAlgorithm::Crc64Nvme,
        digest: Some(crc.to_be_bytes().to_vec()),
    }
}

/// The CRC-64/NVME among checksums.
pub(super) fn crc64nvme_in(checksums: &[Checksum]) -> Option<u64> {
    let found = checksums
        .iter()
        .find(|checksum| checksum.algorithm == DigestAlgorithm::Crc64Nvme)?;
    let digest = found.digest.as_deref()?;
    Some(u64::from_be_bytes(digest.try_into().ok()?))
}

/// A range of a file as a body.
#[derive(Debug, Clone)]
pub(super) struct FilePart {
    pub(super) file: Arc<OpenFile>,
    pub(super) range: Range<u64>,
    /// Counts the bytes that were handed over.
    pub(super) sent: SentBytes,
    /// Its SHA-256, if its signature covers that.
    pub(super) sha256: Option<Vec<u8>>,
}

/// Counts the bytes of a request that were handed over: of one attempt, and of all that a job and a run send.
#[derive(Debug, Clone, Default)]
pub(super) struct SentBytes {
    pub(super) attempt: Arc<AtomicU64>,
    pub(super) job: Arc<AtomicU64>,
    pub(super) run: Arc<AtomicU64>,
    /// The slot of the request, if it tells when it sends.
    pub(super) slot: Option<Arc<SlotActivity>>,
}

impl SentBytes {
    /// A new attempt: what the last one sent counts no more for the job.
    pub(super) fn restart(&self) {
        let wasted = self.attempt.swap(0, Ordering::Relaxed);
        self.job.fetch_sub(wasted, Ordering::Relaxed);
    }

    pub(super) fn add(&self, bytes: u64) {
        for counter in [&self.attempt, &self.job, &self.run] {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
        if let Some(slot) = &self.slot {
            slot.begin();
        }
    }
}

impl BodySource for FilePart {
    fn length(&self) -> Option<u64> {
        Some(self.range.end - self.range.start)
    }

    fn open(&self) -> io::Result<BodyStream> {
        Ok(Box::pin(FilePartStream {
            part: self.clone(),
            at: self.range.start,
            buffers: Arc::default(),
        }))
    }

    fn sha256(&self) -> Option<&[u8]> {
        self.sha256.as_deref()
    }
}

/// Reads a part.
struct FilePartStream {
    part: FilePart,
    at: u64,
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Stream for FilePartStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let end = self.part.range.end;
        if self.at >= end {
            return Poll::Ready(None);
        }
        let chunk = ReusedBuffer::take(&self.buffers);
        let read = chunk.fill(&self.part.file.file, self.at, chunk_length(self.at, end));
        Poll::Ready(Some(read.map(|chunk| {
            self.at += chunk.length as u64;
            self.part.sent.add(chunk.length as u64);
            Bytes::from_owner(chunk)
        })))
    }
}

/// A buffer that goes back to its pool when the connection has sent it.
struct ReusedBuffer {
    bytes: Vec<u8>,
    length: usize,
    pool: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl ReusedBuffer {
    fn take(pool: &Arc<Mutex<Vec<Vec<u8>>>>) -> Self {
        let bytes = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self {
            bytes: bytes.unwrap_or_else(|| vec![0; CHUNK]),
            length: 0,
            pool: Arc::clone(pool),
        }
    }

    /// Reads a chunk: at once if it is in memory, else where this thread may wait.
    fn fill(mut self, file: &File, at: u64, room: usize) -> io::Result<Self> {
        self.length = read_cached_or_wait(file, &mut self.bytes[..room], at)?;
        Ok(self)
    }
}

impl AsRef<[u8]> for ReusedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for ReusedBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.pool
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(bytes);
    }
}

fn chunk_length(at: u64, end: u64) -> usize {
    usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK)
}

/// Reads at least one byte: at once if it is in memory, else where this thread may wait.
fn read_cached_or_wait(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let cached = preadv2(
        file,
        &mut [IoSliceMut::new(buffer)],
        at,
        ReadWriteFlags::NOWAIT,
    );
    match cached {
        Ok(read) if read > 0 => Ok(read),
        Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => {
            blocking(|| read_at(file, buffer, at))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads at least one byte.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, at) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was read",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

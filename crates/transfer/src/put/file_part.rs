//! A range of a file: its checksums, and its bytes as the body of a request.
//!
//! A range is read chunk by chunk while it is sent. Chunks that are in the page cache are read in place; others on a thread that may
//! wait. Buffers are used again: a fresh one for each chunk costs as much as reading it.

use std::fs::File;
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
use haul_net::{BodySource, BodyStream};
use haul_plan::{Checksum, DigestAlgorithm};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::disk::blocking;

/// Bytes of a chunk: what a socket takes at once on a fast link.
const CHUNK: usize = 256 << 10;

/// A file that is uploaded, and what it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    pub(super) snapshot: FileSnapshot,
}

/// What shows that a file is still the same (row F12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSnapshot {
    pub(super) size: u64,
    /// The modification time in nanoseconds since 1970.
    pub(super) modified: i128,
    pub(super) inode: u64,
    pub(super) mode: u32,
}

impl OpenFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let snapshot = FileSnapshot::of(&file)?;
        Ok(Self { file, snapshot })
    }

    /// Whether the open file, and the one at the path, are what was opened.
    pub(super) fn is_unchanged(&self, path: &Path) -> io::Result<bool> {
        let now = FileSnapshot::of(&self.file)?;
        let at_path = File::open(path).and_then(|file| FileSnapshot::of(&file));
        Ok(now == self.snapshot && at_path.is_ok_and(|there| there == self.snapshot))
    }

    /// The CRC-64/NVME of a range, and other checksums of it. May wait for the disk.
    pub(super) fn checksums(
        &self,
        range: Range<u64>,
        algorithms: &[DigestAlgorithm],
    ) -> io::Result<(u64, Vec<Checksum>)> {
        let (mut crc, mut digests) = (Crc64Nvme::new(), DigestSet::new(algorithms.iter().copied()));
        let mut buffer = vec![0; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let room = chunk_length(at, range.end);
            let read = read_at(&self.file, &mut buffer[..room], at)?;
            crc.update(&buffer[..read]);
            if !digests.is_empty() {
                digests.update(&buffer[..read]);
            }
            at += read as u64;
        }
        let others = digests.finish().into_iter().map(|computed| Checksum {
            algorithm: computed.algorithm,
            digest: Some(computed.digest),
        });
        Ok((crc.finish(), others.collect()))
    }
}

impl FileSnapshot {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self {
            size: metadata.len(),
            modified: i128::from(metadata.mtime()) * 1_000_000_000
                + i128::from(metadata.mtime_nsec()),
            inode: metadata.ino(),
            mode: metadata.mode(),
        })
    }
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
}

/// Counts the bytes of a request that were handed over: of one attempt, and of all that a job and a run send.
#[derive(Debug, Clone, Default)]
pub(super) struct SentBytes {
    pub(super) attempt: Arc<AtomicU64>,
    pub(super) job: Arc<AtomicU64>,
    pub(super) run: Arc<AtomicU64>,
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
        let buffer = &mut self.bytes[..room];
        let cached = preadv2(
            file,
            &mut [IoSliceMut::new(buffer)],
            at,
            ReadWriteFlags::NOWAIT,
        );
        self.length = match cached {
            Ok(read) if read > 0 => read,
            Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => {
                blocking(|| read_at(file, buffer, at))?
            }
            Err(error) => return Err(error.into()),
        };
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

//! Fetched files wait here until there are enough of them to be worth a write.
//!
//! A body in memory is hashed, written into an unnamed file, and stored with its validators. The open file goes to the
//! [commit thread](super::commit), which alone makes it durable and visible. All of this may wait for the disk, so it runs
//! where blocking is allowed ([`blocking`]). Going there costs as much as writing a file, so the worker that fetched the last
//! file of a group does it for the whole group. A slow disk thus slows the workers down: no more files wait than the buffer
//! and its running flushes hold.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::DigestAlgorithm;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::commit::{CommitMessage, FetchedFileContent, VerifiedFile};
use super::job::BatchJob;
use super::outcome::JobOutcome;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::{
    KeptSeconds, KnownLength, StorageWrapping, UnnamedFile, blocking, directory_of,
    store_validators,
};
use crate::error::{GetError, VerificationError};
use crate::get::{UnnamedBody, WholeFile};
use crate::manifest::{JobRowState, ManifestRow};
use crate::options::GetOptions;
use crate::recovery::RetryOptions;

/// Files that are flushed at once: some hundred microseconds' work.
const FLUSH_FILES: usize = 32;

/// Bytes that are flushed at once, however few files they are.
const FLUSH_BYTES: u64 = 512 << 10;

/// Flushes that run at once. Each takes a thread from the runtime until another has taken its place. Two keep the
/// processors busy where files only go into memory; more help a disk that can do several things at once.
const PARALLEL_FLUSHES: usize = 4;

/// Bytes that are read back at once to hash a file.
const READ_CHUNK: usize = 256 << 10;

/// A file with all of its bytes.
#[derive(Debug)]
pub(super) struct FetchedFile {
    pub(super) job: Box<BatchJob>,
    pub(super) file: Box<WholeFile>,
}

impl FetchedFile {
    /// Whether its bytes are in memory and are not written before the commit thread has them.
    fn stays_in_memory(&self) -> bool {
        self.job.staging_path.is_some() && matches!(self.file.body, UnnamedBody::Memory(..))
    }
}

/// The buffer, and the limits of what leaves it.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    buffered: Mutex<BufferedFiles>,
    /// Permits for open files: those that wait for the commit thread, and those of its current group.
    open_files: Arc<Semaphore>,
    flush_slots: Semaphore,
    /// Flushes that run or wait.
    flushes: AtomicUsize,
    storage_wrapping: StorageWrapping,
    /// Those of the file system of the batch's directory.
    kept_seconds: KeptSeconds,
    retry: RetryOptions,
}

#[derive(Debug, Default)]
struct BufferedFiles {
    files: Vec<FetchedFile>,
    bytes: u64,
}

impl WriteBuffer {
    /// A buffer for files of a batch that commits at most `max_group` files at once.
    pub(super) fn new(max_group: usize, options: &GetOptions) -> Self {
        let max_open_files = (2 * max_group).max(FLUSH_FILES);
        Self {
            buffered: Mutex::default(),
            open_files: Arc::new(Semaphore::new(max_open_files)),
            flush_slots: Semaphore::new(PARALLEL_FLUSHES),
            flushes: AtomicUsize::new(0),
            storage_wrapping: options.storage_wrapping.clone(),
            kept_seconds: KeptSeconds::default(),
            retry: options.retry.clone(),
        }
    }

    /// Adds a file. Returns the files if there are enough for the caller to [flush](Self::flush) them.
    #[must_use]
    pub(super) fn push(&self, fetched: FetchedFile) -> Vec<FetchedFile> {
        let mut buffered = self.lock();
        buffered.bytes += fetched.file.bytes;
        buffered.files.push(fetched);
        if buffered.files.len() < FLUSH_FILES && buffered.bytes < FLUSH_BYTES {
            return Vec::new();
        }
        std::mem::take(&mut *buffered).files
    }

    #[must_use]
    pub(super) fn take_all(&self) -> Vec<FetchedFile> {
        std::mem::take(&mut *self.lock()).files
    }

    /// Whether files come faster than they can be written. Further ones would be held in memory, or open.
    pub(super) fn is_behind(&self) -> bool {
        self.flushes.load(Ordering::Relaxed) >= 2 * PARALLEL_FLUSHES
    }

    /// Verifies and writes files, and sends them to the commit thread. Returns the jobs that need another attempt.
    pub(super) async fn flush(
        &self,
        files: Vec<FetchedFile>,
        now: Duration,
        commits: &mpsc::Sender<Vec<CommitMessage>>,
    ) -> Vec<Box<BatchJob>> {
        if files.is_empty() {
            return Vec::new();
        }
        let _flush = FlushGuard::new(&self.flushes);
        let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let open_files = Arc::clone(&self.open_files);
        let Ok(mut permits) = open_files.acquire_many_owned(count).await else {
            unreachable!("it is never closed")
        };
        let Ok(slot) = self.flush_slots.acquire().await else {
            unreachable!("it is never closed")
        };
        let (mut messages, mut retries) = (Vec::with_capacity(files.len()), Vec::new());
        let stays_in_memory = files.iter().all(FetchedFile::stays_in_memory);
        let write_all = || {
            for fetched in files {
                match self.write(fetched, permits.split(1), now) {
                    WriteResult::Commit(message) => messages.push(message),
                    WriteResult::Retry(job) => retries.push(job),
                }
            }
        };
        if stays_in_memory {
            write_all()
        } else {
            blocking(write_all)
        }
        drop(slot);
        // The commit thread ends after the workers, unless it panicked, and then the batch ends.
        let _ = commits.send(messages).await;
        retries
    }

    /// Verifies a file and writes it into an unnamed file.
    fn write(
        &self,
        fetched: FetchedFile,
        permit: Option<OwnedSemaphorePermit>,
        now: Duration,
    ) -> WriteResult {
        let FetchedFile { mut job, file } = fetched;
        let WholeFile {
            response,
            body,
            bytes,
            expected_digests,
        } = *file;
        let digests = match digests_of(&body, expected_digests.algorithms()) {
            Ok(digests) => digests,
            Err(error) => return WriteResult::failed(&job, local_error("read", &job, error)),
        };
        let verified = expected_digests.verify(&response.url, &digests);
        if let Err(error) = &verified
            && job.fail_over(&error.reason(), &self.retry, now)
        {
            return WriteResult::Retry(job);
        }
        let body = match body {
            body if job.staging_path.is_some() => body,
            body => match into_unnamed_file(body, &job, &self.storage_wrapping) {
                Ok(file) => {
                    let _ = store_validators(
                        file.file(),
                        &response.version,
                        &job.download.url,
                        &self.storage_wrapping,
                        Some(KnownLength {
                            length: bytes,
                            seconds: &self.kept_seconds,
                        }),
                    );
                    UnnamedBody::File(file)
                }
                // The file is for another file system than that of the batch's directory.
                Err(error)
                    if error.kind() == io::ErrorKind::Unsupported && job.use_partial_file() =>
                {
                    return WriteResult::Retry(job);
                }
                Err(error) => {
                    return WriteResult::failed(&job, local_error("write to", &job, error));
                }
            },
        };
        if let Err(error) = verified {
            return WriteResult::failed(&job, keep_wrong_file(&job, &body, error));
        }
        let row = ManifestRow {
            bytes,
            checksums: expected_digests.report(&digests),
            ..job.row_of_response(JobRowState::Done, &response)
        };
        let verified = VerifiedFile {
            job,
            row,
            last_modified: response.version.last_modified,
            _open_permit: permit,
        };
        let content = FetchedFileContent::Unnamed(body);
        WriteResult::Commit(CommitMessage::File(Box::new(verified), content))
    }

    fn lock(&self) -> MutexGuard<'_, BufferedFiles> {
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flush that runs or waits.
struct FlushGuard<'a>(&'a AtomicUsize);

impl<'a> FlushGuard<'a> {
    fn new(flushes: &'a AtomicUsize) -> Self {
        flushes.fetch_add(1, Ordering::Relaxed);
        Self(flushes)
    }
}

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a write leads to.
enum WriteResult {
    /// The commit thread gets this.
    Commit(CommitMessage),
    /// The job needs another attempt: from another source, or with another strategy.
    Retry(Box<BatchJob>),
}

impl WriteResult {
    fn failed(job: &BatchJob, error: GetError) -> Self {
        Self::Commit(JobOutcome::failed(job, error).into())
    }
}

fn local_error(action: &'static str, job: &BatchJob, error: io::Error) -> GetError {
    GetError::io(action, job.path.clone(), error)
}

fn into_unnamed_file(
    body: UnnamedBody,
    job: &BatchJob,
    wrapping: &StorageWrapping,
) -> io::Result<UnnamedFile> {
    match body {
        UnnamedBody::File(file) => Ok(file),
        UnnamedBody::Memory(pieces, _permit) => {
            let file = wrapping.create_unnamed(directory_of(job.written_path()))?;
            file.write_at(0, &pieces)?;
            Ok(file)
        }
    }
}

fn digests_of(
    body: &UnnamedBody,
    algorithms: impl Iterator<Item = DigestAlgorithm>,
) -> io::Result<Vec<ComputedDigest>> {
    let mut hashers = DigestSet::new(algorithms);
    if hashers.is_empty() {
        return Ok(Vec::new());
    }
    match body {
        UnnamedBody::Memory(pieces, _) => pieces.iter().for_each(|piece| hashers.update(piece)),
        UnnamedBody::File(file) => {
            let (mut buffer, mut offset) = (vec![0; READ_CHUNK], 0);
            loop {
                let read = file.read_at(offset, &mut buffer)?;
                if read == 0 {
                    break;
                }
                hashers.update(&buffer[..read]);
                offset += read as u64;
            }
        }
    }
    Ok(hashers.finish())
}

/// Keeps a file with a wrong digest under a name that says so (row B9), and adds the name to the error. Content for an
/// archive is dropped: there is no directory in which a user would look for it.
fn keep_wrong_file(job: &BatchJob, body: &UnnamedBody, mut error: GetError) -> GetError {
    let paths = job.paths();
    let name = paths.bad_checksum();
    if let GetError::Verification {
        error: VerificationError::Checksum { moved_to, .. },
        ..
    } = &mut error
        && job.staging_path.is_none()
        && let UnnamedBody::File(file) = body
        && file.replace(&name, &paths.replacement()).is_ok()
    {
        *moved_to = Some(name);
    }
    error
}

//! The table where files that came lie until there are enough of them to be worth writing.
//!
//! A body in memory is hashed, written into a file without a name, and stamped with what the origin said about it; the
//! [clerk](super::group_commit) gets that file open, and alone makes it durable and visible. All of this may stand still with the disk, so
//! it is handed to a thread that may wait ([`blocking`]); and because that costs as much as writing a file, it is
//! done for an armful of them, by the worker that brought the last one. So a disk that is slow holds up the workers, and
//! nothing piles up but what the table and their hands hold.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use haul_plan::{DigestAlgorithm, ResourceVersion};
use tokio::sync::OwnedSemaphorePermit;

use super::group_commit::CommitMessage;
use super::job::BatchJob;
use super::sink::{FileContent, VerifiedFile};
use super::state::BatchState;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::{StorageLayer, UnnamedFile, blocking, store_validators};
use crate::error::GetError;
use crate::get::single_response::{UnnamedBody, WholeFile};
use crate::manifest::{ManifestRow, RowState};
use crate::options::GetOptions;

/// Files that are written by one hand: some hundred microseconds' work.
pub(super) const FLUSH_FILES: usize = 32;

/// Bytes of them that are enough for one hand, however few files they are.
const FLUSH_BYTES: u64 = 512 << 10;

/// Bytes that are read back at once to hash a file.
const READ: usize = 256 << 10;

/// A file that came.
#[derive(Debug)]
pub(super) struct FetchedFile {
    /// Whose it is.
    pub(super) job: Box<BatchJob>,
    /// Its bytes, and what was said of them.
    pub(super) file: WholeFile,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct WriteBuffer(Mutex<BufferedFiles>);

/// What lies on it.
#[derive(Debug, Default)]
struct BufferedFiles {
    files: Vec<FetchedFile>,
    bytes: u64,
}

impl WriteBuffer {
    /// Puts a file on the table; whoever makes it an armful gets that in hand, to [`flush`] it.
    #[must_use]
    pub(super) fn push(&self, fetched: FetchedFile) -> Vec<FetchedFile> {
        let mut pile = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pile.bytes += fetched.file.bytes;
        pile.files.push(fetched);
        if pile.files.len() < FLUSH_FILES && pile.bytes < FLUSH_BYTES {
            return Vec::new();
        }
        std::mem::take(&mut *pile).files
    }

    /// Takes what lies there.
    #[must_use]
    pub(super) fn take_all(&self) -> Vec<FetchedFile> {
        let mut pile = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pile).files
    }
}

/// Writes an armful and hands it to the clerk. What turned out to be another file than the one meant goes back, if it can be had
/// elsewhere.
pub(super) async fn flush(files: Vec<FetchedFile>, shared: &BatchState) {
    if files.is_empty() {
        return;
    }
    let _in_hand = shared.take_in_hand();
    let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
    let Ok(mut open) = Arc::clone(&shared.open).acquire_many_owned(count).await else {
        unreachable!("it is never closed")
    };
    let Ok(hand) = shared.hands.acquire().await else {
        unreachable!("it is never closed")
    };
    let options = shared.engine.options();
    let (mut written, mut back) = (Vec::with_capacity(files.len()), Vec::new());
    blocking(|| {
        for fetched in files {
            match write(fetched, open.split(1), options) {
                BufferedFileOutcome::Delivery(delivery) => written.push(delivery),
                BufferedFileOutcome::Elsewhere(job) => back.push(job),
            }
        }
    });
    drop(hand);
    for job in back {
        shared.nameless.note_unsupported(&job);
        shared.retries.fetch_add(1, Ordering::Relaxed);
        shared.put_back(job);
    }
    // The clerk ends after the workers, unless it panicked, and then the batch ends.
    let _ = shared.clerk.send(written).await;
}

/// What became of a fetched.
enum BufferedFileOutcome {
    /// There is something to tell.
    Delivery(CommitMessage),
    /// It was not the file meant, and another source is to be asked.
    Elsewhere(Box<BatchJob>),
}

/// Makes a fetched a file without a name, or says why that cannot be.
fn write(
    fetched: FetchedFile,
    open: Option<OwnedSemaphorePermit>,
    options: &GetOptions,
) -> BufferedFileOutcome {
    let FetchedFile {
        mut job,
        file: whole,
    } = fetched;
    let WholeFile {
        response: head,
        body,
        bytes,
        expected_digests: wanted,
    } = whole;
    let local = |action, source| GetError::local(action, job.path.clone(), source);
    let digests = match digests(&body, wanted.algorithms()) {
        Ok(digests) => digests,
        Err(error) => {
            return BufferedFileOutcome::Delivery(CommitMessage::failed(
                &job,
                local("read", error),
            ));
        }
    };
    let checked = wanted.verify(&head.url, &digests);
    if checked.is_err() && job.switch_to_mirror(&options.retry) {
        return BufferedFileOutcome::Elsewhere(job);
    }
    let body = match body {
        body if job.staging_path.is_some() => body,
        body => match unnamed(body, &job, &options.storage_layer) {
            Ok(file) => {
                store_validators(file.file(), &head.version, bytes, job.resource_id());
                UnnamedBody::File(file)
            }
            // Another file system than that of the batch's directory.
            Err(error) if error.kind() == io::ErrorKind::Unsupported && job.use_partial_file() => {
                return BufferedFileOutcome::Elsewhere(job);
            }
            Err(error) => {
                let error = GetError::local("write to", job.path.clone(), error);
                return BufferedFileOutcome::Delivery(CommitMessage::failed(&job, error));
            }
        },
    };
    if let Err(error) = checked {
        let error = aside(&job, &body, error);
        return BufferedFileOutcome::Delivery(CommitMessage::failed(&job, error));
    }
    let row = ManifestRow {
        bytes,
        checksums: wanted.report(&digests),
        ..job.row_of_response(RowState::Done, &head)
    };
    BufferedFileOutcome::Delivery(CommitMessage::File(Box::new(VerifiedFile {
        job,
        row,
        content: FileContent::Unnamed(body),
        modified: modified(&head.version),
        _open_permit: open,
    })))
}

/// The body as a file without a name.
fn unnamed(body: UnnamedBody, job: &BatchJob, layer: &StorageLayer) -> io::Result<UnnamedFile> {
    match body {
        UnnamedBody::File(file) => Ok(file),
        UnnamedBody::Memory(pieces, _room) => {
            let file = layer.create_unnamed(job.paths().directory())?;
            file.write_at(0, &pieces)?;
            Ok(file)
        }
    }
}

fn digests(
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
            let (mut buffer, mut at) = (vec![0; READ], 0);
            loop {
                let read = file.read_at(at, &mut buffer)?;
                if read == 0 {
                    break;
                }
                hashers.update(&buffer[..read]);
                at += read as u64;
            }
        }
    }
    Ok(hashers.finish())
}

/// Puts bytes that are not the file meant under a name that says so (row B9), and says where in the error.
fn aside(job: &BatchJob, body: &UnnamedBody, mut error: GetError) -> GetError {
    let target = job.paths();
    let name = target.bad_checksum();
    if let GetError::Checksum { moved_to: aside, .. } = &mut error
        // Those of an entry have no name, and go.
        && job.staging_path.is_none()
        && let UnnamedBody::File(file) = body
        && file.replace(&name, &target.replacement()).is_ok()
    {
        *aside = Some(name);
    }
    error
}

/// In seconds since 1970; 0 where the origin does not say.
fn modified(version: &ResourceVersion) -> u64 {
    let date = version.last_modified.as_deref();
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

//! Verifies a file that exists already against the digest in the list.

use std::fs::File;
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::group_commit::CommitMessage;
use super::job::BatchJob;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::error::GetError;
use crate::get::publish::ExpectedDigests;
use crate::manifest::{ManifestRow, RowState};

/// Bytes that are read at once.
const READ_CHUNK: usize = 256 << 10;

/// Reads the file, which may take long, and checks its digest. `None` when the batch was stopped.
pub(super) fn verify_existing(job: &BatchJob, stop: &CancellationToken) -> Option<CommitMessage> {
    let expected = ExpectedDigests {
        user: job.download.checksums.clone(),
        announced: Vec::new(),
        piece_digests: false,
    };
    let path = || job.path.clone();
    let (bytes, digests) = match hash_and_sync(job, &expected, stop) {
        Ok(read) => read?,
        Err(error) => {
            let error = GetError::local("read", path(), error);
            return Some(CommitMessage::failed(job, error));
        }
    };
    if expected.verify(&job.download.url, &digests).is_err() {
        // The file is the user's, so it stays.
        let what = "its digest is not the one in the list";
        let error = GetError::PathOccupied {
            path: path(),
            reason: what,
        };
        return Some(CommitMessage::failed(job, error));
    }
    Some(CommitMessage::ended(ManifestRow {
        bytes,
        checksums: expected.report(&digests),
        ..job.row(RowState::Done)
    }))
}

/// Computes the digests, and makes the bytes and the name durable: a row will tell of the file.
fn hash_and_sync(
    job: &BatchJob,
    expected: &ExpectedDigests,
    stop: &CancellationToken,
) -> io::Result<Option<(u64, Vec<ComputedDigest>)>> {
    let mut file = File::open(&job.path)?;
    let mut hashers = DigestSet::new(expected.algorithms());
    let (mut buffer, mut bytes) = (vec![0; READ_CHUNK], 0);
    while !stop.is_cancelled() {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            file.sync_all()?;
            job.paths().sync_directory(&file)?;
            return Ok(Some((bytes, hashers.finish())));
        }
        hashers.update(&buffer[..read]);
        bytes += read as u64;
    }
    Ok(None)
}

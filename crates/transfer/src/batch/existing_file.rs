//! A file that is there already, where its list says what digest it must have.

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
const READ: usize = 256 << 10;

/// Reads it back, which may take long, and tells whether it is the file meant; `None` when it was to stop.
pub(super) fn verify_existing(job: &BatchJob, stop: &CancellationToken) -> Option<CommitMessage> {
    let wanted = ExpectedDigests {
        user: job.download.checksums.clone(),
        announced: Vec::new(),
        piece_digests: false,
    };
    let path = || job.path.clone();
    let (bytes, digests) = match read(job, &wanted, stop) {
        Ok(read) => read?,
        Err(error) => {
            let error = GetError::local("read", path(), error);
            return Some(CommitMessage::failed(job, error));
        }
    };
    if wanted.verify(&job.download.url, &digests).is_err() {
        // It is somebody's, and stays.
        let what = "its digest is not the one that the list says";
        let error = GetError::PathOccupied {
            path: path(),
            reason: what,
        };
        return Some(CommitMessage::failed(job, error));
    }
    Some(CommitMessage::ended(ManifestRow {
        bytes,
        checksums: wanted.report(&digests),
        ..job.row(RowState::Done)
    }))
}

/// Digests, and that a power cut takes neither the bytes nor the name: a row will say that they are there.
fn read(
    job: &BatchJob,
    wanted: &ExpectedDigests,
    stop: &CancellationToken,
) -> io::Result<Option<(u64, Vec<ComputedDigest>)>> {
    let mut file = File::open(&job.path)?;
    let mut hashers = DigestSet::new(wanted.algorithms());
    let (mut buffer, mut bytes) = (vec![0; READ], 0);
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

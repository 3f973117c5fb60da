//! A file that is there already, where its list says what digest it must have.

use std::fs::File;
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::clerk::CommitMessage;
use super::errand::BatchJob;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::error::GetError;
use crate::get::finish::ExpectedDigests;
use crate::manifest::{ManifestRow, RowState};

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// Reads it back, which may take long, and tells whether it is the file meant; `None` when it was to stop.
pub(super) fn verify(errand: &BatchJob, stop: &CancellationToken) -> Option<CommitMessage> {
    let wanted = ExpectedDigests {
        given: errand.job.checksums.clone(),
        announced: Vec::new(),
        pieces: false,
    };
    let path = || errand.path.clone();
    let (bytes, digests) = match read(errand, &wanted, stop) {
        Ok(read) => read?,
        Err(error) => {
            let error = GetError::local("read", path(), error);
            return Some(CommitMessage::failed(errand, error));
        }
    };
    if wanted.check(&errand.job.url, &digests).is_err() {
        // It is somebody's, and stays.
        let what = "its digest is not the one that the list says";
        let error = GetError::InTheWay { path: path(), what };
        return Some(CommitMessage::failed(errand, error));
    }
    Some(CommitMessage::ended(ManifestRow {
        bytes,
        checksums: wanted.report(&digests),
        ..errand.row(RowState::Done)
    }))
}

/// Digests, and that a power cut takes neither the bytes nor the name: a row will say that they are there.
fn read(
    errand: &BatchJob,
    wanted: &ExpectedDigests,
    stop: &CancellationToken,
) -> io::Result<Option<(u64, Vec<ComputedDigest>)>> {
    let mut file = File::open(&errand.path)?;
    let mut hashers = DigestSet::new(wanted.algorithms());
    let (mut buffer, mut bytes) = (vec![0; READ], 0);
    while !stop.is_cancelled() {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            file.sync_all()?;
            errand.target().sync_directory(&file)?;
            return Ok(Some((bytes, hashers.finish())));
        }
        hashers.update(&buffer[..read]);
        bytes += read as u64;
    }
    Ok(None)
}

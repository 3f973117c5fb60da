//! Files that exist already under the name of a job: whether the job is done with that, and whether the file is right.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::job::{BatchJob, BatchJobStrategy};
use super::outcome::JobOutcome;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::{file_beginning, load_validators, noted_download};
use crate::error::{GetError, LocalError};
use crate::get::ExpectedDigests;
use crate::listed_version::{ListedVersionDecision, NotedVersion, VersionDifference};
use crate::manifest::{JobRowState, ManifestRow};
use crate::options::ExistingFilePolicy;
use crate::response::{ContentExpectation, DOCUMENT_BEGINNING, begins_html};

/// Bytes that are read at once.
const READ_CHUNK: usize = 256 << 10;

/// Checks the file under the final name. Returns the outcome if nothing is to be done; otherwise the job may get another
/// strategy, or validators for a conditional request. `row` is the manifest's row about the file, `unexpected` says how its content
/// differs from what the user expects.
pub(super) fn check_existing(
    job: &mut BatchJob,
    policy: ExistingFilePolicy,
    row: Option<ManifestRow>,
    unexpected: Option<&'static str>,
    notes: Option<&Path>,
) -> Option<JobOutcome> {
    let path = job.path.clone();
    let found = match path.metadata() {
        Ok(found) => found,
        // A dangling link takes the name.
        Err(_) if path.is_symlink() && policy == ExistingFilePolicy::Keep => {
            return refused(job, LocalError::AlreadyExists);
        }
        Err(_) => return None,
    };
    if found.is_dir() {
        return refused(job, LocalError::IsDirectory);
    }
    if !found.is_file() {
        return refused(job, occupied("it is not a regular file", false));
    }
    match policy {
        ExistingFilePolicy::Keep
            if let Some(decision) = decide_listed(job, &found, row.as_ref()) =>
        {
            match decision {
                ListedVersionDecision::Refuse(difference) => {
                    let reason = difference_text(difference);
                    refused(job, occupied(reason, true))
                }
                _ => {
                    job.download.replaces_file = true;
                    None
                }
            }
        }
        ExistingFilePolicy::Keep if let Some(reason) = unexpected => {
            refused(job, occupied(reason, true))
        }
        ExistingFilePolicy::Keep if job.has_digest() => {
            job.strategy = BatchJobStrategy::VerifyExisting;
            None
        }
        // Whoever made the file, it stays, and the row says no more than that.
        ExistingFilePolicy::Keep => Some(JobOutcome::success(ManifestRow {
            bytes: found.len(),
            ..job.row(JobRowState::Skipped)
        })),
        ExistingFilePolicy::Overwrite => None,
        // Whether the origin has a newer one does not matter.
        ExistingFilePolicy::Update if unexpected.is_some() => None,
        ExistingFilePolicy::Update => {
            // The row records the file that was written then.
            let row = row.filter(|row| row.bytes == found.len());
            let tag = row.and_then(|row| row.etag);
            let stored = load_validators(&path, job.resource_id(), notes);
            job.stored_validators = stored.map(|stored| stored.or_etag(tag));
            None
        }
    }
}

/// The outcome of a job whose file must stay as it is.
fn refused(job: &BatchJob, error: LocalError) -> Option<JobOutcome> {
    let error = GetError::local(job.path.clone(), error);
    Some(JobOutcome::failed(job, error))
}

fn occupied(reason: &'static str, is_replaceable: bool) -> LocalError {
    LocalError::Occupied {
        reason,
        is_replaceable,
    }
}

/// What becomes of a file that is not the version of the list; `None` if nothing says so.
fn decide_listed(
    job: &BatchJob,
    found: &Metadata,
    row: Option<&ManifestRow>,
) -> Option<ListedVersionDecision> {
    let listed = job.listed.as_ref()?;
    let noted = noted_download(&job.path, found, job.resource_id()).unwrap_or_else(|| {
        // Without an attribute the row has what was written then.
        let row = row.filter(|row| row.bytes == found.len());
        NotedVersion {
            size: found.len(),
            entity_tag: row.and_then(|row| row.etag.clone()),
            modified: found.modified().ok(),
            is_unedited_download: row.is_some(),
        }
    });
    let decision = listed.decide(&noted);
    (decision != ListedVersionDecision::Keep).then_some(decision)
}

/// Why a file that is another version than that of the list must not be replaced.
fn difference_text(difference: VersionDifference) -> &'static str {
    match difference {
        VersionDifference::Size => "its size is not the one in the list",
        VersionDifference::EntityTag => "the list has another version of it",
        VersionDifference::Time => "the list has a newer one",
    }
}

/// How a file differs from what the user expects of all files: it may be the error page of an earlier run. `None` also where there
/// is not a file.
pub(super) fn unexpected_content(
    path: &Path,
    expected: &ContentExpectation,
) -> Option<&'static str> {
    if *expected == ContentExpectation::default() {
        return None;
    }
    let length = path.metadata().ok().filter(Metadata::is_file)?.len();
    if expected.check_length(length).is_err() {
        return Some("its size is not the expected one");
    }
    if expected.accepts_html() {
        return None;
    }
    let beginning = file_beginning(path, DOCUMENT_BEGINNING)?;
    begins_html(&beginning).then_some("it is an HTML page, which is not the expected type")
}

/// Reads the file, which may take long, and checks its digest. `None` when the batch was stopped.
pub(super) fn verify_existing(job: &BatchJob, stop: &CancellationToken) -> Option<JobOutcome> {
    let expected = ExpectedDigests::of_user(&job.download.checksums);
    let path = || job.path.clone();
    let (bytes, digests) = match hash_and_sync(job, &expected, stop) {
        Ok(read) => read?,
        Err(error) => {
            let error = GetError::io("read", path(), error);
            return Some(JobOutcome::failed(job, error));
        }
    };
    if expected.verify(&job.download.url, &digests).is_err() {
        // The file is the user's, so it stays.
        return refused(
            job,
            occupied("its digest is not the one in the list", false),
        );
    }
    Some(JobOutcome::success(ManifestRow {
        bytes,
        checksums: expected.report(&digests),
        ..job.row(JobRowState::Done)
    }))
}

/// Computes the digests, and makes the bytes and the name durable: a row will record the file.
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

//! The last steps: digests, sync, rename.
//!
//! Only here does a file get its final name, and only after everything about it was verified.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use haul_plan::{DigestAlgorithm, ResourceVersion};

use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::expectations::FileExpectations;
use super::expected_digests::ExpectedDigests;
use super::partial_claim::PartialClaim;
use super::partial_download::PartialDownload;
use super::strategy::DownloadedFile;
use crate::checksum::{ComputedDigest, DigestFollower, DigestSet};
use crate::disk::{FilePermissions, KeptMetadata, blocking, store_validators};
use crate::error::{ErrorClass, GetError, LocalError, VerificationError};
use crate::event::TransferEvent;
use crate::options::{DownloadOutcome, ExistingFilePolicy};
use crate::warning::TransferWarning;

/// Bytes that are read between two looks at whether the job is to stop.
const READ_SIZE: usize = 1 << 20;

/// How publishing a file ended.
#[derive(Debug)]
pub(super) enum PublishOutcome {
    /// The file has its final name.
    Published(PublishedFile),
    WrongDigest {
        partial: Box<PartialDownload>,
        error: GetError,
    },
}

/// A file under its final name.
#[derive(Debug)]
pub(super) struct PublishedFile {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    pub(super) etag: Option<String>,
    /// The digests that the user requested, in hexadecimal.
    pub(super) checksums: Vec<(DigestAlgorithm, String)>,
}

/// Verifies a file and gives it its final name. Where that fails for another reason than a wrong digest, the journal claims all bytes
/// first, so that a later run need not fetch them again.
///
/// # Errors
/// [`LocalError::AlreadyExists`] when the name was taken meanwhile, [`LocalError::Io`], [`GetError::Interrupted`]; the errors of
/// [`FileExpectations::check_length`].
pub(super) async fn complete(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &DownloadSources,
    file: DownloadedFile,
) -> Result<PublishOutcome, GetError> {
    let DownloadedFile {
        mut claim,
        length,
        follower,
        unsaved,
    } = file;
    context.meter.note_whole_file();
    let steps = verify_and_publish(context, expectations, sources, &mut claim, follower, length);
    match steps.await {
        Ok(VerificationOutcome::Published(published)) => Ok(PublishOutcome::Published(published)),
        Ok(VerificationOutcome::WrongDigest(error)) => Ok(PublishOutcome::WrongDigest {
            partial: Box::new(claim.partial),
            error,
        }),
        Err(error) => {
            let may_resume = error.class() != ErrorClass::Verification;
            if let Some(mut unsaved) = unsaved.filter(|_| may_resume) {
                // The error that is returned already is the one that matters.
                let _ = unsaved.checkpointer.close(unsaved.ranges).await;
            }
            Err(error)
        }
    }
}

/// The end of [`verify_and_publish`].
enum VerificationOutcome {
    Published(PublishedFile),
    WrongDigest(GetError),
}

async fn verify_and_publish(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &DownloadSources,
    claim: &mut PartialClaim,
    follower: Option<DigestFollower>,
    length: u64,
) -> Result<VerificationOutcome, GetError> {
    let PartialClaim {
        partial,
        version,
        digests,
    } = claim;
    let url = &sources.current().location;
    expectations.check_length(url, length)?;
    let computed = compute_digests(context, partial, digests, follower, length).await?;
    if let Err(error) = digests.verify(url, &computed) {
        return Ok(VerificationOutcome::WrongDigest(error));
    }
    let replace = context.existing_file() != ExistingFilePolicy::Keep;
    let (unsynced, kept) = publish(partial, version, context, replace)?;
    if !kept.time {
        context.warn_of_lost_times(partial.paths.path()).await;
    }
    let path = partial.paths.path().to_owned();
    if context.engine.requires_durable_name {
        let sync_parents = || {
            let mut parents = partial.paths.parent_directories();
            parents.try_for_each(|directory| partial.storage().sync_directory(directory))
        };
        let synced = unsynced.map_or_else(|| blocking(sync_parents), Err);
        synced.map_err(|e| GetError::io("sync the directory of", path.clone(), e))?;
    } else if let Some(error) = unsynced {
        let (path, error) = (path.clone(), error.to_string());
        context
            .warn(TransferWarning::NameNotSynced { path, error })
            .await;
    }
    Ok(VerificationOutcome::Published(PublishedFile {
        path,
        length,
        etag: version.etag_text(),
        checksums: digests.report(&computed),
    }))
}

/// Waits for the follower, or reads the file now if none ran behind the download.
async fn compute_digests(
    context: &JobContext<'_>,
    partial: &PartialDownload,
    digests: &ExpectedDigests,
    follower: Option<DigestFollower>,
    length: u64,
) -> Result<Vec<ComputedDigest>, GetError> {
    let hashers = DigestSet::new(digests.algorithms());
    if hashers.is_empty() {
        return Ok(Vec::new());
    }
    let (job, bytes) = (context.job.id, length);
    context.send(TransferEvent::Verifying { job, bytes }).await;
    let follower = follower.unwrap_or_else(|| DigestFollower::start(partial.storage(), hashers));
    let computed = context.unless_stopped(follower.finish(length)).await?;
    computed.map_err(|source| GetError::io("read", partial.paths.partial(), source))
}

/// Gives a whole and verified partial file its final name, and the permissions of the file that it replaces. Returns why the name may
/// not survive a power cut, if that is so: the file itself is complete and has its name.
///
/// # Errors
/// [`LocalError::AlreadyExists`] when the name was taken meanwhile and `replace` is false. The journal's claims then stay, so that the same
/// command with `--overwrite` need not fetch the file again. Else [`LocalError::Io`].
fn publish(
    partial: &mut PartialDownload,
    version: &ResourceVersion,
    context: &JobContext<'_>,
    replace: bool,
) -> Result<(Option<io::Error>, KeptMetadata), GetError> {
    let (url, options) = (&context.job.url, context.options());
    let path = partial.paths.path().to_owned();
    let local = |action| {
        let path = path.clone();
        move |source| GetError::io(action, path, source)
    };
    blocking(|| {
        let replaced = FilePermissions::of_file(&path).or(partial.replaced_permissions);
        let file = partial.file.file();
        let note = store_validators(file, version, url, &options.storage_wrapping, None);
        if let Some(permissions) = replaced.filter(|_| replace) {
            permissions.apply(partial.file.file());
        }
        partial.storage().sync().map_err(local("sync"))?;
        partial.check_in_place().map_err(local("rename"))?;
        let renamed = partial.paths.publish(replace);
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                GetError::local(path.clone(), LocalError::AlreadyExists)
            }
            _ => local("rename to")(e),
        })?;
        note.write_beside(
            partial.file.file(),
            &path,
            options.notes_directory.as_deref(),
        );
        partial.mark_published();
        let directory = partial.paths.directory();
        Ok((partial.storage().sync_directory(directory).err(), note.kept))
    })
}

/// Moves bytes with a wrong digest to a name that says so (row B9); the error then names it.
pub(super) fn set_aside(partial: &mut PartialDownload, mut error: GetError) -> GetError {
    let aside = partial.paths.bad_checksum();
    let moved = blocking(|| {
        partial.check_in_place()?;
        std::fs::rename(partial.paths.partial(), &aside)?;
        partial.mark_published();
        Ok::<_, io::Error>(())
    });
    if let (
        GetError::Verification {
            error: VerificationError::Checksum { moved_to, .. },
            ..
        },
        Ok(()),
    ) = (&mut error, moved)
    {
        *moved_to = Some(aside);
    }
    error
}

/// The end of `--update` when the origin has nothing newer: the existing file is the result, and is verified as one.
pub(super) async fn complete_unmodified(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    totals: &DownloadTotals,
    path: PathBuf,
) -> Result<DownloadOutcome, GetError> {
    let bytes = path.metadata().map_or(0, |found| found.len());
    let digests = ExpectedDigests::of_user(&context.job.checksums);
    let computed = digests_of_file(context, &path, &digests, bytes).await?;
    digests.verify(&sources.current().location, &computed)?;
    Ok(DownloadOutcome {
        path: Some(path),
        checksums: digests.report(&computed),
        not_modified: true,
        ..context.outcome(totals, sources, bytes)
    })
}

async fn digests_of_file(
    context: &JobContext<'_>,
    path: &Path,
    digests: &ExpectedDigests,
    bytes: u64,
) -> Result<Vec<ComputedDigest>, GetError> {
    let mut hashers = DigestSet::new(digests.algorithms());
    if hashers.is_empty() {
        return Ok(Vec::new());
    }
    let job = context.job.id;
    context.send(TransferEvent::Verifying { job, bytes }).await;
    let local = |source: io::Error| GetError::io("read", path.to_owned(), source);
    let mut file = blocking(|| File::open(path)).map_err(local)?;
    let mut buffer = vec![0; READ_SIZE];
    loop {
        if context.stop.is_cancelled() {
            return Err(GetError::INTERRUPTED);
        }
        let read = blocking(|| {
            let read = file.read(&mut buffer)?;
            hashers.update(&buffer[..read]);
            Ok::<_, io::Error>(read)
        });
        if read.map_err(local)? == 0 {
            return Ok(hashers.finish());
        }
        tokio::task::yield_now().await;
    }
}

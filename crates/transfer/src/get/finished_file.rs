//! A file that is under the final name already. The same command may have completed it before: then it has nothing left to do.
//!
//! This is for single downloads of users who keep existing files. A batch knows its own files by the manifest.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_plan::ResourceVersion;
use http::header::LAST_MODIFIED;

use super::completion::complete_unmodified;
use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::first_request::{FirstRequest, FirstRequestOutcome, FirstResponse, first_permit};
use super::partial_download::PartialDownload;
use crate::disk::{
    DownloadPaths, FileOwner, StoredValidators, blocking, file_owner, load_validators,
};
use crate::error::{GetError, LocalError};
use crate::layout::ResourceId;
use crate::options::{DownloadOutcome, ExistingFilePolicy};
use crate::response::ResponseContent;

/// Looks at the file under a name, and returns the outcome of the job if it is whole: it has the checksums that the user gave, or
/// haul's own mark says that it is of this URL, and the origin says that it is unchanged. `None` when the job goes on as if it had not
/// looked.
///
/// # Errors
/// [`LocalError::AlreadyExists`] when the file is of this URL and the origin has another version, or does not say;
/// [`LocalError::Io`], [`GetError::Interrupted`].
pub(super) async fn finish_existing(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    totals: &DownloadTotals,
    paths: &DownloadPaths,
) -> Result<Option<DownloadOutcome>, GetError> {
    let path = paths.path();
    let keeps = context.existing_file() == ExistingFilePolicy::Keep;
    let is_batch = context.engine.reserved_names.is_none();
    if !keeps || is_batch || !blocking(|| path.is_file()) {
        return Ok(None);
    }
    let mut checksums = context.job.checksums.iter();
    let is_whole = if checksums.any(|checksum| checksum.digest.is_some()) {
        true
    } else if let Some(stored) = blocking(|| own_validators(path, &context.job.url)) {
        if !is_unchanged(context, sources, path, &stored).await? {
            let path = path.to_owned();
            return Err(GetError::local(path, LocalError::AlreadyExists));
        }
        true
    } else {
        false
    };
    if !is_whole {
        return Ok(None);
    }
    let path: PathBuf = path.to_owned();
    match complete_unmodified(context, sources, totals, path).await {
        Ok(outcome) => {
            // A kill between the rename and the end left the journal.
            blocking(|| PartialDownload::remove_leftover_journal(paths, &context.job.url));
            Ok(Some(outcome))
        }
        Err(error) if error.is_checksum() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The validators of a file, if its mark says that it came from this URL.
fn own_validators(path: &Path, url: &url::Url) -> Option<StoredValidators> {
    let resource = ResourceId::from_url(url);
    match file_owner(path) {
        FileOwner::Resource(owner) if owner == resource => load_validators(path, resource, None),
        _ => None,
    }
}

/// Asks the origin once. A request that fails shows nothing.
async fn is_unchanged(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    path: &Path,
    stored: &StoredValidators,
) -> Result<bool, GetError> {
    let _permit = first_permit(context, sources).await?;
    let request = FirstRequest {
        stored_validators: Some(stored),
        ..FirstRequest::default()
    };
    let sent = context.unless_stopped(request.send_once(context, sources, None));
    let Ok(FirstRequestOutcome::Response(first)) = sent.await? else {
        return Ok(false);
    };
    let length = path.metadata().map_or(0, |found| found.len());
    let is_same = shows_same(&first, stored, length);
    if first.content == ResponseContent::NotModified {
        first.response.discard().await;
    }
    Ok(is_same)
}

/// Whether a response shows that the origin has the version that is on the disk.
fn shows_same(first: &FirstResponse, stored: &StoredValidators, length: u64) -> bool {
    let (version, total) = match &first.content {
        // To an origin with a date alone, a file that was edited since is newer than its own, too.
        ResponseContent::NotModified => {
            let date = first.response.headers.get(LAST_MODIFIED);
            let date = date.and_then(|date| date.to_str().ok());
            return match date {
                Some(_) if stored.etag.is_none() => is_date(date, stored.modified),
                _ => stored.is_unedited,
            };
        }
        ResponseContent::Part { version, total, .. } => (version, Some(*total)),
        ResponseContent::Whole {
            version,
            length,
            coding: None,
        } => (version, *length),
        ResponseContent::Empty { version } => (version, Some(0)),
        ResponseContent::Whole { .. } => return false,
    };
    total == Some(length) && is_version(version, stored)
}

fn is_version(version: &ResourceVersion, stored: &StoredValidators) -> bool {
    match (&version.etag, &stored.etag) {
        (Some(etag), Some(stored)) => etag.to_string() == *stored,
        (None, None) => is_date(version.last_modified.as_deref(), stored.modified),
        _ => false,
    }
}

/// Whether a Last-Modified is this time.
fn is_date(last_modified: Option<&str>, modified: SystemTime) -> bool {
    let date = last_modified.and_then(|date| httpdate::parse_http_date(date).ok());
    date.is_some_and(|date| date == modified && date != UNIX_EPOCH)
}

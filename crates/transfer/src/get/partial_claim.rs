//! Claiming the file that a job ends in: what is under its names, and whether bytes of an earlier run can be used.

use std::path::Path;
use std::sync::Arc;

use haul_plan::{ResourceVersion, media_type};

use super::attempt_error::AttemptError;
use super::context::JobContext;
use super::destination::{DownloadDestination, check_existing};
use super::download_sources::{DownloadSource, DownloadSources};
use super::expectations::FileExpectations;
use super::expected_digests::ExpectedDigests;
use super::first_request::FirstResponse;
use super::partial_download::PartialDownload;
use super::source_recovery::recover;
use crate::disk::{DownloadPaths, StoredValidators, blocking, file_beginning};
use crate::error::{GetError, VerificationError};
use crate::event::TransferEvent;
use crate::options::ExistingFilePolicy;
use crate::response::{DOCUMENT_BEGINNING, ResponseContent, begins_other_document};
use crate::warning::TransferWarning;

/// A reason to discard the bytes of an earlier run.
const NOTHING_IDENTIFIES_VERSION: &str =
    "nothing shows whether the origin still has the version that an earlier run left bytes of";

/// The same, for bytes of several hosts.
const NO_DIGEST_ANY_MORE: &str = "an earlier run left bytes of several hosts that only digests could verify, and there are none now";

/// The same, where the origin has another version.
pub(super) const OTHER_VERSION: &str =
    "the origin has another version than an earlier run left bytes of";

/// The same, where this run left the bytes.
pub(super) const CHANGED: &str = "the resource changed at the origin";

/// The same, where the origin sends no parts.
const NO_RANGES: &str =
    "the origin sends no parts of the file, so the bytes of an earlier run are of no use";

/// Enough first bytes to tell a page from a file.
pub(super) const PEEKED_BYTES: usize = 64;

/// A partial file, and what it must become.
#[derive(Debug)]
pub(super) struct PartialClaim {
    pub(super) partial: PartialDownload,
    pub(super) version: ResourceVersion,
    /// The digests that the whole file must have.
    pub(super) digests: ExpectedDigests,
}

/// Opens the partial file as far as its name is known, and looks at the file under the final name, whose validators are for `--update`.
///
/// # Errors
/// See [`PartialDownload::open`] and [`check_existing`]; [`LocalError::DuplicateName`](crate::LocalError::DuplicateName); [`GetError::Interrupted`].
pub(super) async fn prepare(
    context: &JobContext<'_>,
    destination: &DownloadDestination,
    partial: Option<PartialDownload>,
) -> Result<(Option<PartialDownload>, Option<StoredValidators>), GetError> {
    let url = &context.job.url;
    let paths = destination.guessed_paths(url);
    // Under a name that is only guessed, nothing but this job's own bytes may be touched: the origin may name the file otherwise, and
    // the file there may be another download's.
    let is_known = matches!(destination, DownloadDestination::Named(_))
        || blocking(|| PartialDownload::is_resumable(&paths, url));
    if is_known {
        reserve_name(context, &paths)?;
    }
    let existing = context.existing_file();
    let stored = if is_known || existing == ExistingFilePolicy::Update {
        check_existing(
            &paths,
            existing,
            url,
            context.options().notes_directory.as_deref(),
        )?
    } else {
        None
    };
    let partial = match partial {
        None if is_known => Some(open(context, paths).await?),
        partial => partial,
    };
    Ok((partial, stored))
}

/// Takes a final name, unless another job of this engine has it.
fn reserve_name(context: &JobContext<'_>, paths: &DownloadPaths) -> Result<(), GetError> {
    let Some(names) = &context.engine.reserved_names else {
        return Ok(());
    };
    names.claim(paths.path(), context.job.id, &context.job.url)
}

async fn open(context: &JobContext<'_>, paths: DownloadPaths) -> Result<PartialDownload, GetError> {
    let job = context.job.id;
    let mut partial = PartialDownload::open(
        paths,
        &context.job.url,
        context.options(),
        context.existing_file(),
    )?;
    if let Some((bytes, length)) = partial.unverified_bytes() {
        context
            .send(TransferEvent::DestinationKnown {
                job,
                path: Some(partial.paths.path().to_owned()),
                length: Some(length),
                resumed: bytes,
            })
            .await;
        context.send(TransferEvent::Verifying { job, bytes }).await;
        partial.verify(&context.stop).await?;
    }
    if let Some(reason) = &partial.unusable_journal {
        let warning = TransferWarning::UnusablePartialFile {
            partial: partial.paths.partial(),
            reason: reason.to_string(),
        };
        context.warn(warning).await;
    }
    Ok(partial)
}

/// Bytes on disk that a response would replace.
#[derive(Debug)]
pub(super) struct ReplacedBytes {
    /// The first of them, if they are known.
    beginning: Option<Vec<u8>>,
    /// The media type of their file, if it is known.
    media_type: Option<String>,
}

impl ReplacedBytes {
    /// What a response would replace: bytes of a partial file that it does not join, else the complete file `existing`.
    pub(super) fn of_response(
        partial: &Option<PartialDownload>,
        existing: Option<&Path>,
        content: &ResponseContent,
    ) -> Option<Self> {
        if matches!(
            content,
            ResponseContent::Empty { .. } | ResponseContent::NotModified
        ) {
            return None;
        }
        let partial = partial.as_ref();
        let resumed = partial.and_then(|partial| Some((partial, partial.resumed.as_ref()?)));
        match resumed {
            Some((_, resumed)) if resumed.joins(content) => None,
            Some((partial, resumed)) => Some(Self {
                beginning: partial.beginning(DOCUMENT_BEGINNING),
                media_type: resumed.header.media_type.clone(),
            }),
            None => Some(Self {
                beginning: Some(blocking(|| file_beginning(existing?, DOCUMENT_BEGINNING))?),
                media_type: None,
            }),
        }
    }

    /// Whether a response that begins like this is a page or an error document, and no version of the file.
    fn is_error_page(
        &self,
        content: &ResponseContent,
        found_type: Option<&str>,
        found: &[u8],
    ) -> bool {
        let is_nothing = matches!(
            content,
            ResponseContent::Whole { length: Some(0), version, .. } if !version.has_validator()
        );
        let is_same_type = self.media_type.as_deref() == found_type;
        let is_unknown = self.beginning.is_none() && is_same_type;
        let beginning = self.beginning.as_deref();
        is_nothing || (!is_unknown && begins_other_document(beginning, found_type, found))
    }
}

/// Looks at the first bytes of a response that would replace others. `None` if they are a page's, which was refused like any other
/// failed request: the next one may be sent.
///
/// # Errors
/// The error of the request that ends the job; [`GetError::Interrupted`].
pub(super) async fn check_beginning(
    context: &JobContext<'_>,
    sources: &mut DownloadSources,
    replaced: Option<ReplacedBytes>,
    first: FirstResponse,
) -> Result<Option<FirstResponse>, GetError> {
    let Some(replaced) = replaced else {
        return Ok(Some(first));
    };
    let FirstResponse {
        response,
        content,
        connecting,
    } = first;
    let location = Arc::clone(&sources.current().location);
    let waiting = context.meter.waiting();
    let peeked = context.unless_stopped(response.peek(PEEKED_BYTES)).await?;
    drop(waiting);
    let failed = match peeked {
        Ok((response, found)) => {
            let found_type = media_type(&response.headers);
            if !replaced.is_error_page(&content, found_type.as_deref(), &found) {
                return Ok(Some(FirstResponse {
                    response,
                    content,
                    connecting,
                }));
            }
            AttemptError::error_page(&response, &found, &location)
        }
        Err(error) => AttemptError::transport(error, true, &location, None),
    };
    recover(context, sources, *failed, false, 0).await?;
    Ok(None)
}

/// Claims the file that a first response is for. Bytes of an earlier run are kept only if they are of this version. `starts_again`: why
/// those of an earlier attempt should not be.
///
/// # Errors
/// See [`prepare`].
pub(super) async fn claim(
    context: &JobContext<'_>,
    destination: &DownloadDestination,
    partial: Option<PartialDownload>,
    first: &FirstResponse,
    expectations: &FileExpectations<'_>,
    source: &DownloadSource,
    starts_again: Option<&'static str>,
) -> Result<PartialClaim, GetError> {
    let url = &context.job.url;
    let paths = destination.paths(url, &first.response.headers);
    let is_named = matches!(destination, DownloadDestination::Named(_));
    let mut partial = match partial.filter(|partial| is_named || partial.paths == paths) {
        Some(partial) => partial,
        None => {
            reserve_name(context, &paths)?;
            check_existing(&paths, context.existing_file(), url, None)?;
            open(context, paths).await?
        }
    };
    let digests = expectations.digests(&first.response, &first.content);
    let reason = unusable(&partial, &first.content, &digests, source);
    let is_kept = partial.resumed.is_some() && reason.is_none();
    // Where the response is of the version on disk after all, there is nothing to say.
    if let Some(reason) = starts_again.filter(|_| !is_kept).or(reason) {
        if context.replaces_url && partial.resumed.is_some() {
            let reason = reason.to_owned();
            let url = haul_net::without_credentials(&source.location);
            return Err(GetError::verification(
                url,
                VerificationError::WrongFile { reason },
            ));
        }
        context.warn(TransferWarning::StartsAgain { reason }).await;
    }
    if reason.is_some() {
        partial.clear()?;
    }
    let is_whole = matches!(first.content, ResponseContent::Whole { .. });
    if is_kept && is_whole && source.may_send_range {
        context.warn(TransferWarning::FetchesAllAgain).await;
    }
    let digests = match &partial.resumed {
        Some(resumed) => digests.with_saved(&resumed.header),
        None => digests,
    };
    let version = match &first.content {
        ResponseContent::Part { version, .. }
        | ResponseContent::Whole { version, .. }
        | ResponseContent::Empty { version } => version.clone(),
        ResponseContent::NotModified => ResourceVersion::default(),
    };
    Ok(PartialClaim {
        partial,
        version,
        digests,
    })
}

/// Why the bytes of an earlier run cannot be used, if they cannot.
fn unusable(
    partial: &PartialDownload,
    content: &ResponseContent,
    digests: &ExpectedDigests,
    source: &DownloadSource,
) -> Option<&'static str> {
    let saved = &partial.resumed.as_ref()?.header;
    let saved_version = saved.version();
    let same_source = saved.has_validators_of(&source.url);
    let (total, version) = match content {
        ResponseContent::Part { total, version, .. } => (total, version),
        // The response writes over the bytes, which stay good meanwhile.
        ResponseContent::Whole {
            length: Some(total),
            version,
            coding: None,
        } if same_source => (total, version),
        ResponseContent::Whole { version, .. }
            if !same_source || saved_version.is_same(version) =>
        {
            return Some(NO_RANGES);
        }
        _ => return Some(OTHER_VERSION),
    };
    if saved.length != *total
        || (same_source && !saved_version.is_same(version))
        || digests.contradicts(saved)
    {
        return Some(OTHER_VERSION);
    }
    let digests = digests.clone().with_saved(saved);
    if !digests.supports(saved.joined) {
        return Some(NO_DIGEST_ANY_MORE);
    }
    let is_identified = if same_source {
        saved_version.may_be_resumed(version, digests.verifies())
    } else {
        // Another host's validators: they prove the same file or nothing.

        let tags = saved_version.etag.as_ref().zip(version.etag.as_ref());
        tags.is_some_and(|(a, b)| a.strong_eq(b)) || digests.verifies()
    };
    (!is_identified).then_some(NOTHING_IDENTIFIES_VERSION)
}

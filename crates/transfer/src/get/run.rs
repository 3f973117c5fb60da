//! One job from its URL to its file: attempts, until one ends with the file or with an error that nothing helps against.
//!
//! An attempt sends the first request, whose response decides the strategy ([`strategy_choice`](super::strategy_choice)). A strategy may
//! end with a reason to begin again, an attempt with an error that another source can help against. The
//! [`RecoveryPolicy`](crate::recovery::RecoveryPolicy) sees to it that this does not go on for ever.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::completion::{PublishOutcome, complete, complete_unmodified, set_aside};
use super::context::{EngineState, JobContext};
use super::destination::{DownloadDestination, ResolvedOutput};
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::expectations::FileExpectations;
use super::finished_file::finish_existing;
use super::first_request::{
    FirstRequest, FirstRequestOutcome, FirstResponse, first_permit, permit_of_responder,
};
use super::host_limits::HostPermit;
use super::mirror_discovery::{discover, disproves_document, drop_document};
use super::page_check::page_warning;
use super::partial_claim::{
    CHANGED, OTHER_VERSION, PartialClaim, ReplacedBytes, check_beginning, claim, prepare,
};
use super::partial_download::PartialDownload;
use super::single_response::HandedOverResponse;
use super::source_recovery::fail_over;
use super::steering::JobSteering;
use super::strategy::{DownloadedFile, Restart, RestartReason, StrategyOutcome};
use super::strategy_choice::run_strategy;
use super::stream_output;
use crate::disk::{DownloadPaths, StoredValidators, blocking};
use crate::error::{GetError, LocalError};
use crate::options::{DownloadJob, DownloadOutcome, ExistingFilePolicy};
use crate::response::ResponseContent;
use crate::sources::SourceSet;
use crate::warning::TransferWarning;

/// What a download begins with.
#[derive(Debug, Default)]
pub(crate) struct DownloadStart<'a> {
    /// The number of the source that the first request goes to.
    pub(crate) source: usize,
    /// Sources of which some were dropped before.
    pub(crate) failed_sources: Option<&'a SourceSet>,
    /// A first response that is there already.
    pub(crate) response: Option<HandedOverResponse>,
    /// When the first request was sent, if that was before.
    pub(crate) first_request_at: Option<Instant>,
    /// The entity tag of the file to update, where only the caller knows it.
    pub(crate) known_tag: Option<&'a str>,
    /// Whether another URL has replaced the one of the bytes on disk, and must have their version. If it is not the job's own, it is the
    /// first mirror.
    pub(crate) replaces_url: bool,
    /// What the job shares with its handle, if it has one.
    pub(crate) steering: Option<&'a Arc<JobSteering>>,
}

/// Downloads the file of one job with a partial file, or into a stream.
///
/// # Errors
/// See [`GetError`].
pub(crate) async fn download(
    engine: &EngineState,
    job: &DownloadJob,
    start: DownloadStart<'_>,
    stop: CancellationToken,
) -> Result<DownloadOutcome, GetError> {
    // Earlier attempts count, the time that the job was paused does not.
    let earlier = start
        .steering
        .map_or(Duration::ZERO, |steering| steering.earlier().elapsed);
    let now = Instant::now();
    let started = now.checked_sub(earlier).unwrap_or(now);
    let first_request_at = (!earlier.is_zero()).then_some(started);
    let monitor = engine
        .monitor(start.first_request_at.or(first_request_at))
        .with_limit(start.steering.map(|steering| Arc::clone(&steering.limit)));
    let context = JobContext {
        engine,
        job,
        steering: start.steering.map(|steering| &**steering),
        replaces_url: start.replaces_url,
        stop: stop.child_token(),
        started,
        meter: Arc::clone(&monitor.meter),
    };
    // On the heap: the states of all steps together are larger than a caller wants in its own future.
    let run = Box::pin(DownloadRun::new(&context, start).run());
    monitor.run(run, &context.stop, &stop, &job.url).await
}

/// A job's attempts.
#[derive(Debug)]
struct DownloadRun<'a> {
    context: &'a JobContext<'a>,
    expectations: FileExpectations<'a>,
    sources: DownloadSources,
    totals: DownloadTotals,
    /// A first response that is there already, as long as no attempt has used it.
    response: Option<HandedOverResponse>,
    /// The entity tag of the file to update, where only the caller knows it.
    known_tag: Option<String>,
    /// The final path, once it is known.
    path: Option<PathBuf>,
    /// Why the next attempt begins from the first byte although bytes are on disk. They stay until the response is there that replaces
    /// them, and if it is of their version after all, they are kept.
    starts_again: Option<&'static str>,
    /// Whether mirrors that the origin names are still to be looked for.
    may_discover: bool,
}

/// How an attempt ended, when not with an error.
#[derive(Debug)]
enum AttemptOutcome {
    Done(Box<DownloadOutcome>),
    /// The next attempt begins, with a partial file that is open already.
    Again(Option<Box<PartialDownload>>),
}

impl AttemptOutcome {
    fn again(partial: Option<PartialDownload>) -> Self {
        Self::Again(partial.map(Box::new))
    }
}

impl<'a> DownloadRun<'a> {
    fn new(context: &'a JobContext<'a>, start: DownloadStart<'_>) -> Self {
        let retry = context.options().retry.clone();
        let hosts = &context.engine.host_limits;
        let mut sources = DownloadSources::new(context.job, retry, start.source, hosts);
        if start.replaces_url && start.source > 0 {
            let sources = sources.recovery.sources_mut();
            sources.drop_source(0, "another URL has replaced it");
        }
        if let Some(failed) = start.failed_sources {
            sources.drop_failed(failed);
        }
        let (totals, disproved) = context.steering.map_or_else(Default::default, |steering| {
            let mut earlier = steering.earlier();
            (
                std::mem::take(&mut earlier.totals),
                earlier.disproved_document,
            )
        });
        Self {
            context,
            expectations: FileExpectations::new(context.job, context.options()),
            sources,
            totals,
            response: start.response,
            known_tag: start.known_tag.map(str::to_owned),
            path: None,
            starts_again: None,
            may_discover: context.options().mirror_links && !disproved,
        }
    }

    async fn run(mut self) -> Result<DownloadOutcome, GetError> {
        let result = self.run_to_output().await;
        if let Some(steering) = self.context.steering {
            let mut earlier = steering.earlier();
            (earlier.elapsed, earlier.totals) = (self.context.elapsed(), self.totals);
        }
        result
    }

    async fn run_to_output(&mut self) -> Result<DownloadOutcome, GetError> {
        let existing = self.context.existing_file();
        match ResolvedOutput::resolve(&self.context.job.output, existing, &self.context.stop)? {
            ResolvedOutput::Stream(output) => {
                self.context
                    .steering
                    .inspect(|steering| steering.note_stream());
                let (context, expectations) = (self.context, &self.expectations);
                Box::pin(stream_output::download(
                    context,
                    expectations,
                    &mut self.sources,
                    output,
                ))
                .await
            }
            ResolvedOutput::File(destination) => {
                let done = self.run_attempts(&destination).await;
                done.map_err(|error| {
                    error.with_resumable(blocking(|| self.is_resumable(&destination)))
                })
            }
        }
    }

    async fn run_attempts(
        &mut self,
        destination: &DownloadDestination,
    ) -> Result<DownloadOutcome, GetError> {
        let guessed = destination.guessed_paths(&self.context.job.url);
        if let Some(outcome) = self.finish_existing(&guessed).await? {
            return Ok(outcome);
        }
        let mut partial = None;
        loop {
            match self.attempt(destination, partial.take()).await {
                Ok(AttemptOutcome::Done(outcome)) => return Ok(*outcome),
                Ok(AttemptOutcome::Again(open)) => partial = open.map(|open| *open),
                // The origin named a file that is there.
                Err(GetError::Local {
                    path,
                    error: LocalError::AlreadyExists,
                    ..
                }) if self.path.is_none() && path != guessed.path() => {
                    let named = DownloadPaths::new(path.clone());
                    let outcome = self.finish_existing(&named).await;
                    return outcome?
                        .ok_or_else(|| GetError::local(path, LocalError::AlreadyExists));
                }
                Err(error) if disproves_document(&error, &self.expectations, &self.sources) => {
                    partial = Some(self.begin_without_document(destination).await?);
                }
                Err(error) => fail_over(self.context, &mut self.sources, error).await?,
            }
        }
    }

    /// Whether the same command would resume this download: asked of the disk, as that command will.
    fn is_resumable(&self, destination: &DownloadDestination) -> bool {
        let paths = self.paths(destination);
        self.context.options().resume
            && PartialDownload::is_resumable(&paths, &self.context.job.url)
    }

    /// The final path, if it is known, else the one that the URL suggests.
    fn paths(&self, destination: &DownloadDestination) -> DownloadPaths {
        match &self.path {
            Some(path) => DownloadPaths::new(path.clone()),
            None => destination.guessed_paths(&self.context.job.url),
        }
    }

    async fn attempt(
        &mut self,
        destination: &DownloadDestination,
        partial: Option<PartialDownload>,
    ) -> Result<AttemptOutcome, GetError> {
        let (mut partial, stored) = prepare(self.context, destination, partial).await?;
        let stored = stored.map(|stored| stored.or_etag(self.known_tag.clone()));
        // To replace a file, the version must be one that the origin has now. To add one it is enough that the origin had it.
        let adds = self.context.existing_file() == ExistingFilePolicy::Keep;
        if let Some(whole) = partial.take_if(|partial| adds && self.is_finished(partial)) {
            return self.finish_resumed(whole).await;
        }
        let is_update = stored.is_some();
        let (first, permit) = match self.first_response(&partial, stored).await? {
            (FirstRequestOutcome::Response(first), permit) => (first, permit),
            (FirstRequestOutcome::OtherVersion, _) => {
                self.starts_again = Some(OTHER_VERSION);
                return Ok(AttemptOutcome::again(partial));
            }
        };
        let (context, sources) = (self.context, &mut self.sources);
        let existing = destination.guessed_paths(&context.job.url);
        let existing = Some(existing.path()).filter(|_| is_update);
        let replaced = ReplacedBytes::of_response(&partial, existing, &first.content);
        let Some(first) = check_beginning(context, sources, replaced, *first).await? else {
            return Ok(AttemptOutcome::again(partial));
        };
        let location = &self.sources.current().location;
        self.expectations.check_head(&first, location)?;
        self.expectations.check_not_folder(&first.response)?;
        let hosts = &self.context.engine.host_limits;
        self.sources.follow_redirect(&first.response, hosts);
        let Some(permit) = permit_of_responder(&self.sources, permit) else {
            // The host that delivers has no room for this job. Its response is dropped, and requested again when there is room.
            return Ok(AttemptOutcome::again(partial));
        };
        if first.content == ResponseContent::NotModified {
            first.response.discard().await;
            return self.finish_unmodified(destination).await;
        }
        self.fetch(destination, partial, first, permit).await
    }

    /// Fetches the file from its first response on, and completes it.
    async fn fetch(
        &mut self,
        destination: &DownloadDestination,
        partial: Option<PartialDownload>,
        first: FirstResponse,
        permit: HostPermit,
    ) -> Result<AttemptOutcome, GetError> {
        if std::mem::take(&mut self.may_discover) {
            let expectations = &mut self.expectations;
            discover(self.context, &first, expectations, &mut self.sources).await;
        }
        let claim = claim(
            self.context,
            destination,
            partial,
            &first,
            &self.expectations,
            self.sources.current(),
            self.starts_again.take(),
        )
        .await?;
        self.path = Some(claim.partial.paths.path().to_owned());
        let strategy = run_strategy(
            self.context,
            &self.expectations,
            &mut self.sources,
            &mut self.totals,
            first,
            claim,
            permit,
        );
        match strategy.await? {
            StrategyOutcome::Complete(file) => self.complete(*file).await,
            StrategyOutcome::Restart(restart) => self.restart(*restart).await,
        }
    }

    /// The outcome, if the same command has completed the file before.
    async fn finish_existing(
        &self,
        paths: &DownloadPaths,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        finish_existing(self.context, &self.sources, &self.totals, paths).await
    }

    /// The response to begin with: the one that is there, or that of a first request. With it a permit for its connection.
    async fn first_response(
        &mut self,
        partial: &Option<PartialDownload>,
        stored: Option<StoredValidators>,
    ) -> Result<(FirstRequestOutcome, HostPermit), GetError> {
        let resumed = partial
            .as_ref()
            .and_then(|partial| partial.resumed.as_ref());
        // The next request resumes the bytes of an earlier run, not the request that was answered.
        if let Some(HandedOverResponse { first, permit }) =
            self.response.take().filter(|_| resumed.is_none())
        {
            return Ok((FirstRequestOutcome::Response(Box::new(first)), permit));
        }
        let permit = first_permit(self.context, &self.sources).await?;
        let replaces = self.starts_again.is_some();
        let request = FirstRequest {
            resumed,
            replaces,
            stored_validators: stored.as_ref(),
            ..FirstRequest::default()
        };
        let outcome = request.send(self.context, &mut self.sources).await?;
        Ok((outcome, permit))
    }

    /// Begins again with another strategy or on another version, and says why.
    async fn restart(&mut self, restart: Restart) -> Result<AttemptOutcome, GetError> {
        let Restart { partial, reason } = restart;
        match reason {
            RestartReason::Changed => self.starts_again = Some(CHANGED),
            RestartReason::UnusableRanges => {
                self.sources.current_mut().may_send_range = false;
                self.context.warn(TransferWarning::UnusableRanges).await;
            }
            RestartReason::NoValidator => {
                self.sources.current_mut().may_send_range = false;
                self.context.warn(TransferWarning::NoValidator).await;
                return Ok(AttemptOutcome::again(Some(partial)));
            }
        }
        self.begin_again();
        Ok(AttemptOutcome::again(Some(partial)))
    }

    /// Requests go to the source's own URL again, and no byte of an earlier run counts any more.
    fn begin_again(&mut self) {
        let hosts = &self.context.engine.host_limits;
        self.sources.current_mut().resolve_again(hosts);
        self.totals.resumed = 0;
    }

    /// Verifies and publishes a file whose every byte is written.
    async fn complete(&mut self, file: DownloadedFile) -> Result<AttemptOutcome, GetError> {
        let expected = &self.context.options().expected_content;
        let warning = page_warning(&file, &self.sources.current().url);
        if let Some(warning) = warning.filter(|_| expected.media_types.is_empty()) {
            self.context.warn(warning).await;
        }
        match complete(self.context, &self.expectations, &self.sources, file).await? {
            PublishOutcome::Published(published) => {
                let bytes = published.length;
                Ok(AttemptOutcome::Done(Box::new(DownloadOutcome {
                    path: Some(published.path),
                    etag: published.etag,
                    checksums: published.checksums,
                    ..self.context.outcome(&self.totals, &self.sources, bytes)
                })))
            }
            PublishOutcome::WrongDigest { partial, error } => {
                self.on_wrong_digest(*partial, error).await
            }
        }
    }

    /// The whole file has a wrong digest. Another source may have the right file; else the bytes are set aside under a name that says so.
    async fn on_wrong_digest(
        &mut self,
        mut partial: PartialDownload,
        error: GetError,
    ) -> Result<AttemptOutcome, GetError> {
        if self.expectations.is_from_document(&error) {
            // The user did not ask for the document: there is nothing to show, and the bytes may be a mirror's.
            partial.clear()?;
            return Err(error);
        }
        let (source, resumed) = (self.sources.current_number(), self.totals.resumed > 0);
        let recovery = &mut self.sources.recovery;
        let next = recovery.on_wrong_digest(source, resumed, &error.reason());
        if next.is_none() {
            let error = set_aside(&mut partial, error);
            let several = self.sources.recovery.sources().dropped().nth(1).is_some();
            return Err(if several {
                self.sources.all_failed(error)
            } else {
                error
            });
        }
        let hosts = &self.context.engine.host_limits;
        let _ = self.sources.advance(self.context.elapsed(), hosts);
        let url = haul_net::redacted_url(&self.sources.current().url);
        let warning = TransferWarning::WrongDigest {
            error: error.to_string(),
            url,
        };
        self.context.warn(warning).await;
        self.sources.wrong_digest = Some(error);
        self.begin_again();
        partial.clear()?;
        Ok(AttemptOutcome::again(Some(partial)))
    }

    /// The document that the origin leads to is about another version: the next attempt begins without it, from the first byte.
    async fn begin_without_document(
        &mut self,
        destination: &DownloadDestination,
    ) -> Result<PartialDownload, GetError> {
        let context = self.context;
        drop_document(context, &mut self.expectations, &mut self.sources).await;
        if let Some(steering) = context.steering {
            steering.earlier().disproved_document = true;
        }
        self.begin_again();
        let (url, options) = (&context.job.url, context.options());
        let paths = self.paths(destination);
        let mut partial = PartialDownload::open(paths, url, options, context.existing_file())?;
        partial.clear()?;
        Ok(partial)
    }

    /// Whether nothing has to be requested any more. Pieces are verified by a strategy, which can fetch bad ones again.
    fn is_finished(&self, partial: &PartialDownload) -> bool {
        let Some(resumed) = &partial.resumed else {
            return false;
        };
        let (saved, expectations) = (&resumed.header, &self.expectations);
        let location = &self.sources.current().location;
        expectations.piece_digests().is_none()
            && expectations.check_size(location, saved.length).is_ok()
            && expectations.saved_digests(saved).supports(saved.joined)
            && resumed.is_whole()
    }

    /// Verifies and publishes the file of a run that fetched everything and was killed before that. Nothing is requested from the origin: the version
    /// on disk is whole, it replaces no other file, and the journal holds what the origin announced of it.
    async fn finish_resumed(
        &mut self,
        mut partial: PartialDownload,
    ) -> Result<AttemptOutcome, GetError> {
        let Some(resumed) = partial.resumed.take() else {
            return Ok(AttemptOutcome::again(Some(partial)));
        };
        let length = resumed.header.length;
        self.path = Some(partial.paths.path().to_owned());
        self.totals.resumed = length;
        let claim = PartialClaim {
            partial,
            version: resumed.header.version(),
            digests: self.expectations.saved_digests(&resumed.header),
        };
        self.complete(DownloadedFile {
            claim,
            length,
            follower: None,
            unsaved: None,
        })
        .await
    }

    /// The end of `--update` when the origin has nothing newer.
    async fn finish_unmodified(
        &mut self,
        destination: &DownloadDestination,
    ) -> Result<AttemptOutcome, GetError> {
        let paths = destination.guessed_paths(&self.context.job.url);
        let path = paths.path().to_owned();
        let outcome = complete_unmodified(self.context, &self.sources, &self.totals, path);
        Ok(AttemptOutcome::Done(Box::new(outcome.await?)))
    }
}

//! The way of one job, from its URL to its file: which steps, in which order.
//!
//! The first request decides the road: a part leads to [`segmented`](super::segmented), everything at once to
//! [`sequential`](super::sequential). A road may end with the word that the resource changed or that ranges cannot be
//! trusted; then the steps begin again, and the [`FailurePolicy`] sees to it that they do not do so for ever.

use std::path::PathBuf;

use haul_plan::{ExpectedDigest, FailurePolicy, PieceDigests, ResourceVersion, SourceSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::EngineState;
use super::destination::DownloadDestination;
use super::first_request::{FirstRequest, FirstResponse, FirstResponseContent};
use super::host_limits::HostPermit;
use super::partial_claim::PartialClaim;
use super::partial_download::PartialDownload;
use super::segmented::FirstConnection;
use super::sequential::SequentialBody;
use super::single_response::LargeResponse;
use crate::disk::{DownloadPaths, StoredValidators, blocking};
use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome, ExistingFilePolicy, JobOutput};

/// A job under way.
#[derive(Debug)]
pub(super) struct DownloadRun<'a> {
    /// What all jobs share.
    pub(super) engine: &'a EngineState,
    /// What is to be done.
    pub(super) job: &'a DownloadJob,
    /// Ends it early.
    pub(super) stop: CancellationToken,
    /// Its troubles so far.
    pub(super) course: FailurePolicy,
    /// Where the file can be had: the job's URL, then its mirrors, then what was found on the way.
    pub(super) sources: Vec<Url>,
    /// How many of them the caller named.
    pub(super) named: usize,
    /// What is known of them, under the same numbers.
    pub(super) mirrors: SourceSet,
    /// The one that is asked, where only one is.
    pub(super) source: usize,
    /// Where requests go: that one's URL, or where it was redirected to.
    pub(super) url: Url,
    /// Digests of pieces: the caller's, or those of a document that the origin led to.
    pub(super) pieces: Option<PieceDigests>,
    /// Digests of the whole from there.
    pub(super) described: Vec<ExpectedDigest>,
    /// Whether the origin's word on other places was taken.
    pub(super) discovered: bool,
    /// For messages, until the name is known the directory.
    pub(super) path: PathBuf,
    /// Whether ranges were given up.
    pub(super) one_stream: bool,
    /// Whether If-Range may be sent.
    pub(super) if_range: bool,
    /// Whether everything is to come again, from one source alone.
    pub(super) alone: bool,
    /// What was wrong with the whole that came last, if anything was.
    pub(super) wrong: Option<GetError>,
    /// A first answer that is there already, as long as no road has begun with it.
    adopted: Option<LargeResponse>,
    /// What the outcome will say.
    pub(super) totals: DownloadTotals,
    /// When the job began.
    pub(super) started: Instant,
}

/// Numbers for the outcome, added up over all roads taken.
#[derive(Debug, Default)]
pub(super) struct DownloadTotals {
    /// Bytes over the wire.
    pub(super) fetched: u64,
    /// Bytes kept from an earlier run.
    pub(super) resumed: u64,
    /// Requests that brought bytes.
    pub(super) segments: u64,
    /// Connections settled on.
    pub(super) connections: usize,
    /// Retries of sources that were dropped.
    pub(super) retries: u32,
}

impl<'a> DownloadRun<'a> {
    pub(super) fn new(
        engine: &'a EngineState,
        job: &'a DownloadJob,
        stop: CancellationToken,
    ) -> Self {
        let urls = std::iter::once(&job.url).chain(&job.mirrors).cloned();
        let (sources, mirrors) = Self::sources_of(urls, &engine.options.retry);
        Self {
            engine,
            job,
            stop,
            named: sources.len(),
            sources,
            mirrors,
            source: 0,
            pieces: job.piece_digests.clone(),
            described: Vec::new(),
            discovered: false,
            course: FailurePolicy::new(engine.options.retry.clone()),
            url: job.url.clone(),
            path: PathBuf::new(),
            one_stream: false,
            if_range: true,
            alone: false,
            wrong: None,
            adopted: None,
            totals: DownloadTotals::default(),
            started: Instant::now(),
        }
    }

    /// Begins with an answer that the quick road could not take.
    pub(super) fn adopt(mut self, large: LargeResponse) -> Self {
        self.adopted = Some(large);
        self
    }

    /// Does the job.
    pub(super) async fn run(mut self) -> Result<DownloadOutcome, GetError> {
        let place =
            DownloadDestination::resolve(&self.job.output, self.engine.options.existing_file)?;
        self.path = place.display_path().to_owned();
        if let DownloadDestination::Stream(sink) = place {
            if let JobOutput::File(path) = &self.job.output {
                self.path = path.clone();
            }
            return self.outward(sink).await;
        }
        let done = self.inward(&place).await;
        done.map_err(|error| error.with_resumable(blocking(|| self.is_kept(&place))))
    }

    /// Downloads into a file.
    async fn inward(&mut self, place: &DownloadDestination) -> Result<DownloadOutcome, GetError> {
        let mut partial = None;
        loop {
            match self.attempt(place, &mut partial).await {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                Err(error) if self.is_of_document(&error) => self.disown().await,
                Err(error) if std::mem::take(&mut self.alone) => self.turn_alone(error).await,
                Err(error) => self.forsake(error).await?,
            }
        }
    }

    /// Whether the same command would go on from where this one ended: asked of the disk, as that command will.
    fn is_kept(&self, place: &DownloadDestination) -> bool {
        let named =
            self.path != place.display_path() || matches!(place, DownloadDestination::File(_));
        let target = if named {
            Some(DownloadPaths::new(self.path.clone()))
        } else {
            place.guessed_paths(&self.job.url)
        };
        self.engine.options.resume
            && target.is_some_and(|target| PartialDownload::is_resumable(&target, &self.job.url))
    }

    /// One pass over the steps; `None` when they must begin again.
    async fn attempt(
        &mut self,
        place: &DownloadDestination,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        let have = self.prepare(place, held).await?;
        // To replace a file, the version must be one that the origin has now; to add one it is enough that it had it.
        let adds = self.engine.options.existing_file == ExistingFilePolicy::Keep;
        if let Some(partial) = held.take_if(|partial| adds && self.is_finished(partial)) {
            return self.finish_resumed(partial).await.map(Some);
        }
        let (begun, permit) = self.first_answer(held.as_ref(), have).await?;
        self.expected(&begun)?;
        if begun.answer.redirected {
            self.url = begun.answer.url.clone();
        }
        let Some(permit) = self.admitted(permit) else {
            // The host that delivers has no room for us: its answer is let go, and asked for again when there is.
            return Ok(None);
        };
        if matches!(begun.brings, FirstResponseContent::NotModified) {
            begun.answer.discard().await;
            return self.not_modified(place).await.map(Some);
        }
        if let Err(error) = self.meant(&begun.brings) {
            begun.answer.discard().await;
            return Err(error);
        }
        self.discover(&begun).await;
        let partial = self.land(place, held.take(), &begun).await?;
        self.take_road(begun, partial, permit, held).await
    }

    /// An answer to begin with: the one that is there, or one that is asked for.
    async fn first_answer(
        &mut self,
        held: Option<&PartialDownload>,
        have: Option<StoredValidators>,
    ) -> Result<(FirstResponse, HostPermit), GetError> {
        let resumed = held.and_then(|partial| partial.resumed.as_ref());
        // What an earlier run left is gone on with by another question than the one that was answered.
        if let Some(LargeResponse {
            first_response: begun,
            permit,
        }) = self.adopted.take().filter(|_| resumed.is_none())
        {
            return Ok((begun, permit));
        }
        let permit = self.permit().await?;
        let pinned = resumed.map(|resumed| resumed.header.version());
        let range = self.first_range(held);
        let question = FirstRequest {
            range,
            pinned: pinned.as_ref(),
            from: resumed.map(|resumed| &resumed.header),
            have,
        };
        Ok((self.begin(question).await?, permit))
    }

    async fn take_road(
        &mut self,
        begun: FirstResponse,
        partial: PartialDownload,
        permit: HostPermit,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        let FirstResponse { answer, brings } = begun;
        let mut wanted = self.wanted(&answer.headers, &brings);
        if let Some(resumed) = &partial.resumed {
            wanted = wanted.with_saved(&resumed.header);
        }
        let mut landing = PartialClaim {
            partial,
            version: ResourceVersion::default(),
            wanted,
        };
        match brings {
            FirstResponseContent::OtherVersion | FirstResponseContent::NotModified => {
                drop(answer);
                *held = Some(landing.partial);
                Ok(None)
            }
            FirstResponseContent::Part {
                range,
                total,
                version,
            } => {
                landing.version = version;
                let first = FirstConnection {
                    response: Some((answer, range)),
                    source: self.source,
                    permit,
                };
                if self.may_join(&landing.version, &landing.wanted) {
                    self.name(Some(total), &landing).await;
                    Box::pin(self.segmented(landing, total, first, held)).await
                } else {
                    self.unpinned(landing, total, first, held).await
                }
            }
            FirstResponseContent::Whole {
                length,
                version,
                encoding,
            } => {
                landing.version = version;
                self.name(length, &landing).await;
                let body = SequentialBody {
                    answer,
                    length,
                    encoding,
                    _permit: permit,
                };
                Box::pin(self.sequential(landing, body, held)).await
            }
            FirstResponseContent::Empty(version) => {
                landing.version = version;
                answer.discard().await;
                self.name(Some(0), &landing).await;
                self.complete(&mut landing, None, 0).await.map(Some)
            }
        }
    }
}

//! The two roads that end in a file, from the first answer to the final name.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::{
    ConnectionControl, ConnectionControlOptions, RangeSet, ResourceId, SegmentOptions, SegmentPlan,
    SourceContent,
};
use tokio::time::Instant;

use super::EngineState;
use super::checkpoint::Checkpointer;
use super::claim_table::ClaimTable;
use super::job_sources::JobSources;
use super::partial_claim::PartialClaim;
use super::partial_download::PartialDownload;
use super::publish::{PublishedFile, publish, set_aside};
use super::run::DownloadRun;
use super::segmented::{FirstConnection, SegmentCoordinator, SegmentedOutcome, WorkerTasks};
use super::segmented_state::{SegmentedStart, SegmentedState};
use crate::checksum::{ComputedDigest, DigestFollower, DigestSet};
use crate::disk::blocking;
use crate::error::{ErrorClass, GetError};
use crate::event::TransferEvent;
use crate::journal::{Journal, JournalHeader};
use crate::options::{ConnectionCount, DownloadOutcome, ExistingFilePolicy};

/// How often the control looks at the rate at most: long enough for a rate, short enough to ramp up within a blink.
const WINDOW: Duration = Duration::from_millis(50);

impl DownloadRun<'_> {
    /// The road of several connections. `None` when the steps must begin again, with the partial file in `held`.
    pub(super) async fn segmented(
        &mut self,
        mut landing: PartialClaim,
        total: u64,
        first: FirstConnection,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        if !landing.version.has_validator() && !landing.wanted.verifies() {
            self.warn("the origin gives neither ETag nor Last-Modified: a change of equal length would not be noticed".into())
                .await;
        }
        let journal = self.reserve_room(&mut landing, total)?;
        let follower = follower(&landing);
        let mut coordinator = self.coordinator(&landing, total, (follower, journal));
        let ended = coordinator.run(first).await;
        let SegmentCoordinator {
            shared,
            mut follower,
            control,
            mut checkpoints,
            ..
        } = coordinator;
        self.totals.connections = self.totals.connections.max(control.settled_target());
        self.totals.fetched += shared.fetched();
        self.totals.segments += shared.segments();
        self.mirrors = std::mem::take(&mut shared.table().sources);
        if !self.mirrors.is_living(self.source) {
            let _ = self.turn();
        }
        self.url = shared.sources.of(self.source).url;
        if ended.is_err()
            && let Some(follower) = follower.take()
        {
            follower.close().await;
        }
        match ended? {
            SegmentedOutcome::Complete => {
                let done = self.complete(&mut landing, follower, total).await;
                if done
                    .as_ref()
                    .is_err_and(|error| error.class() != ErrorClass::Verification)
                {
                    let pieces = shared.table().unsynced.take();
                    // The error that is told already is the one that matters.
                    let _ = checkpoints.close(pieces).await;
                }
                done.map(Some)
            }
            ended => {
                // One that still runs would bring back the journal that is about to go.
                let _ = checkpoints.close(Vec::new()).await;
                if ended == SegmentedOutcome::DocumentMismatch {
                    self.disown().await;
                    self.start_anew(landing.partial, held)?;
                    return Ok(None);
                }
                let one_stream = ended == SegmentedOutcome::OneStream;
                self.begin_again(landing.partial, one_stream, held).await?;
                Ok(None)
            }
        }
    }

    /// What came is of no use: discards it and tells why.
    pub(super) async fn begin_again(
        &mut self,
        partial: PartialDownload,
        one_stream: bool,
        held: &mut Option<PartialDownload>,
    ) -> Result<(), GetError> {
        self.one_stream |= one_stream;
        let why = if one_stream {
            "this origin's answers to range requests cannot be trusted: fetching over one connection"
        } else {
            "the resource changed at the origin: starting again on the new version"
        };
        self.warn(why.into()).await;
        self.start_anew(partial, held)
    }

    fn start_anew(
        &mut self,
        mut partial: PartialDownload,
        held: &mut Option<PartialDownload>,
    ) -> Result<(), GetError> {
        self.url = self.home().clone();
        self.totals.resumed = 0;
        partial.clear()?;
        *held = Some(partial);
        Ok(())
    }

    fn coordinator(
        &mut self,
        landing: &PartialClaim,
        total: u64,
        (follower, journal): (Option<DigestFollower>, Option<Journal>),
    ) -> SegmentCoordinator<'_> {
        let resumed = landing.partial.resumed.as_ref();
        let done = resumed.map_or_else(RangeSet::new, |resumed| resumed.done.clone());
        self.totals.resumed = done.total_bytes();
        let plan = SegmentPlan::new(total, &done, segment_options(self.engine, self.most()));
        let found = SourceContent {
            version: &landing.version,
            digests: &landing.wanted.announced,
        };
        let evidence = self.evidence(&landing.wanted);
        self.mirrors.begin(self.source, &found, evidence);
        let control = ConnectionControlOptions {
            max: self.most(),
            min: self.mirrors.in_play(),
            ..control_options(self.engine.options.connections)
        };
        let verifier = self.verifier(landing, total);
        let doubtful = self.doubtful();
        let cut = self.pieces.as_ref().map(haul_plan::PieceDigests::length);
        let mirrors = std::mem::take(&mut self.mirrors);
        let start = SegmentedStart {
            epoch: Instant::now(),
            begun: self.started,
            sources: self.sites(),
            table: ClaimTable::new(plan, mirrors, verifier.is_some()),
            cut,
            headers: self.job.headers.clone(),
        };
        let storage = landing.partial.storage();
        let options = &self.engine.options;
        SegmentCoordinator {
            job: self.job.id,
            shared: Arc::new(SegmentedState::new(
                self.engine.client.clone(),
                Arc::clone(&storage),
                start,
            )),
            control: ConnectionControl::new(control),
            checkpoints: Checkpointer::new(storage, journal, options.checkpoint.clone())
                .with_piece_length(cut),
            course: &mut self.course,
            follower,
            verifier,
            trusted_sources: doubtful,
            events: self.engine.events.clone(),
            stop: self.stop.clone(),
            path: self.path.clone(),
            tasks: WorkerTasks::default(),
        }
    }

    /// Where each source is asked.
    fn sites(&self) -> JobSources {
        let urls = self.sources.iter().enumerate();
        let urls = urls.map(|(source, url)| (url.clone(), self.given(source).clone()));
        let sources = JobSources::new(urls, self.engine.host_limits.clone());
        sources.lead(self.source, self.url.clone());
        sources.set_if_range(self.source, self.if_range);
        sources
    }

    /// Begins the journal and makes the file its full length, after a look whether the disk has room: better now than after
    /// an hour.
    fn reserve_room(
        &self,
        landing: &mut PartialClaim,
        total: u64,
    ) -> Result<Option<Journal>, GetError> {
        let resumed = landing.partial.resumed.as_ref();
        let needed = total - resumed.map_or(0, |resumed| resumed.done.total_bytes());
        let directory = landing.partial.paths.directory();
        if let Some(free) = blocking(|| free_space(directory)).filter(|free| *free < needed) {
            return Err(GetError::NoSpace {
                path: self.path.clone(),
                needed,
                free,
            });
        }
        let header = self.header(landing, total);
        // What no later run could trust is not claimed for one.
        let lasts = landing.version.is_resumable(landing.wanted.verifies());
        let header = Some(&header).filter(|_| self.engine.options.resume && lasts);
        let partial = &mut landing.partial;
        let journal = partial.open_journal(header)?;
        blocking(|| partial.storage().set_len(total))
            .map_err(|source| GetError::local("extend", self.path.clone(), source))?;
        Ok(journal)
    }

    /// What the journal says of the bytes, from now on: of what an earlier run left with what holds of all of it.
    fn header(&self, landing: &PartialClaim, total: u64) -> JournalHeader {
        let announced = &landing.wanted.announced;
        let kept = landing.partial.resumed.as_ref();
        let header = match kept.map(|kept| kept.header.clone()) {
            Some(kept) => kept.with_announced(announced),
            None => JournalHeader::new(&self.job.url, total, &landing.version, announced)
                .with_source(self.home()),
        };
        // The validators are one host's, and vouch for no other's bytes.
        let alone = self.sources.len() == 1 && header.has_validators_of(self.home());
        match alone {
            true => header,
            false => header.with_join_evidence(landing.wanted.join_evidence()),
        }
    }

    /// The last steps with a file whose every byte is in place.
    pub(super) async fn complete(
        &mut self,
        landing: &mut PartialClaim,
        follower: Option<DigestFollower>,
        length: u64,
    ) -> Result<DownloadOutcome, GetError> {
        self.expected_length(length)?;
        let PartialClaim {
            partial,
            version,
            wanted,
            ..
        } = landing;
        self.is_size(length)?;
        let found = self.digests(partial, wanted, follower, length).await?;
        if let Err(error) = wanted.verify(&self.url, &found) {
            if self.is_of_document(&error) {
                // Nobody asked for it: there is nothing to show, and the bytes may be a mirror's.
                partial.clear()?;
                return Err(error);
            }
            if self.goes_alone(&error) {
                partial.clear()?;
                return Err(error);
            }
            let error = set_aside(partial, error);
            let several = self.mirrors.dropped().nth(1).is_some();
            return Err(if several { self.of_all(error) } else { error });
        }
        let replace = self.engine.options.existing_file != ExistingFilePolicy::Keep;
        let from = ResourceId::from_url(&self.job.url);
        let PublishedFile { path, unsynced } = publish(partial, (version, from), replace)?;
        if self.engine.requires_durable_name {
            let above = || {
                let mut above = partial.paths.parent_directories();
                above.try_for_each(|directory| partial.storage().sync_directory(directory))
            };
            let synced = unsynced.map_or_else(|| blocking(above), Err);
            synced.map_err(|e| GetError::local("sync the directory of", path.clone(), e))?;
        } else if let Some(error) = unsynced {
            let text = "is whole and in its place, but a power cut now may take its name";
            self.warn(format!("{} {text}: {error}", path.display()))
                .await;
        }
        Ok(DownloadOutcome {
            path: Some(path),
            etag: version.etag.as_ref().map(ToString::to_string),
            checksums: wanted.report(&found),
            ..self.outcome(length)
        })
    }

    /// Waits for the follower, or reads the file now if none ran beside the download.
    async fn digests(
        &self,
        partial: &PartialDownload,
        wanted: &super::publish::ExpectedDigests,
        follower: Option<DigestFollower>,
        length: u64,
    ) -> Result<Vec<ComputedDigest>, GetError> {
        let hashers = DigestSet::new(wanted.algorithms());
        if hashers.is_empty() {
            return Ok(Vec::new());
        }
        let (job, bytes) = (self.job.id, length);
        self.tell(TransferEvent::Verifying { job, bytes }).await;
        let follower =
            follower.unwrap_or_else(|| DigestFollower::start(partial.storage(), hashers));
        let digests = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(GetError::INTERRUPTED),
            digests = follower.finish(length) => digests,
        };
        digests.map_err(|source| GetError::local("read", partial.paths.partial(), source))
    }
}

/// Sizes of segments, from the settings.
pub(super) fn segment_options(engine: &EngineState, connections: usize) -> SegmentOptions {
    let options = &engine.options;
    let defaults = SegmentOptions::default();
    let at_least = |size: u64| options.min_segment_size.map_or(size, |min| size.max(min));
    SegmentOptions {
        min_size: options.min_segment_size.unwrap_or(defaults.min_size),
        min_takeover: options.min_segment_size.unwrap_or(defaults.min_takeover),
        first_request: options
            .segment_size
            .unwrap_or_else(|| at_least(defaults.first_request)),
        max_size: at_least(defaults.max_size),
        fixed_size: options.segment_size,
        connections,
        rate_limited: engine.client.connector().has_rate_limit(),
        fixed_connections: matches!(options.connections, ConnectionCount::Fixed(_)),
    }
}

/// A follower for a file, if any digest is wanted.
pub(super) fn follower(landing: &PartialClaim) -> Option<DigestFollower> {
    let hashers = DigestSet::new(landing.wanted.algorithms());
    (!hashers.is_empty()).then(|| DigestFollower::start(landing.partial.storage(), hashers))
}

fn control_options(connections: ConnectionCount) -> ConnectionControlOptions {
    let fixed = matches!(connections, ConnectionCount::Fixed(_));
    ConnectionControlOptions {
        max: connections.max(),
        min: 1,
        fixed,
        window: WINDOW,
    }
}

/// Bytes that this user may still write beneath a directory, if the system tells.
fn free_space(directory: &std::path::Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

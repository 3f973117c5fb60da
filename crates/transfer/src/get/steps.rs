//! The single steps that [`job`](super::job) puts in order.

use std::ops::Range;

use haul_plan::{SegmentPlan, UnexpectedContent, expected_digests};
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::first_request::{FirstResponse, FirstResponseContent};
use super::host_limits::HostPermit;
use super::partial_claim::PartialClaim;
use super::partial_download::{PartialDownload, ResumedDownload};
use super::publish::ExpectedDigests;
use super::run::DownloadRun;
use super::strategy::segment_options;
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::journal::JournalHeader;
use crate::options::DownloadOutcome;

impl DownloadRun<'_> {
    /// Leave to hold the job's first connection.
    pub(super) async fn permit(&self) -> Result<HostPermit, GetError> {
        let host = self.engine.host_limits.host(&self.url);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::INTERRUPTED),
            permit = host.acquire() => permit.ok_or(GetError::INTERRUPTED),
        }
    }

    /// Leave to hold a connection to the host that answered, which after a redirect is another than was asked: the limit is
    /// that of the host that delivers. `None` when that one has none to give; the job then waits for it with nothing in its hands.
    pub(super) fn admitted(&self, permit: HostPermit) -> Option<HostPermit> {
        let there = self.engine.host_limits.host(&self.url);
        if permit.is_for(&there) {
            return Some(permit);
        }
        drop(permit);
        there.try_acquire_extra()
    }

    /// What the first request asks for.
    pub(super) fn first_range(&self, held: Option<&PartialDownload>) -> Option<Range<u64>> {
        let resumed = held.and_then(|partial| partial.resumed.as_ref());
        let options = segment_options(self.engine, self.most());
        Some(match resumed {
            // Nothing is missing but the origin's word that this is still its version: one byte brings that.
            Some(ResumedDownload { header, .. })
                if held.is_some_and(|held| self.is_whole(held)) =>
            {
                header.length.saturating_sub(1)..header.length.max(1)
            }
            Some(resumed) => {
                SegmentPlan::first_range(&options, &resumed.done, Some(resumed.header.length))
            }
            None => SegmentPlan::first_range(&options, &haul_plan::RangeSet::new(), None),
        })
    }

    /// Whether an earlier run fetched everything and was killed before the last steps.
    pub(super) fn is_whole(&self, partial: &PartialDownload) -> bool {
        partial
            .resumed
            .as_ref()
            .is_some_and(|r| r.done.covers(&(0..r.header.length)))
    }

    /// Whether nothing at all has to be asked any more. Pieces are verified on a road, where bad ones can be fetched again.
    pub(super) fn is_finished(&self, partial: &PartialDownload) -> bool {
        let length = partial.resumed.as_ref().map(|r| r.header.length);
        let meant = length.is_some_and(|length| self.is_size(length).is_ok());
        let kept = partial.resumed.as_ref().map(|resumed| &resumed.header);
        let borne = kept.is_some_and(|kept| self.wanted_of(kept).supports(kept.joined));
        self.pieces.is_none() && meant && borne && self.is_whole(partial)
    }

    /// The last steps of such a run. Nothing is asked of the origin: the version on disk is whole, no other file gives way
    /// to it, and what the origin announced of it stands in the journal.
    pub(super) async fn finish_resumed(
        &mut self,
        mut partial: PartialDownload,
    ) -> Result<DownloadOutcome, GetError> {
        let Some(resumed) = partial.resumed.take() else {
            return Err(GetError::INTERRUPTED);
        };
        self.path = partial.paths.path().to_owned();
        let length = resumed.header.length;
        self.totals.resumed = length;
        let wanted = self.wanted_of(&resumed.header);
        let mut landing = PartialClaim {
            partial,
            version: resumed.header.version(),
            wanted,
        };
        self.complete(&mut landing, None, length).await
    }

    /// What the digests of a file must be of which nothing is asked any more.
    fn wanted_of(&self, kept: &JournalHeader) -> ExpectedDigests {
        let given = self.job.checksums.clone();
        let wanted = ExpectedDigests {
            user: given,
            ..ExpectedDigests::default()
        };
        wanted.with_saved(kept)
    }

    /// What the digests must be: the user's word, and the origin's unless the bytes are decoded on their way.
    pub(super) fn wanted(
        &self,
        headers: &HeaderMap,
        brings: &FirstResponseContent,
    ) -> ExpectedDigests {
        // What is said of an answer's content holds for the file where that is all of it, as a small file's first part is.
        let (whole, decoded) = match brings {
            FirstResponseContent::Whole { encoding, .. } => (
                true,
                encoding.is_some() && self.engine.options.decode_content,
            ),
            FirstResponseContent::Part { range, total, .. } => (*range == (0..*total), false),
            _ => (false, false),
        };
        let mut announced = Vec::new();
        if !decoded {
            announced = expected_digests(headers, whole);
            announced.extend_from_slice(&self.described);
        }
        ExpectedDigests {
            user: self.job.checksums.clone(),
            announced,
            piece_digests: self.pieces.is_some(),
        }
    }

    /// That an answer is of the type and size that the user expects, as far as its head says.
    pub(super) fn expected(&self, begun: &FirstResponse) -> Result<(), GetError> {
        let length = match &begun.brings {
            FirstResponseContent::Part { total, .. } => Some(*total),
            FirstResponseContent::Whole { length, .. } => *length,
            FirstResponseContent::Empty(_) => Some(0),
            FirstResponseContent::NotModified | FirstResponseContent::OtherVersion => return Ok(()),
        };
        let named = begun.answer.headers.get(CONTENT_TYPE);
        let checked = self
            .engine
            .options
            .expected_content
            .check_head(named, length);
        checked.map_err(|source| self.unexpected(source))
    }

    /// That a whole file is of the size that the user expects.
    pub(super) fn expected_length(&self, bytes: u64) -> Result<(), GetError> {
        let checked = self.engine.options.expected_content.check_length(bytes);
        checked.map_err(|source| self.unexpected(source))
    }

    fn unexpected(&self, source: UnexpectedContent) -> GetError {
        let url = Box::new(haul_net::without_credentials(&self.url));
        GetError::UnexpectedContent { url, source }
    }

    /// Tells where the bytes go and how many there are.
    pub(super) async fn name(&self, length: Option<u64>, landing: &PartialClaim) {
        let resumed = landing
            .partial
            .resumed
            .as_ref()
            .map_or(0, |resumed| resumed.done.total_bytes());
        let path = Some(self.path.clone());
        self.tell(TransferEvent::DestinationKnown {
            job: self.job.id,
            path,
            length,
            resumed,
        })
        .await;
    }

    /// Sends an event. Nobody listening is no reason to stop.
    pub(super) async fn tell(&self, event: TransferEvent) {
        let _ = self.engine.events.send(event).await;
    }

    /// Sends a warning.
    pub(super) async fn warn(&self, text: String) {
        self.tell(TransferEvent::Warning {
            job: self.job.id,
            text,
        })
        .await;
    }

    /// Tells that a retry comes, and waits for its time.
    pub(super) async fn wait(
        &self,
        wait: std::time::Duration,
        why: &super::attempt_failure::AttemptFailure,
    ) -> Result<(), GetError> {
        let (job, attempt, why) = (self.job.id, self.course.retries(), why.to_string());
        self.tell(TransferEvent::Retry {
            job,
            attempt,
            wait,
            reason: why,
        })
        .await;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::INTERRUPTED),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// An outcome with the numbers so far.
    pub(super) fn outcome(&self, bytes: u64) -> DownloadOutcome {
        DownloadOutcome {
            url: haul_net::without_credentials(&self.job.url),
            final_url: haul_net::without_credentials(&self.url),
            path: None,
            bytes,
            fetched: self.totals.fetched,
            resumed: self.totals.resumed,
            elapsed: self.started.elapsed(),
            connections: self.totals.connections,
            segments: self.totals.segments,
            retries: self.totals.retries + self.course.retries(),
            etag: None,
            checksums: Vec::new(),
            not_modified: false,
        }
    }
}

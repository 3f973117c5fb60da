//! The single steps that [`job`](super::job) puts in order.

use std::ops::Range;

use haul_plan::{SegmentPlan, expected_digests};
use http::HeaderMap;

use super::finish::Wanted;
use super::first::Brings;
use super::hosts::Permit;
use super::job::Run;
use super::landing::Landing;
use super::partial::{Partial, Resumed};
use crate::error::GetError;
use crate::event::Event;
use crate::options::Outcome;

impl Run<'_> {
    /// Leave to hold the job's first connection.
    pub(super) async fn permit(&self) -> Result<Permit, GetError> {
        let host = self.engine.hosts.of(&self.url);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::STOPPED),
            permit = host.permit() => permit.ok_or(GetError::STOPPED),
        }
    }

    /// Leave to hold a connection to the host that answered, which after a redirect is another than was asked: the limit is
    /// that of the host that delivers. `None` when that one has none to give; the job then waits for it with nothing in its hands.
    pub(super) fn admitted(&self, permit: Permit) -> Option<Permit> {
        let there = self.engine.hosts.of(&self.url);
        if permit.is_for(&there) {
            return Some(permit);
        }
        drop(permit);
        there.try_permit()
    }

    /// What the first request asks for.
    pub(super) fn first_range(&self, held: Option<&Partial>) -> Option<Range<u64>> {
        let resumed = held.and_then(|partial| partial.resumed.as_ref());
        let options = self.segment_options();
        Some(match resumed {
            // Nothing is missing but the origin's word that this is still its version: one byte brings that.
            Some(Resumed { header, .. }) if held.is_some_and(|held| self.is_whole(held)) => {
                header.length.saturating_sub(1)..header.length.max(1)
            }
            Some(resumed) => {
                SegmentPlan::first_range(&options, &resumed.done, Some(resumed.header.length))
            }
            None => SegmentPlan::first_range(&options, &haul_plan::RangeSet::new(), None),
        })
    }

    /// Whether an earlier run fetched everything and was killed before the last steps.
    pub(super) fn is_whole(&self, partial: &Partial) -> bool {
        partial
            .resumed
            .as_ref()
            .is_some_and(|r| r.done.covers(&(0..r.header.length)))
    }

    /// The last steps of such a run. Nothing is asked of the origin: the version on disk is whole, no other file gives way
    /// to it, and what the origin announced of it stands in the journal.
    pub(super) async fn finish_resumed(
        &mut self,
        mut partial: Partial,
    ) -> Result<Outcome, GetError> {
        let Some(resumed) = partial.resumed.take() else {
            return Err(GetError::STOPPED);
        };
        self.path = partial.target.path().to_owned();
        let length = resumed.header.length;
        self.tally.resumed = length;
        let wanted = Wanted {
            given: self.job.checksums.clone(),
            announced: resumed.header.announced(),
        };
        let mut landing = Landing {
            partial,
            version: resumed.header.version(),
            wanted,
        };
        self.complete(&mut landing, None, length).await
    }

    /// What the digests must be: the user's word, and the origin's unless the bytes are decoded on their way.
    pub(super) fn wanted(&self, headers: &HeaderMap, brings: &Brings) -> Wanted {
        // What is said of an answer's content holds for the file where that is all of it, as a small file's first part is.
        let (whole, decoded) = match brings {
            Brings::Whole { encoding, .. } => {
                (true, encoding.is_some() && self.engine.options.decode)
            }
            Brings::Part { range, total, .. } => (*range == (0..*total), false),
            _ => (false, false),
        };
        let announced = if decoded {
            Vec::new()
        } else {
            expected_digests(headers, whole)
        };
        Wanted {
            given: self.job.checksums.clone(),
            announced,
        }
    }

    /// Tells where the bytes go and how many there are.
    pub(super) async fn name(&self, length: Option<u64>, landing: &Landing) {
        let resumed = landing
            .partial
            .resumed
            .as_ref()
            .map_or(0, |resumed| resumed.done.total());
        let path = Some(self.path.clone());
        self.tell(Event::Named {
            job: self.job.id,
            path,
            length,
            resumed,
        })
        .await;
    }

    /// Sends an event. Nobody listening is no reason to stop.
    pub(super) async fn tell(&self, event: Event) {
        let _ = self.engine.events.send(event).await;
    }

    /// Sends a warning.
    pub(super) async fn warn(&self, text: String) {
        self.tell(Event::Warning {
            job: self.job.id,
            text,
        })
        .await;
    }

    /// Tells that a retry comes, and waits for its time.
    pub(super) async fn wait(
        &self,
        wait: std::time::Duration,
        why: &super::failure::Failure,
    ) -> Result<(), GetError> {
        let (job, attempt, why) = (self.job.id, self.course.retries(), why.to_string());
        self.tell(Event::Retry {
            job,
            attempt,
            wait,
            why,
        })
        .await;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::STOPPED),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// An outcome with the numbers so far.
    pub(super) fn outcome(&self, bytes: u64) -> Outcome {
        Outcome {
            url: haul_net::without_credentials(&self.job.url),
            final_url: haul_net::without_credentials(&self.url),
            path: None,
            bytes,
            fetched: self.tally.fetched,
            resumed: self.tally.resumed,
            elapsed: self.started.elapsed(),
            connections: self.tally.connections,
            segments: self.tally.segments,
            retries: self.course.retries(),
            etag: None,
            checksums: Vec::new(),
            not_modified: false,
        }
    }
}

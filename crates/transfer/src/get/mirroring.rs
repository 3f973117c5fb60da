//! What the coordinator of a segmented download does about several sources: whose connection the next one is, what a source's
//! failure and a bad piece lead to. `plan::Mirrors` decides; with one source, or one left, nothing of this changes anything.

use std::ops::Range;

use haul_plan::{PieceRetry, RangeSet, SourceFailure, SourceRecovery};

use super::attempt_failure::AttemptFailure;
use super::claim_table::BadPieceBlame;
use super::host_limits::HostPermit;
use super::piece_verifier::CheckedPiece;
use super::segment_worker::FailedRequest;
use super::segmented::{SegmentCoordinator, SegmentedOutcome};
use crate::error::GetError;
use crate::event::TransferEvent;

impl SegmentCoordinator<'_> {
    /// The source that the next worker asks, with leave for a connection to it. `None` when no source has work for one more, or
    /// room: those that run go on.
    pub(super) fn next_source(&self) -> Option<(usize, HostPermit)> {
        let (now, since) = (self.shared.now(), self.shared.since_begun());
        let order = self.shared.table().sources.order(since);
        order.into_iter().find_map(|source| {
            if !self.shared.table().has_work(source, now) {
                return None;
            }
            let permit = self.shared.sources.host(source).try_acquire_extra()?;
            Some((source, permit))
        })
    }

    /// In a job in which nobody works, lets anybody bring what one source alone was to, where that one can bring nothing just now:
    /// the next look then finds work for some.
    pub(super) fn unbar(&self) {
        let (now, since) = (self.shared.now(), self.shared.since_begun());
        let mut table = self.shared.table();
        if self.is_idle() && self.tasks.bad_ranges.is_empty() && !table.plan.is_complete() {
            table.lift_exclusive(now, since);
        }
    }

    /// Does what a failure asks for as long as there are other sources; false when it is for the course to say.
    pub(super) async fn divert(&mut self, failed: &FailedRequest) -> Result<bool, GetError> {
        let source = failed.source;
        let Some(trouble) = failed.failure.trouble() else {
            return Ok(false);
        };
        if let AttemptFailure::Unfit(why) = &failed.failure {
            self.forsake(source, why).await;
            if self.shared.table().sources.living() == 0 {
                let (url, why) = (Box::new(failed.url.clone()), why.clone());
                return Err(GetError::WrongFile { url, reason: why });
            }
            return Ok(true);
        }
        let (home, why) = (
            self.shared.sources.of(source).home,
            failed.failure.to_string(),
        );
        let fate = {
            let mut table = self.shared.table();
            let place = SourceFailure {
                source,
                now: self.shared.since_begun(),
                flowing: table.flowing_from(source),
                redirected: failed.url != home,
                why: &why,
                jitter: rand::random(),
            };
            if !table.sources.is_living(source) {
                // What was in flight when it was dropped.
                return Ok(true);
            }
            table.sources.on_trouble(trouble, &place)
        };
        tracing::debug!(source, ?fate, "{why}");
        match fate {
            SourceRecovery::Course => return Ok(false),
            SourceRecovery::Dropped => self.forsake(source, &why).await,
            SourceRecovery::Fewer => {}
            SourceRecovery::ResolveAgain => self.shared.sources.resolve(source),
            SourceRecovery::WithoutIfRange => self.shared.sources.set_if_range(source, false),
            SourceRecovery::Rests(wait) => {
                let (job, attempt) = (self.job, 0);
                let retry = TransferEvent::Retry {
                    job,
                    attempt,
                    wait,
                    reason: format!("{}: {why}", haul_net::redacted_url(&home)),
                };
                let _ = self.events.send(retry).await;
            }
        }
        Ok(true)
    }

    /// A source is asked no more. What it brought stays: it was of the version that was pinned, or is verified piece by piece.
    async fn forsake(&mut self, source: usize, why: &str) {
        let (in_play, living) = {
            let mut table = self.shared.table();
            table.drop_source(source, why);
            (table.sources.in_play(), table.sources.living())
        };
        self.control.set_min(in_play);
        if living > 0 {
            let url = haul_net::redacted_url(&self.shared.sources.of(source).home);
            self.warn(format!("{url} is used no more: {why}")).await;
        }
    }

    /// Looks at pieces that are whole by now.
    pub(super) fn verify(&mut self) {
        let Some(verifier) = &mut self.verifier else {
            return;
        };
        let mut done: RangeSet = self.shared.table().plan.done().clone();
        for range in self.tasks.bad_ranges.iter() {
            done.remove(range);
        }
        verifier.start_round(&done);
    }

    /// Whether every piece is right that has to be.
    pub(super) fn is_verified(&self) -> bool {
        self.verifier
            .as_ref()
            .is_none_or(|verifier| verifier.is_complete())
    }

    /// How far the file is as it will be, from its first byte on.
    pub(super) fn front(&self) -> u64 {
        let written = self.shared.table().plan.done().prefix_end();
        let verified = self
            .verifier
            .as_ref()
            .map_or(u64::MAX, |verifier| verifier.front());
        written.min(verified)
    }

    /// Whether a bad piece says that its digest is what is wrong: all of it came from one who knows better.
    fn disproves(&self, range: &Range<u64>) -> bool {
        self.trusted_sources.is_some_and(|named| {
            let (by, whole) = self.shared.table().sources_of(range);
            whole && matches!(by[..], [only] if only < named)
        })
    }

    /// Pieces were looked at.
    pub(super) async fn on_looked(
        &mut self,
        looked: Vec<CheckedPiece>,
    ) -> Result<Option<SegmentedOutcome>, GetError> {
        for CheckedPiece {
            range,
            bad_count: bad,
        } in looked
        {
            if bad == 0 {
                self.shared.table().on_good_piece(&range);
                continue;
            }
            if self.disproves(&range) {
                return Ok(Some(SegmentedOutcome::DocumentMismatch));
            }
            let since = self.shared.since_begun();
            let blame = self.shared.table().blame(&range, bad, since);
            tracing::debug!(?range, ?blame, "a bad piece");
            self.tasks.bad_ranges.insert(range.clone());
            self.checkpoints.discard(range.clone());
            let BadPieceBlame {
                sources: by,
                dropped,
                retry: again,
            } = blame;
            let from = by.iter().map(|source| self.shared.sources.of(*source).home);
            let from: Vec<String> = from.map(|url| haul_net::redacted_url(&url)).collect();
            let from = if from.is_empty() {
                "an earlier run".to_owned()
            } else {
                from.join(" and ")
            };
            if again == PieceRetry::GiveUp && self.trusted_sources.is_some() {
                return Ok(Some(SegmentedOutcome::DocumentMismatch));
            }
            if again == PieceRetry::GiveUp {
                let source = by.first().copied().unwrap_or_default();
                return Err(GetError::PieceDigest {
                    url: Box::new(self.shared.sources.of(source).home),
                    range,
                    algorithm: self.algorithm(),
                });
            }
            let last = range.end - 1;
            self.warn(format!(
                "bytes {}-{last} from {from} are not what their digest says: fetching them again",
                range.start
            ))
            .await;
            for source in dropped {
                self.forsake(source, "a piece that it gave is not what its digest says")
                    .await;
            }
        }
        Ok(None)
    }

    /// The journal claims nothing of these bytes any more: they may be written anew.
    pub(super) fn on_gone(&mut self) {
        for range in self.checkpoints.take_discarded() {
            self.tasks.bad_ranges.remove(range.clone());
            self.shared.table().discard(range);
        }
    }

    fn algorithm(&self) -> haul_plan::DigestAlgorithm {
        let verifier = self.verifier.as_ref();
        verifier.map_or(haul_plan::DigestAlgorithm::Sha256, |verifier| {
            verifier.algorithm()
        })
    }

    async fn warn(&self, text: String) {
        let job = self.job;
        let _ = self.events.send(TransferEvent::Warning { job, text }).await;
    }
}

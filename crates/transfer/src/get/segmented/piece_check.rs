//! Comparing pieces with their digests while a segmented download runs, and what follows from a bad one.

use std::io;
use std::ops::Range;

use super::claim_table::{BadPieceSenders, ClaimTable};
use super::state::SegmentedState;
use crate::error::GetError;
use crate::get::piece_verifier::{CheckedPiece, PieceVerifier};
use crate::range_set::RangeSet;
use crate::recovery::PieceRetry;
use crate::warning::TransferWarning;

/// The verifier of a job's pieces, where there are digests for them, and the pieces that it found bad.
#[derive(Debug, Default)]
pub(super) struct PieceCheck {
    verifier: Option<PieceVerifier>,
    /// Where the digests are those of a document that the user did not ask for: the user's own sources, the first ones, count more.
    trusted_sources: Option<usize>,
    /// Bytes that are known to be bad, while the journal still claims them.
    bad_ranges: RangeSet,
}

/// A bad piece that is fetched again.
#[derive(Debug)]
pub(super) struct BadPiece {
    /// A warning, which names the senders.
    pub(super) warning: TransferWarning,
    /// Sources that were dropped for it.
    pub(super) dropped: Vec<usize>,
}

impl PieceCheck {
    pub(super) fn new(verifier: Option<PieceVerifier>, trusted_sources: Option<usize>) -> Self {
        Self {
            verifier,
            trusted_sources,
            ..Self::default()
        }
    }

    /// Verifies pieces that are whole by now.
    pub(super) fn start_round(&mut self, table: &ClaimTable) {
        let Some(verifier) = &mut self.verifier else {
            return;
        };
        let mut done: RangeSet = table.plan.done().clone();
        for range in self.bad_ranges.iter() {
            done.remove(range);
        }
        verifier.start_round(&done);
    }

    /// Waits for the round that runs; for ever where there are no digests. Cancel safe.
    pub(super) async fn next_results(&mut self) -> io::Result<Vec<CheckedPiece>> {
        match &mut self.verifier {
            Some(verifier) => verifier.next_results().await,
            None => std::future::pending().await,
        }
    }

    /// Whether every piece with a digest is right.
    pub(super) fn is_complete(&self) -> bool {
        let verifier = self.verifier.as_ref();
        verifier.is_none_or(PieceVerifier::is_complete)
    }

    /// How far the file is verified from its first byte on.
    pub(super) fn verified_prefix(&self) -> u64 {
        let verifier = self.verifier.as_ref();
        verifier.map_or(u64::MAX, PieceVerifier::verified_prefix)
    }

    /// Whether bad bytes wait until the journal no longer claims them.
    pub(super) fn has_bad_ranges(&self) -> bool {
        !self.bad_ranges.is_empty()
    }

    /// Ends the round that runs, and waits until it has let go of the file.
    pub(super) async fn close(&mut self) {
        if let Some(verifier) = &mut self.verifier {
            verifier.close().await;
        }
    }

    /// A piece is bad: finds the sources to blame, and decides what follows. The piece counts as bad until it is discarded.
    ///
    /// # Errors
    /// [`VerificationError::PieceDigest`](crate::VerificationError::PieceDigest) where to fetch the piece again would not help.
    pub(super) fn on_bad_piece(
        &mut self,
        piece: &CheckedPiece,
        shared: &SegmentedState,
    ) -> Result<BadPiece, GetError> {
        let range = &piece.range;
        let job_now = shared.job_now();
        let mut table = shared.table();
        if let Some(sender) = self.trusted_sender(&table, range) {
            return Err(piece.error(&table.sources.get(sender).url));
        }
        let blame = table.blame(range, piece.bad_count, job_now);
        tracing::debug!(?range, ?blame, "a bad piece");
        self.bad_ranges.insert(range.clone());
        let BadPieceSenders {
            senders,
            dropped,
            retry,
        } = blame;
        let url = |source: usize| &*table.sources.get(source).url;
        if retry == PieceRetry::GiveUp {
            let source = senders.first().copied().unwrap_or_default();
            return Err(piece.error(url(source)));
        }
        let senders = senders
            .iter()
            .map(|source| haul_net::redacted_url(url(*source)));
        let warning = TransferWarning::WrongPiece {
            range: range.clone(),
            senders: senders.collect(),
        };
        Ok(BadPiece { warning, dropped })
    }

    /// The sender of all of a bad piece, if it counts more than the piece's digest.
    fn trusted_sender(&self, table: &ClaimTable, range: &Range<u64>) -> Option<usize> {
        let trusted = self.trusted_sources?;
        let (senders, is_all) = table.senders(range);
        match senders[..] {
            [sender] if is_all && sender < trusted => Some(sender),
            _ => None,
        }
    }

    /// The journal no longer claims a bad piece: its bytes may be fetched again.
    pub(super) fn on_discarded(&mut self, range: Range<u64>, table: &mut ClaimTable) {
        self.bad_ranges.remove(range.clone());
        table.discard(range);
    }
}

//! The end of a strategy: a file whose every byte is written, or the reason to begin again with another strategy.
//!
//! A strategy fetches a file once its first response is there: [`segmented`](super::segmented) over several connections, or
//! [`sequential`](super::sequential) over one. It changes nothing but what it is lent; what follows from its outcome is for
//! [`run`](super::run) to do.

use super::checkpoint::Checkpointer;
use super::partial_claim::PartialClaim;
use super::partial_download::PartialDownload;
use crate::checksum::{DigestFollower, DigestSet};
use crate::journal::SavedRange;

/// How a strategy ended, when not with an error.
#[derive(Debug)]
pub(super) enum StrategyOutcome {
    /// Every byte of the file is written.
    Complete(Box<DownloadedFile>),
    /// The download begins again.
    Restart(Box<Restart>),
}

impl StrategyOutcome {
    /// The download begins again.
    pub(super) fn restart(partial: PartialDownload, reason: RestartReason) -> Self {
        Self::Restart(Box::new(Restart { partial, reason }))
    }
}

/// A beginning from the first byte.
#[derive(Debug)]
pub(super) struct Restart {
    /// The partial file. Its bytes stay until others replace them.
    pub(super) partial: PartialDownload,
    pub(super) reason: RestartReason,
}

/// Why a download begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartReason {
    /// The resource changed at the origin.
    Changed,
    /// The origin's ranges cannot be trusted.
    UnusableRanges,
    /// The versions of several responses cannot be compared, so one response must bring everything (row A7).
    NoValidator,
}

/// A partial file whose every byte is written.
#[derive(Debug)]
pub(super) struct DownloadedFile {
    pub(super) claim: PartialClaim,
    pub(super) length: u64,
    /// Computes the digests behind the download, if it began to.
    pub(super) follower: Option<DigestFollower>,
    /// Bytes that are written and not in the journal yet.
    pub(super) unsaved: Option<UnsavedRanges>,
}

/// Ranges for the journal's next checkpoint, if the file does not get its name.
#[derive(Debug)]
pub(super) struct UnsavedRanges {
    pub(super) checkpointer: Checkpointer,
    pub(super) ranges: Vec<SavedRange>,
}

/// A follower that computes a file's digests behind its download, if any is wanted.
pub(super) fn start_follower(claim: &PartialClaim) -> Option<DigestFollower> {
    let digests = DigestSet::new(claim.digests.algorithms());
    (!digests.is_empty()).then(|| DigestFollower::start(claim.partial.storage(), digests))
}

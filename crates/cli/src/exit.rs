//! The exit codes.

use std::process::ExitCode;

use haul_service::listen::{ListenAddress, ListenError};
use haul_transfer::batch::{BatchHaltKind, BatchSummary};
use haul_transfer::{ErrorClass, GetError};

/// Why the program ends, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Done = 0,
    /// Some of several jobs failed, or a server cut some requests off.
    SomeFailed = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// A checksum differs, or the resource keeps changing at the origin.
    Verification = 3,
    /// A disk, a permission, a file that exists.
    LocalIo = 4,
    /// The network, a proxy or the origin; an address that haul cannot listen on.
    Network = 5,
    /// SIGINT or SIGTERM; partial downloads are kept.
    Interrupted = 130,
    /// The reader of standard output has closed it: the code that a shell reports for a program that SIGPIPE ends.
    ReaderGone = 141,
}

impl ExitReason {
    /// All of them, in the order of their codes.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::Done,
        Self::SomeFailed,
        Self::Usage,
        Self::Verification,
        Self::LocalIo,
        Self::Network,
        Self::Interrupted,
        Self::ReaderGone,
    ];

    pub(crate) fn from_error(error: &GetError) -> Self {
        Self::from_class(error.class())
    }

    pub(crate) fn from_class(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Verification => Self::Verification,
            ErrorClass::LocalIo => Self::LocalIo,
            ErrorClass::Network => Self::Network,
            ErrorClass::Interrupted => Self::Interrupted,
            ErrorClass::Usage => Self::Usage,
        }
    }

    /// The code for a batch. `has_signal` is whether a signal stopped it. A local error or a closed archive stops all of its jobs, so it
    /// goes before failed files.
    pub(crate) fn from_batch(summary: &BatchSummary, has_signal: bool) -> Self {
        match summary.halted.as_ref().map(|halted| halted.kind) {
            Some(BatchHaltKind::LocalIo) => return Self::LocalIo,
            Some(BatchHaltKind::ReaderGone) => return Self::ReaderGone,
            Some(BatchHaltKind::UnusableList) => return Self::Usage,
            Some(BatchHaltKind::TooManyFailures | BatchHaltKind::Refused) | None => {}
        }
        match summary.failed {
            _ if has_signal => Self::Interrupted,
            0 => Self::Done,
            _ => Self::SomeFailed,
        }
    }

    pub(crate) fn from_listen_error(error: &ListenError) -> Self {
        match error {
            // The .socket unit, or the flag, is wrong.
            ListenError::NotInherited { .. } | ListenError::Inherited(_) => Self::Usage,
            ListenError::NotASocket { .. } => Self::LocalIo,
            ListenError::Io {
                address: ListenAddress::Unix { .. },
                ..
            } => Self::LocalIo,
            ListenError::Io { source, .. } if haul_net::is_descriptor_limit(source) => {
                Self::LocalIo
            }
            _ => Self::Network,
        }
    }

    /// The name in JSON output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::SomeFailed => "some_failed",
            Self::Usage => "usage",
            Self::Verification => "verification",
            Self::LocalIo => "local_io",
            Self::Network => "network",
            Self::Interrupted => "interrupted",
            Self::ReaderGone => "reader_gone",
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(exit: ExitReason) -> Self {
        Self::from(exit as u8)
    }
}

/// Counts how jobs ended, for the exit code.
#[derive(Debug, Default)]
pub(crate) struct ExitTally {
    /// Jobs that have ended, failed ones included.
    ended: usize,
    /// The first that was not `Done`.
    first: Option<ExitReason>,
    interrupted: bool,
    /// Why a result could not be written.
    lost_result: Option<ExitReason>,
}

impl ExitTally {
    /// Counts the end of a job.
    pub(crate) fn add(&mut self, exit: ExitReason) {
        self.ended += 1;
        self.interrupted |= exit == ExitReason::Interrupted;
        if exit != ExitReason::Done {
            self.first.get_or_insert(exit);
        }
    }

    /// Counts jobs that were not tried, since one refusal would have hit them all.
    pub(crate) fn not_tried(&mut self, jobs: u64) {
        self.ended += usize::try_from(jobs).unwrap_or(usize::MAX);
    }

    /// Notes that a result could not be written. Returns whether it is the first.
    pub(crate) fn lost_result(&mut self, exit: ExitReason) -> bool {
        let first = self.lost_result.is_none();
        self.lost_result.get_or_insert(exit);
        first
    }

    /// The code of `jobs` jobs: of a single one its own, of several whether any failed. A result that could not be written goes before
    /// both, since its reader must learn of it.
    pub(crate) fn exit(&self, jobs: usize) -> ExitReason {
        if self.interrupted || self.ended < jobs {
            return ExitReason::Interrupted;
        }
        match (self.lost_result, self.first) {
            (Some(exit), _) => exit,
            (None, None) => ExitReason::Done,
            (None, Some(_)) if jobs > 1 => ExitReason::SomeFailed,
            (None, Some(exit)) => exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_transfer::batch::BatchHalt;

    use super::*;

    fn tally_exit(jobs: usize, ends: &[ExitReason]) -> ExitReason {
        let mut tally = ExitTally::default();
        ends.iter().for_each(|end| tally.add(*end));
        tally.exit(jobs)
    }

    #[test]
    fn the_code_of_a_batch_says_whether_a_file_failed_and_why_it_stopped() {
        let exit = |failed, halted: Option<BatchHaltKind>, has_signal| {
            let halted = halted.map(|kind| BatchHalt {
                kind,
                reason: "the reason".into(),
            });
            let summary = BatchSummary {
                failed,
                halted,
                ..BatchSummary::default()
            };
            ExitReason::from_batch(&summary, has_signal)
        };
        assert_eq!(exit(0, None, false), ExitReason::Done);
        assert_eq!(exit(1, None, false), ExitReason::SomeFailed);
        assert_eq!(exit(1, None, true), ExitReason::Interrupted);
        assert_eq!(
            exit(1, Some(BatchHaltKind::LocalIo), false),
            ExitReason::LocalIo
        );
        assert_eq!(
            exit(1, Some(BatchHaltKind::ReaderGone), false),
            ExitReason::ReaderGone
        );
        assert_eq!(
            exit(3, Some(BatchHaltKind::TooManyFailures), false),
            ExitReason::SomeFailed
        );
    }

    #[test]
    fn one_job_has_its_own_code_and_several_share_one() {
        assert_eq!(tally_exit(1, &[ExitReason::Done]), ExitReason::Done);
        assert_eq!(
            tally_exit(1, &[ExitReason::Verification]),
            ExitReason::Verification
        );
        assert_eq!(
            tally_exit(2, &[ExitReason::Done, ExitReason::Network]),
            ExitReason::SomeFailed
        );
        assert_eq!(
            tally_exit(2, &[ExitReason::Network, ExitReason::Interrupted]),
            ExitReason::Interrupted
        );
        assert_eq!(tally_exit(2, &[ExitReason::Done]), ExitReason::Interrupted);
        let mut tally = ExitTally::default();
        tally.add(ExitReason::Done);
        assert!(
            tally.lost_result(ExitReason::ReaderGone) && !tally.lost_result(ExitReason::LocalIo)
        );
        assert_eq!(tally.exit(1), ExitReason::ReaderGone);
    }
}

//! The exit codes.

use std::process::ExitCode;

use haul_service::listen::{ListenAddress, ListenError};
use haul_transfer::batch::{BatchSummary, StopReason};
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

    /// The code for a batch. A failure that stops all jobs takes precedence over failed files.
    pub(crate) fn from_batch(summary: &BatchSummary) -> Self {
        match summary.stop_reason() {
            Some(StopReason::Interrupted) => Self::Interrupted,
            Some(StopReason::LocalIo) => Self::LocalIo,
            Some(StopReason::ReaderGone) => Self::ReaderGone,
            Some(StopReason::UnusableList) => Self::Usage,
            Some(StopReason::TooManyFailures | StopReason::Refused) | None => {
                if summary.failed == 0 {
                    Self::Done
                } else {
                    Self::SomeFailed
                }
            }
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
    /// The first that was not `Done`.
    first: Option<ExitReason>,
    interrupted: bool,
    /// Why a result could not be written.
    lost_result: Option<ExitReason>,
}

impl ExitTally {
    /// Counts the end of a job.
    pub(crate) fn add(&mut self, exit: ExitReason) {
        self.interrupted |= exit == ExitReason::Interrupted;
        if exit != ExitReason::Done {
            self.first.get_or_insert(exit);
        }
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
        if self.interrupted {
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
    use haul_transfer::batch::EarlyStop;

    use super::*;

    fn tally_exit(jobs: usize, ends: &[ExitReason]) -> ExitReason {
        let mut tally = ExitTally::default();
        ends.iter().for_each(|end| tally.add(*end));
        tally.exit(jobs)
    }

    #[test]
    fn the_code_of_a_batch_says_whether_a_file_failed_and_why_it_stopped() {
        let exit = |failed, stopped: Option<StopReason>| {
            let stopped = stopped.map(|reason| EarlyStop {
                reason,
                text: "the reason".into(),
            });
            let summary = BatchSummary {
                failed,
                stopped,
                ..BatchSummary::default()
            };
            ExitReason::from_batch(&summary)
        };
        assert_eq!(exit(0, None), ExitReason::Done);
        assert_eq!(exit(1, None), ExitReason::SomeFailed);
        assert_eq!(
            exit(1, Some(StopReason::Interrupted)),
            ExitReason::Interrupted
        );
        assert_eq!(exit(1, Some(StopReason::LocalIo)), ExitReason::LocalIo);
        assert_eq!(
            exit(1, Some(StopReason::ReaderGone)),
            ExitReason::ReaderGone
        );
        assert_eq!(
            exit(3, Some(StopReason::TooManyFailures)),
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
        let mut tally = ExitTally::default();
        tally.add(ExitReason::Done);
        assert!(
            tally.lost_result(ExitReason::ReaderGone) && !tally.lost_result(ExitReason::LocalIo)
        );
        assert_eq!(tally.exit(1), ExitReason::ReaderGone);
    }
}

//! The exit codes, in one table.

use std::process::ExitCode;

use haul_serve::accept::ShutdownOutcome;
use haul_service::listen::{ListenAddress, ListenError};
use haul_transfer::batch::{BatchHaltKind, BatchSummary};
use haul_transfer::{ErrorClass, GetError};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// Everything was done.
    Done = 0,
    /// Of several jobs, some failed; of a server's requests, some were cut off.
    SomeFailed = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// A checksum differs, or the resource would not stand still.
    Verification = 3,
    /// Disk, permission, a name that is taken.
    LocalIo = 4,
    /// The network, a proxy or the origin; an address that cannot be listened on.
    Network = 5,
    /// SIGINT or SIGTERM; what can be resumed was kept.
    Interrupted = 130,
    /// Whoever read standard output is gone: what a shell reports for a program that SIGPIPE ends.
    ReaderGone = 141,
}

impl ExitReason {
    /// The code for an error.
    pub(crate) fn from_error(error: &GetError) -> Self {
        Self::from_class(error.class())
    }

    /// The code for a kind of error.
    pub(crate) fn from_class(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Verification => Self::Verification,
            ErrorClass::LocalIo => Self::LocalIo,
            ErrorClass::Network => Self::Network,
            ErrorClass::Interrupted => Self::Interrupted,
            ErrorClass::Usage => Self::Usage,
        }
    }

    /// The code for a batch. What stopped it stopped it for all of its jobs; `asked` is whether that was a signal.
    pub(crate) fn from_batch(summary: &BatchSummary, asked: bool) -> Self {
        match summary.halted.as_ref().map(|halted| halted.kind) {
            Some(BatchHaltKind::LocalIo) => return Self::LocalIo,
            Some(BatchHaltKind::ReaderGone) => return Self::ReaderGone,
            Some(BatchHaltKind::TooManyFailures) | None => {}
        }
        match summary.failed {
            _ if asked => Self::Interrupted,
            0 => Self::Done,
            _ => Self::SomeFailed,
        }
    }

    /// The code for an address that cannot be listened on.
    pub(crate) fn from_listen_error(error: &ListenError) -> Self {
        match error {
            // The unit that should have handed it over, or the flag, is wrong.
            ListenError::NotHanded { .. } | ListenError::Handed(_) => Self::Usage,
            ListenError::Foreign { .. } => Self::LocalIo,
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

    /// The code for a server that was asked to end, and did.
    pub(crate) fn from_shutdown(ending: ShutdownOutcome) -> Self {
        match ending {
            ShutdownOutcome::Clean => Self::Done,
            ShutdownOutcome::Aborted => Self::SomeFailed,
        }
    }

    /// Its name in objects that programs read.
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

/// The ends of several jobs, and the code they come to.
#[derive(Debug, Default)]
pub(crate) struct ExitTally {
    /// How many ended, well or not.
    ended: usize,
    /// The first end that was not `Done`.
    first: Option<ExitReason>,
    /// Whether a signal ended any.
    interrupted: bool,
    /// How a result ended that could not be delivered.
    undelivered: Option<ExitReason>,
}

impl ExitTally {
    /// A job ended.
    pub(crate) fn add(&mut self, exit: ExitReason) {
        self.ended += 1;
        self.interrupted |= exit == ExitReason::Interrupted;
        if exit != ExitReason::Done {
            self.first.get_or_insert(exit);
        }
    }

    /// A result could not be delivered; whether it is the first.
    pub(crate) fn undelivered(&mut self, exit: ExitReason) -> bool {
        let first = self.undelivered.is_none();
        self.undelivered.get_or_insert(exit);
        first
    }

    /// The code of `jobs` jobs: a single one's own; of several, whether any failed. Whoever waits for a result that does not
    /// come must learn of it, whatever the jobs came to.
    pub(crate) fn exit(&self, jobs: usize) -> ExitReason {
        if self.interrupted || self.ended < jobs {
            return ExitReason::Interrupted;
        }
        match (self.undelivered, self.first) {
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
        let exit = |failed, halted: Option<BatchHaltKind>, asked| {
            let halted = halted.map(|kind| BatchHalt {
                kind,
                reason: "it is so".into(),
            });
            let summary = BatchSummary {
                failed,
                halted,
                ..BatchSummary::default()
            };
            ExitReason::from_batch(&summary, asked)
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
            tally.undelivered(ExitReason::ReaderGone) && !tally.undelivered(ExitReason::LocalIo)
        );
        assert_eq!(tally.exit(1), ExitReason::ReaderGone);
    }
}

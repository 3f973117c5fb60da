//! The exit codes, in one table.

use std::process::ExitCode;

use haul_serve::accept::Ending;
use haul_service::listen::{Address, ListenError};
use haul_transfer::batch::{Halt, Summary};
use haul_transfer::{Class, GetError};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
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

impl Exit {
    /// The code for an error.
    pub(crate) fn of(error: &GetError) -> Self {
        Self::of_class(error.class())
    }

    /// The code for a kind of error.
    pub(crate) fn of_class(class: Class) -> Self {
        match class {
            Class::Verification => Self::Verification,
            Class::LocalIo => Self::LocalIo,
            Class::Network => Self::Network,
            Class::Interrupted => Self::Interrupted,
            Class::Usage => Self::Usage,
        }
    }

    /// The code for a batch. What stopped it stopped it for all of its jobs; `asked` is whether that was a signal.
    pub(crate) fn of_batch(summary: &Summary, asked: bool) -> Self {
        match summary.halted.as_ref().map(|halted| halted.kind) {
            Some(Halt::LocalIo) => return Self::LocalIo,
            Some(Halt::ReaderGone) => return Self::ReaderGone,
            Some(Halt::TooManyFailed) | None => {}
        }
        match summary.failed {
            _ if asked => Self::Interrupted,
            0 => Self::Done,
            _ => Self::SomeFailed,
        }
    }

    /// The code for an address that cannot be listened on.
    pub(crate) fn of_listen(error: &ListenError) -> Self {
        match error {
            // The unit that should have handed it over, or the flag, is wrong.
            ListenError::NotHanded { .. } | ListenError::Handed(_) => Self::Usage,
            ListenError::Foreign { .. } => Self::LocalIo,
            ListenError::Io {
                address: Address::Unix { .. },
                ..
            } => Self::LocalIo,
            ListenError::Io { source, .. } if haul_net::is_shortage(source) => Self::LocalIo,
            _ => Self::Network,
        }
    }

    /// The code for a server that was asked to end, and did.
    pub(crate) fn of_ending(ending: Ending) -> Self {
        match ending {
            Ending::Clean => Self::Done,
            Ending::CutOff => Self::SomeFailed,
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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The ends of several jobs, and the code they come to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many ended, well or not.
    ended: usize,
    /// The first end that was not `Done`.
    first: Option<Exit>,
    /// Whether a signal ended any.
    interrupted: bool,
    /// How a result ended that could not be delivered.
    undelivered: Option<Exit>,
}

impl Tally {
    /// A job ended.
    pub(crate) fn add(&mut self, exit: Exit) {
        self.ended += 1;
        self.interrupted |= exit == Exit::Interrupted;
        if exit != Exit::Done {
            self.first.get_or_insert(exit);
        }
    }

    /// A result could not be delivered; whether it is the first.
    pub(crate) fn undelivered(&mut self, exit: Exit) -> bool {
        let first = self.undelivered.is_none();
        self.undelivered.get_or_insert(exit);
        first
    }

    /// The code of `jobs` jobs: a single one's own; of several, whether any failed. Whoever waits for a result that does not
    /// come must learn of it, whatever the jobs came to.
    pub(crate) fn exit(&self, jobs: usize) -> Exit {
        if self.interrupted || self.ended < jobs {
            return Exit::Interrupted;
        }
        match (self.undelivered, self.first) {
            (Some(exit), _) => exit,
            (None, None) => Exit::Done,
            (None, Some(_)) if jobs > 1 => Exit::SomeFailed,
            (None, Some(exit)) => exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_transfer::batch::Halted;

    use super::*;

    fn exit(jobs: usize, ends: &[Exit]) -> Exit {
        let mut tally = Tally::default();
        ends.iter().for_each(|end| tally.add(*end));
        tally.exit(jobs)
    }

    #[test]
    fn a_batch_says_whether_any_failed_and_what_stopped_all() {
        let exit = |failed, halted: Option<Halt>, asked| {
            let halted = halted.map(|kind| Halted {
                kind,
                text: "it is so".into(),
            });
            let summary = Summary {
                failed,
                halted,
                ..Summary::default()
            };
            Exit::of_batch(&summary, asked)
        };
        assert_eq!(exit(0, None, false), Exit::Done);
        assert_eq!(exit(1, None, false), Exit::SomeFailed);
        assert_eq!(exit(1, None, true), Exit::Interrupted);
        assert_eq!(exit(1, Some(Halt::LocalIo), false), Exit::LocalIo);
        assert_eq!(exit(1, Some(Halt::ReaderGone), false), Exit::ReaderGone);
        assert_eq!(exit(3, Some(Halt::TooManyFailed), false), Exit::SomeFailed);
    }

    #[test]
    fn one_job_has_its_own_code_and_several_have_one_for_all() {
        assert_eq!(exit(1, &[Exit::Done]), Exit::Done);
        assert_eq!(exit(1, &[Exit::Verification]), Exit::Verification);
        assert_eq!(exit(2, &[Exit::Done, Exit::Network]), Exit::SomeFailed);
        assert_eq!(
            exit(2, &[Exit::Network, Exit::Interrupted]),
            Exit::Interrupted
        );
        assert_eq!(exit(2, &[Exit::Done]), Exit::Interrupted);
        let mut tally = Tally::default();
        tally.add(Exit::Done);
        assert!(tally.undelivered(Exit::ReaderGone) && !tally.undelivered(Exit::LocalIo));
        assert_eq!(tally.exit(1), Exit::ReaderGone);
    }
}

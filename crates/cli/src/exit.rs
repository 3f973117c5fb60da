//! The exit codes, in one table.

use std::process::ExitCode;

use haul_transfer::{Class, GetError};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done = 0,
    /// Of several jobs, some failed.
    SomeFailed = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// A checksum differs, or the resource would not stand still.
    Verification = 3,
    /// Disk, permission, a name that is taken.
    LocalIo = 4,
    /// The network, a proxy or the origin.
    Network = 5,
    /// SIGINT or SIGTERM; what can be resumed was kept.
    Interrupted = 130,
}

impl Exit {
    /// The code for an error.
    pub(crate) fn of(error: &GetError) -> Self {
        match error.class() {
            Class::Verification => Self::Verification,
            Class::LocalIo => Self::LocalIo,
            Class::Network => Self::Network,
            Class::Interrupted => Self::Interrupted,
        }
    }

    /// The code for a job's end.
    pub(crate) fn of_result<T>(result: &Result<T, GetError>) -> Self {
        result.as_ref().map_or_else(Self::of, |_| Self::Done)
    }

    /// Its name in `--json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::SomeFailed => "some_failed",
            Self::Usage => "usage",
            Self::Verification => "verification",
            Self::LocalIo => "local_io",
            Self::Network => "network",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

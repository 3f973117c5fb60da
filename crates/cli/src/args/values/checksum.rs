//! A checksum to verify or report, or a file with a list of them.

use std::path::PathBuf;
use std::str::FromStr;

use haul_plan::{Checksum, ChecksumError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChecksumArg {
    Checksum(Checksum),
    /// `@FILE`, in the format of sha256sum.
    List(PathBuf),
}

impl ChecksumArg {
    /// Whether there is no digest, so that it is printed.
    pub(crate) fn is_report(&self) -> bool {
        matches!(self, Self::Checksum(checksum) if checksum.digest.is_none())
    }
}

impl FromStr for ChecksumArg {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        match text.strip_prefix('@') {
            Some(path) if !path.is_empty() => Ok(Self::List(path.into())),
            _ => text.parse().map(Self::Checksum),
        }
    }
}

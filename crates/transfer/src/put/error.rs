//! Why an upload failed.

use std::io;
use std::path::PathBuf;

use haul_net::Kind;
use haul_plan::upload::PartPlanError;
use haul_s3::{S3Address, S3Error, S3ErrorKind};
use http::StatusCode;

use crate::bucket::BucketError;
use crate::error::ErrorClass;

/// A failed upload. The object that the target names is the old one, or none.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// It was stopped.
    #[error("interrupted")]
    Interrupted {
        /// Whether the same command goes on with what the store has.
        is_resumable: bool,
    },
    /// The store refused, or could not be reached.
    #[error(transparent)]
    Store(S3Error),
    /// A file cannot be read, or a journal not be written.
    #[error("cannot {action} {}", path.display())]
    LocalIo {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file was written to while it was sent. Nothing was published.
    #[error("{} changed while it was uploaded, and nothing was stored", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The store has other bytes than were sent.
    #[error("the store has another checksum of {target} than haul")]
    Checksum {
        /// The object.
        target: S3Address,
    },
    /// A condition does not hold.
    #[error("{target} exists already, or is not the version that it should be: nothing was stored")]
    Condition {
        /// The object.
        target: S3Address,
    },
    /// The file cannot be divided into parts.
    #[error("{}: {source}", path.display())]
    Parts {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PartPlanError,
    },
    /// Another process uploads the same file to the same object.
    #[error("another haul uploads {} to {target}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The object.
        target: S3Address,
    },
}

impl PutError {
    pub(super) fn local(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::LocalIo {
            action,
            path: path.into(),
            source,
        }
    }

    /// What kind of failure it is, for the exit code.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Interrupted { .. } => ErrorClass::Interrupted,
            Self::Store(error) => match &error.kind {
                S3ErrorKind::Address(_) => ErrorClass::Usage,
                S3ErrorKind::Network(error) if *error.kind() == Kind::RequestBody => {
                    ErrorClass::LocalIo
                }
                _ => ErrorClass::Network,
            },
            Self::LocalIo { .. } | Self::Locked { .. } => ErrorClass::LocalIo,
            Self::Changed { .. } | Self::Checksum { .. } => ErrorClass::Verification,
            Self::Condition { .. } => ErrorClass::Network,
            Self::Parts { .. } => ErrorClass::Usage,
        }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Interrupted { is_resumable: true } => Some(CAN_BE_RESUMED),
            Self::Interrupted { .. } => None,
            Self::Changed { .. } => Some("upload it again when nothing writes to it"),
            Self::Locked { .. } => Some("wait for it"),
            _ => None,
        }
    }
}

/// For uploads whose parts the store keeps.
pub(super) const CAN_BE_RESUMED: &str = "the same command sends what is missing; haul put --abort with the same arguments removes what was sent";

impl From<BucketError> for PutError {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::Interrupted => Self::Interrupted {
                is_resumable: false,
            },
            BucketError::Store(error) => error.into(),
        }
    }
}

impl From<S3Error> for PutError {
    fn from(error: S3Error) -> Self {
        match error.status() {
            Some(StatusCode::PRECONDITION_FAILED) => Self::Condition {
                target: (*error.address).clone(),
            },
            _ => Self::Store(error),
        }
    }
}

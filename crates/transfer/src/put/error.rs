//! Why an upload failed.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use haul_net::{Kind, redacted_url};
use haul_plan::{Remedy, RetryAfterText};
use haul_s3::{S3Address, S3Error, S3ErrorKind};
use http::StatusCode;
use url::Url;

use super::options::UploadTarget;
use super::part_plan::PartPlanError;
use crate::bucket::BucketError;
use crate::error::{ErrorClass, wait_remedies};
use crate::recovery::RefusalReach;

/// A failed upload. The object that the target names is the old one, or none.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
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
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file was written to while it was sent. Nothing was published.
    #[error("{} changed while it was uploaded, and nothing was stored", path.display())]
    Changed { path: PathBuf },
    /// The store has other bytes than were sent.
    #[error("the store has another checksum of {target} than haul")]
    Checksum { target: S3Address },
    /// A condition does not hold.
    #[error("{target} exists already, or is not the version that it should be: nothing was stored")]
    Condition {
        /// The object or URL.
        target: UploadTarget,
    },
    /// A server refused the file.
    #[error("{} answered {status}{}{}", redacted_url(.url), DisplayText(.text.as_deref()), RetryAfterText(*.retry_after))]
    Status {
        /// Where the file was to go.
        url: Box<Url>,
        status: StatusCode,
        /// The first line of the response.
        text: Option<String>,
        /// The time that the response asks to wait.
        retry_after: Option<Duration>,
    },
    /// A server could not be reached.
    #[error("cannot upload to {}", redacted_url(.url))]
    Transport {
        /// Where the file was to go.
        url: Box<Url>,
        source: Box<haul_net::Error>,
    },
    /// The file was written to while it was sent, and the server has taken what was sent.
    #[error("{} changed while it was uploaded: the server may have a mix of both", path.display())]
    ChangedAfterwards { path: PathBuf },
    /// An upload was aborted again and again, and the store still lists parts of it; or the server does not speak S3 now.
    #[error("parts of upload {upload_id} are left at {target}")]
    PartsLeft {
        target: S3Address,
        upload_id: String,
    },
    /// The file cannot be divided into parts.
    #[error("{}: {source}", path.display())]
    Parts {
        path: PathBuf,
        source: PartPlanError,
    },
    /// Another process uploads the same file to the same object.
    #[error("another haul uploads {} to {target}", path.display())]
    Locked { path: PathBuf, target: S3Address },
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
                S3ErrorKind::Network(error) if *error.kind() == Kind::InvalidRequest => {
                    ErrorClass::Usage
                }
                _ => ErrorClass::Network,
            },
            Self::LocalIo { .. } | Self::Locked { .. } => ErrorClass::LocalIo,
            Self::Changed { .. } | Self::ChangedAfterwards { .. } | Self::Checksum { .. } => {
                ErrorClass::Verification
            }
            Self::Transport { source, .. } if *source.kind() == Kind::RequestBody => {
                ErrorClass::LocalIo
            }
            Self::Status { .. } | Self::Transport { .. } => ErrorClass::Network,
            Self::Condition { .. } | Self::PartsLeft { .. } => ErrorClass::Network,
            Self::Parts { .. } => ErrorClass::Usage,
        }
    }

    /// The reach of a refusal, and its cause in a few words, the same for all files; `None` if the error is not a refusal.
    #[must_use]
    pub fn refusal(&self) -> Option<(RefusalReach, String)> {
        let (status, code) = match self {
            Self::Status { status, .. } => (*status, ""),
            Self::Store(error) => match &error.kind {
                // The same credentials sign every request.
                S3ErrorKind::Network(error) if *error.kind() == Kind::Signing => {
                    return Some((RefusalReach::Run, error.to_string()));
                }
                S3ErrorKind::Service(error) if !error.is_transient() => {
                    (error.status, error.code.as_str())
                }
                _ => return None,
            },
            _ => return None,
        };
        let reach = RefusalReach::of_response(status, code);
        Some((reach, format!("{} {code}", status.as_u16())))
    }

    /// What the user can do about it.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        let advice = |text| vec![Remedy::advice(text)];
        match self {
            Self::Interrupted { is_resumable: true } => vec![Remedy::Resume, Remedy::AbortUpload],
            Self::Changed { .. } | Self::ChangedAfterwards { .. } => {
                advice("upload it again when nothing writes to it")
            }
            Self::Locked { .. } => advice("wait for it"),
            Self::PartsLeft { .. } => vec![Remedy::AbortUpload],
            Self::Parts {
                source: PartPlanError::StreamTooLong { .. },
                ..
            } => vec![Remedy::GiveExpectedSize],
            Self::Store(error) => error.remedies(),
            Self::Transport { source, .. } => source.remedies(),
            Self::Status {
                retry_after: Some(wait),
                ..
            } => wait_remedies(*wait),
            Self::Status { status, .. } => match *status {
                StatusCode::UNAUTHORIZED => vec![Remedy::LogIn],
                StatusCode::FORBIDDEN => vec![
                    Remedy::advice("the login may not write there, or the server is read-only"),
                    Remedy::AllowWriting,
                ],
                StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => vec![
                    Remedy::advice("the server accepts no PUT at this URL"),
                    Remedy::AllowWriting,
                ],
                StatusCode::CONFLICT => advice("does the folder exist?"),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// A text after a colon.
struct DisplayText<'a>(Option<&'a str>);

impl fmt::Display for DisplayText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

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
                target: (*error.address).clone().into(),
            },
            _ => Self::Store(error),
        }
    }
}

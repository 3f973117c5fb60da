//! The time limits that may end a transfer. An error tells which one it was; the front ends know how their users set it.

use std::time::Duration;

use haul_net::Kind;
use haul_plan::ExceededLimit;
use haul_s3::{S3Error, S3ErrorKind};
use serde::{Deserialize, Serialize};

use crate::error::GetError;
use crate::put::PutError;

/// A time limit that a user can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferTimeLimit {
    /// From the end of a request to the start of its response.
    Response,
    /// Without a byte in the middle of a body.
    Stall,
    /// The wait for which a host asks.
    RequestedWait,
    /// The time with too few bytes.
    MinRate,
    /// The time of a whole download.
    MaxTime,
}

impl TransferTimeLimit {
    /// The limit that ended a request.
    #[must_use]
    pub fn of_request(error: &haul_net::Error) -> Option<Self> {
        match error.kind() {
            Kind::ResponseTimeout => Some(Self::Response),
            Kind::Stall => Some(Self::Stall),
            _ => None,
        }
    }

    /// The limit on waits, if a refusal asks for one.
    fn of_refusal(retry_after: Option<Duration>) -> Option<Self> {
        let wait = retry_after.filter(|wait| !wait.is_zero());
        wait.map(|_| Self::RequestedWait)
    }

    /// The limit that ended a download.
    #[must_use]
    pub fn of_download(error: &GetError) -> Option<Self> {
        match error {
            GetError::Transport { source, .. } => Self::of_request(source),
            GetError::AllSourcesFailed { last, .. } => Self::of_download(last),
            GetError::Status { retry_after, .. } => Self::of_refusal(*retry_after),
            GetError::HostRefuses { .. } => Some(Self::RequestedWait),
            GetError::LimitExceeded { limit, .. } => Some(match limit {
                ExceededLimit::MinRate { .. } => Self::MinRate,
                ExceededLimit::MaxTime(_) => Self::MaxTime,
            }),
            _ => None,
        }
    }

    /// The limit that ended an operation of a store.
    #[must_use]
    pub fn of_store(error: &S3Error) -> Option<Self> {
        match &error.kind {
            S3ErrorKind::Network(error) => Self::of_request(error),
            S3ErrorKind::Service(error) => Self::of_refusal(error.retry_after),
            _ => None,
        }
    }

    /// The limit that ended an upload.
    #[must_use]
    pub fn of_upload(error: &PutError) -> Option<Self> {
        match error {
            PutError::Transport { source, .. } => Self::of_request(source),
            PutError::Store(error) => Self::of_store(error),
            PutError::Status { retry_after, .. } => Self::of_refusal(*retry_after),
            _ => None,
        }
    }
}

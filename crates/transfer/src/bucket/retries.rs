//! Sends a request to a store again while that makes sense.

use std::future::Future;

use haul_net::Kind;
use haul_s3::{S3Error, S3ErrorKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::recovery::{RequestRetries, RetryOptions};

/// An unreadable response may be cut. One that repeats this number of times is not cut, so haul gives up.
const MAX_SAME_RESPONSES: u32 = 3;

/// Why an operation on a bucket ended.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("interrupted")]
    Interrupted,
    /// The last error of the store, or of the way to it.
    #[error(transparent)]
    Store(#[from] S3Error),
}

impl BucketError {
    /// What kind of failure it is.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Interrupted => ErrorClass::Interrupted,
            Self::Store(error) => match &error.kind {
                S3ErrorKind::Address(_) => ErrorClass::Usage,
                S3ErrorKind::Network(error) if *error.kind() == Kind::InvalidRequest => {
                    ErrorClass::Usage
                }
                _ => ErrorClass::Network,
            },
        }
    }
}

/// Sends a request until it succeeds, fails for good, or has failed too often. The wait is that of every other retry.
///
/// # Errors
/// [`BucketError::Interrupted`] when `stop` is cancelled, else the last error.
pub async fn retrying<T, F: Future<Output = Result<T, S3Error>>>(
    options: &RetryOptions,
    stop: &CancellationToken,
    mut request: impl FnMut() -> F,
) -> Result<T, BucketError> {
    let started = Instant::now();
    let mut retries = RequestRetries::new(options.clone());
    let (mut last, mut same) = (String::new(), 0);
    loop {
        let attempt = request();
        let error = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(BucketError::Interrupted),
            result = attempt => match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            },
        };
        let text = error.to_string();
        let is_repeated = matches!(error.kind, S3ErrorKind::Response(_)) && text == last;
        same = if is_repeated { same + 1 } else { 1 };
        last = text;
        if !error.is_transient() || same == MAX_SAME_RESPONSES {
            return Err(error.into());
        }
        let retry_after = error.service().and_then(|service| service.retry_after);
        let (now, has_responded) = (started.elapsed(), error.has_responded());
        let wait = retries.on_failure(now, retry_after, has_responded, rand::random());
        let Some(wait) = wait else {
            return Err(error.into());
        };
        tracing::debug!(%error, ?wait, "a request to the store is sent again");
        tokio::select! {
            () = stop.cancelled() => return Err(BucketError::Interrupted),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

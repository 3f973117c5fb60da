//! A store, and how requests to it are retried and stopped.

use std::future::Future;

use haul_plan::RetryOptions;
use haul_s3::{S3Address, S3Client, S3Error};
use tokio_util::sync::CancellationToken;

use super::lister::ObjectLister;
use super::retries::{BucketError, retrying};

/// A store, and how requests to it are retried and stopped. Clones share connections.
#[derive(Debug, Clone)]
pub struct StoreSession {
    /// Makes requests.
    pub client: S3Client,
    /// How failed requests are retried.
    pub retry: RetryOptions,
    /// Ends what runs.
    pub stop: CancellationToken,
}

impl StoreSession {
    /// Sends a request, again where that makes sense: see [`retrying`].
    ///
    /// # Errors
    /// [`BucketError::Interrupted`] when the session is stopped, else the last error.
    pub async fn request<T, F: Future<Output = Result<T, S3Error>>>(
        &self,
        request: impl FnMut() -> F,
    ) -> Result<T, BucketError> {
        retrying(&self.retry, &self.stop, request).await
    }

    /// Starts a list of all objects whose keys begin with the address's key.
    #[must_use]
    pub fn list(&self, prefix: &S3Address) -> ObjectLister {
        let (client, retry) = (self.client.clone(), self.retry.clone());
        ObjectLister::start(client, prefix, retry, self.stop.clone())
    }
}

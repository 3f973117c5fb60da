//! A store, and how requests to it are retried and stopped.

use std::future::Future;

use haul_s3::{S3Client, S3Error};
use tokio_util::sync::CancellationToken;

use super::lister::ObjectLister;
use super::retries::{BucketError, retrying};
use super::selection::{ObjectSelection, SelectedObjects};
use crate::recovery::RetryOptions;

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

    /// For work that has ended, and would have ended in the same way if the session had been stopped.
    ///
    /// # Errors
    /// [`BucketError::Interrupted`] if the session is stopped.
    pub fn check_stop(&self) -> Result<(), BucketError> {
        if self.stop.is_cancelled() {
            Err(BucketError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Starts the list of a selection. To be called on a runtime.
    #[must_use]
    pub fn list(&self, selection: ObjectSelection) -> SelectedObjects {
        let (client, retry, stop) = (self.client.clone(), self.retry.clone(), self.stop.clone());
        SelectedObjects {
            lister: ObjectLister::start(client, &selection.prefix, retry, stop),
            selection,
            page: Vec::new().into_iter(),
            number: 0,
        }
    }
}

//! The URL of a remote file, and the requests that go there: of one version, and again as the recovery policy decides.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use haul_net::{Client, FetchRequest, FetchResponse};
use haul_plan::ResourceVersion;
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::part_response::PartResponse;
use crate::error::{GetError, VerificationError};
use crate::get::{AttemptError, send};
use crate::recovery::{FailureContext, RecoveryAction, RecoveryPolicy, RetryOptions};
use crate::response::{RequestFailure, ResponseContent, UnusableResponse};

/// The number of the only source.
const SOURCE: usize = 0;

/// Where the bytes of a file come from.
#[derive(Debug)]
pub(super) struct RemoteFileSource {
    client: Client,
    /// The user's URL.
    url: Url,
    /// Where requests go: the URL, or where it redirected to.
    location: Url,
    headers: HeaderMap,
    /// The version that every response must be of, once the file is open.
    version: Option<ResourceVersion>,
    recovery: RecoveryPolicy,
    may_send_range: bool,
    may_send_if_range: bool,
    opened_at: Instant,
    stop: CancellationToken,
}

impl RemoteFileSource {
    pub(super) fn new(
        client: Client,
        url: Url,
        headers: HeaderMap,
        retry: RetryOptions,
        stop: CancellationToken,
    ) -> Self {
        let mut recovery = RecoveryPolicy::new(retry);
        recovery.add_source(true);
        Self {
            client,
            location: url.clone(),
            url,
            headers,
            version: None,
            recovery,
            may_send_range: true,
            may_send_if_range: true,
            opened_at: Instant::now(),
            stop,
        }
    }

    /// Every response must be of this version from now on.
    pub(super) fn set_version(&mut self, version: ResourceVersion) {
        self.version = Some(version);
    }

    /// One response must bring all of the file: no range is sent any more.
    pub(super) fn give_up_ranges(&mut self) {
        self.may_send_range = false;
    }

    /// Where requests go, without credentials.
    pub(super) fn location(&self) -> Url {
        haul_net::without_credentials(&self.location)
    }

    /// Requests a range until a usable response comes, which may be one with all of the file.
    ///
    /// # Errors
    /// The error of the last request; [`VerificationError::VersionChanged`]; [`GetError::Interrupted`].
    pub(super) async fn request(
        &mut self,
        range: Range<u64>,
    ) -> Result<(FetchResponse, ResponseContent), GetError> {
        loop {
            match self.request_once(range.clone()).await? {
                Ok(response) => return Ok(response),
                Err(error) => self.recover(*error, 0).await?,
            }
        }
    }

    /// Requests a range once. What failed is for [`Self::recover`].
    ///
    /// # Errors
    /// [`GetError::Interrupted`].
    pub(super) async fn request_once(
        &mut self,
        range: Range<u64>,
    ) -> Result<Result<(FetchResponse, ResponseContent), Box<AttemptError>>, GetError> {
        let request = FetchRequest {
            user_url: &self.url,
            range: Some(range).filter(|_| self.may_send_range),
            user_headers: Some(&self.headers).filter(|headers| !headers.is_empty()),
            ..FetchRequest::get(&self.location)
        };
        let version = self.version.as_ref().into();
        let sent = Box::pin(send(&self.client, request, version, self.may_send_if_range));
        let sent = self.unless_stopped(sent).await?;
        if let Ok((response, _)) = &sent {
            self.recovery.on_usable_response(SOURCE);
            if response.redirected {
                self.location = response.url.clone();
            }
        }
        Ok(sent)
    }

    /// Requests a range of the version that the file was opened with.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) async fn request_part(
        &mut self,
        range: Range<u64>,
    ) -> Result<PartResponse, GetError> {
        let is_to_the_end =
            self.version.as_ref().and_then(|version| version.length) == Some(range.end);
        let asked = if is_to_the_end {
            range.start..u64::MAX
        } else {
            range
        };
        loop {
            let (response, content) = self.request(asked.clone()).await?;
            if let ResponseContent::Part { range, .. } = content {
                return Ok(PartResponse::new(response, &range));
            }
            let failure = RequestFailure::Unusable(UnusableResponse::Unexpected);
            let error = AttemptError::response(failure, &response, &self.location);
            response.discard().await;
            self.recover(*error, 0).await?;
        }
    }

    /// Bytes of the file have come.
    pub(super) fn on_bytes(&mut self, bytes: u64) {
        self.recovery.on_bytes(SOURCE, bytes);
    }

    /// Waits, and changes what requests say, as the recovery policy decides about a failure. `received`: bytes that the failed request
    /// brought, where they are kept.
    ///
    /// # Errors
    /// The failure's own error, when the policy gives up; [`VerificationError::VersionChanged`]; [`GetError::Interrupted`].
    pub(super) async fn recover(
        &mut self,
        failed: AttemptError,
        received: u64,
    ) -> Result<(), GetError> {
        let Some(failure) = &failed.failure else {
            return Err(failed.error);
        };
        let is_open = self.version.is_some();
        if is_open && matches!(failure, RequestFailure::Changed | RequestFailure::PastEnd) {
            let url = Box::new(self.location());
            return Err(GetError::verification(
                url,
                VerificationError::VersionChanged,
            ));
        }
        let (now, reason) = (self.opened_at.elapsed(), failed.reason());
        let context = FailureContext {
            source: SOURCE,
            now,
            // One request at a time: each is sent when the wait before it is over.
            requested_at: now,
            received,
            lost_body: None,
            host_has_answered: false,
            delivering: 0,
            redirected: self.location != self.url,
            keeps_source: true,
            forbidden_may_mean_overload: false,
            jitter: rand::random(),
            reason: &reason,
        };
        let action = self.recovery.on_failure(failure, &context);
        tracing::debug!(?action, "{reason}");
        let wait = match action {
            RecoveryAction::Retry(wait) | RecoveryAction::FewerConnections(wait) => wait,
            RecoveryAction::ResolveAgain(wait) => {
                self.location = self.url.clone();
                wait
            }
            RecoveryAction::WithoutIfRange => {
                self.may_send_if_range = false;
                Duration::ZERO
            }
            RecoveryAction::OneStream if !is_open => {
                self.give_up_ranges();
                Duration::ZERO
            }
            // Nothing was read yet.
            RecoveryAction::StartOver => Duration::ZERO,
            RecoveryAction::OneStream
            | RecoveryAction::UseOtherSources(_)
            | RecoveryAction::DropSource
            | RecoveryAction::Ignore
            | RecoveryAction::GiveUp => return Err(failed.error),
        };
        self.unless_stopped(tokio::time::sleep(wait)).await
    }

    /// Waits for a future, unless the stop comes before.
    ///
    /// # Errors
    /// [`GetError::Interrupted`].
    pub(super) async fn unless_stopped<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, GetError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::INTERRUPTED),
            output = future => Ok(output),
        }
    }
}

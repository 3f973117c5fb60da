//! Deletes objects of a store: a thousand keys with a request, several requests at a time.
//!
//! Keys are collected as lists bring them. Each result is a [`TransferEvent`].

use std::collections::HashSet;

use haul_s3::{DeleteFailure, MAX_DELETED_KEYS};
use http::StatusCode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::deleted::{DeletedFiles, DeletionFailure};
use super::retries::{BucketError, retrying};
use super::selection::{NamedObjects, SelectedObjects};
use super::session::StoreSession;
use crate::event::{TransferEvent, TransferEventSender};
use crate::recovery::{RefusalAction, RefusalReach, SharedRefusal};

/// Requests at a time.
const PARALLEL_DELETES: usize = 8;

/// How objects are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionOptions {
    /// Nothing is deleted; events say what would be.
    pub dry_run: bool,
    /// Whether one refusal that would hit every key is reported once, and ends the deletion. Otherwise every key has an event.
    pub shares_refusals: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletionSummary {
    /// What was deleted, or would be in a dry run.
    pub deleted: u64,
    /// What was not.
    pub failed: u64,
    /// How many of the failures have no event: the store refused them in the same way as the first.
    pub repeated_refusals: u64,
}

/// Why a deletion ended early.
#[derive(Debug, thiserror::Error)]
pub enum DeletionError {
    /// It was stopped, or a request failed as a whole.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// One refusal hits every key.
    #[error("every other key would be refused in the same way: {tried} were{}", not_tried_text(*not_tried))]
    Refused {
        /// How many were refused.
        tried: u64,
        /// How many were listed and not tried.
        not_tried: usize,
    },
    /// The temporary file with the list of objects to delete cannot be read.
    #[error("cannot read the temporary list of files to delete")]
    List(#[source] std::io::Error),
    /// There are more keys than the user allows. None was deleted.
    #[error("there are more than {max} objects to delete")]
    TooMany {
        /// The most that may be deleted.
        max: u64,
    },
}

fn not_tried_text(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(", and {count} of those listed so far were not tried"),
    }
}

/// Deletes the objects that addresses name. With `max` all keys are counted before the first is deleted (row F28).
pub async fn delete_named(
    session: &StoreSession,
    named: &[NamedObjects],
    max: Option<u64>,
    options: DeletionOptions,
    events: TransferEventSender,
) -> Result<DeletionSummary, DeletionError> {
    if let Some(max) = max {
        check_count(session, named, max).await?;
    }
    let mut deletion = ObjectDeletion::new(session.clone(), options, events);
    for objects in named {
        let mut keys = NamedKeys::new(session, objects);
        loop {
            let page = match keys.next_page().await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) => return Err(deletion.abandon(error).await),
            };
            for key in page {
                deletion.add(objects.bucket(), key).await?;
            }
        }
    }
    deletion.finish().await
}

async fn check_count(
    session: &StoreSession,
    named: &[NamedObjects],
    max: u64,
) -> Result<(), DeletionError> {
    let mut count = 0_u64;
    for objects in named {
        let mut keys = NamedKeys::new(session, objects);
        while let Some(page) = keys.next_page().await? {
            count += page.len() as u64;
            if count > max {
                return Err(DeletionError::TooMany { max });
            }
        }
    }
    Ok(())
}

/// The keys that an address names.
struct NamedKeys {
    /// `None` at the end, and for an address that names one key.
    list: Option<SelectedObjects>,
    /// Keys of the last page. Their turn comes with the next one: of a list that does not advance nothing is deleted (row F36).
    last_page: Option<Vec<String>>,
}

impl NamedKeys {
    fn new(session: &StoreSession, objects: &NamedObjects) -> Self {
        let (list, last_page) = match objects {
            NamedObjects::One(address) => (None, Some(vec![address.key.clone()])),
            NamedObjects::Selection(selection) => (Some(session.list(selection.clone())), None),
        };
        Self { list, last_page }
    }

    /// Keys whose turn it is; `None` at the end.
    async fn next_page(&mut self) -> Result<Option<Vec<String>>, BucketError> {
        while let Some(list) = &mut self.list {
            let page = list.next_page().await.transpose()?;
            if page.is_none() {
                self.list = None;
            }
            let keys = page.map(|page| page.into_iter().map(|object| object.key).collect());
            let last_page = std::mem::replace(&mut self.last_page, keys);
            if last_page.is_some() {
                return Ok(last_page);
            }
        }
        Ok(self.last_page.take())
    }
}

/// Deletes keys as they come, and counts them.
#[derive(Debug)]
pub struct ObjectDeletion {
    options: DeletionOptions,
    session: StoreSession,
    events: TransferEventSender,
    /// Keys of one bucket that wait for a request.
    keys: Vec<String>,
    bucket: String,
    requests: JoinSet<DeletionResponse>,
    summary: DeletionSummary,
    /// Finds out whether one refusal hits every key.
    refusals: SharedRefusal,
    /// Failures that are reported if it does not.
    deferred: Vec<DeletionFailure>,
}

/// The result of one request.
#[derive(Debug)]
struct DeletionResponse {
    bucket: String,
    keys: Vec<String>,
    result: Result<Vec<DeleteFailure>, BucketError>,
}

impl ObjectDeletion {
    /// A deletion whose events must be read until the channel closes.
    #[must_use]
    pub fn new(
        session: StoreSession,
        options: DeletionOptions,
        events: TransferEventSender,
    ) -> Self {
        Self {
            options,
            session,
            events,
            keys: Vec::new(),
            bucket: String::new(),
            requests: JoinSet::new(),
            summary: DeletionSummary::default(),
            refusals: SharedRefusal::default(),
            deferred: Vec::new(),
        }
    }

    /// Adds a key, and sends a request when there are enough.
    ///
    /// # Errors
    /// See [`DeletionError`]. Nothing more may be added then.
    pub async fn add(&mut self, bucket: &str, key: String) -> Result<(), DeletionError> {
        self.check_stop().await?;
        if self.bucket != bucket {
            self.send().await?;
            bucket.clone_into(&mut self.bucket);
        }
        self.keys.push(key);
        self.check_refusals().await?;
        if self.keys.len() >= MAX_DELETED_KEYS {
            self.send().await
        } else {
            Ok(())
        }
    }

    /// Sends a request for the keys that wait, when there is room for it.
    async fn send(&mut self) -> Result<(), DeletionError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let (session, bucket) = (self.session.clone(), self.bucket.clone());
        let keys = std::mem::take(&mut self.keys);
        if self.options.dry_run {
            self.report_deleted(bucket, keys).await;
            return Ok(());
        }
        while self.requests.len() >= PARALLEL_DELETES {
            if let Err(error) = self.take_response().await {
                return Err(self.abandon(error).await);
            }
        }
        self.requests.spawn(async move {
            // If this request were dropped, nobody would know which keys the store deleted. It runs to its end.
            let never = CancellationToken::new();
            let result = retrying(&session.retry, &never, || {
                session.client.delete_objects(&bucket, &keys)
            })
            .await;
            DeletionResponse {
                bucket,
                keys,
                result,
            }
        });
        Ok(())
    }

    async fn check_stop(&mut self) -> Result<(), DeletionError> {
        match self.session.check_stop() {
            Err(reason) => Err(self.abandon(reason).await),
            Ok(()) => Ok(()),
        }
    }

    /// Sends nothing more, waits for the requests under way, reports their keys, and returns `reason`. A dry run reports the keys that wait.
    pub async fn abandon(&mut self, reason: BucketError) -> DeletionError {
        if self.options.dry_run {
            let keys = std::mem::take(&mut self.keys);
            self.report_deleted(self.bucket.clone(), keys).await;
        }
        // The reason came first.
        let _ = self.take_all_responses().await;
        reason.into()
    }

    /// Waits for every request under way, also after one of them has failed, and returns the first error.
    async fn take_all_responses(&mut self) -> Result<(), BucketError> {
        let mut result = Ok(());
        while !self.requests.is_empty() {
            result = result.and(self.take_response().await);
        }
        result
    }

    async fn take_response(&mut self) -> Result<(), BucketError> {
        let Some(ended) = self.requests.join_next().await else {
            return Ok(());
        };
        let DeletionResponse {
            bucket,
            mut keys,
            result,
        } = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let failures = result?;
        let failed: HashSet<&str> = failures.iter().map(|failure| &*failure.key).collect();
        keys.retain(|key| !failed.contains(key.as_str()));
        if !keys.is_empty() {
            self.refusals.on_accepted();
        }
        self.report_deleted(bucket.clone(), keys).await;
        for failure in failures {
            let bucket = bucket.clone();
            self.report_failure(bucket, failure).await;
        }
        if self.refusals.is_settled() {
            for failure in std::mem::take(&mut self.deferred) {
                self.send_failure(failure).await;
            }
        }
        Ok(())
    }

    async fn report_deleted(&mut self, bucket: String, keys: Vec<String>) {
        if keys.is_empty() {
            return;
        }
        self.summary.deleted += keys.len() as u64;
        let deleted = DeletedFiles::Objects { bucket, keys };
        // A closed channel is not a reason to stop.
        let _ = self
            .events
            .send(TransferEvent::Deleted(Box::new(deleted)))
            .await;
    }

    async fn report_failure(&mut self, bucket: String, failure: DeleteFailure) {
        self.summary.failed += 1;
        // An error in a response of 200 has no status of its own.
        let reach = RefusalReach::of_response(StatusCode::OK, &failure.code);
        let action = if self.options.shares_refusals {
            self.refusals.on_refused(reach, &failure.code)
        } else {
            RefusalAction::Report
        };
        let failure = DeletionFailure::Object { bucket, failure };
        match action {
            RefusalAction::Report | RefusalAction::ReportAndStop => {
                self.send_failure(failure).await;
            }
            RefusalAction::Defer => self.deferred.push(failure),
            RefusalAction::Stop => {}
        }
    }

    async fn send_failure(&self, failure: DeletionFailure) {
        let event = TransferEvent::DeletionFailed(Box::new(failure));
        let _ = self.events.send(event).await;
    }

    /// Ends if one refusal would hit every key. Keys that no request has named yet are not tried.
    async fn check_refusals(&mut self) -> Result<(), DeletionError> {
        if !self.refusals.has_ended() {
            return Ok(());
        }
        self.take_all_responses().await?;
        Err(DeletionError::Refused {
            tried: self.summary.failed,
            not_tried: self.keys.len(),
        })
    }

    /// Sends the keys that wait, and returns the results of all.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub async fn finish(mut self) -> Result<DeletionSummary, DeletionError> {
        self.check_stop().await?;
        self.send().await?;
        self.take_all_responses().await?;
        self.check_refusals().await?;
        self.summary.repeated_refusals = self.deferred.len() as u64;
        Ok(self.summary)
    }
}

#[cfg(test)]
mod tests {
    use crate::recovery::RetryOptions;
    use haul_lab::{ObjectStore, StoreFault, StoreRequest};
    use haul_net::ClientConfig;
    use haul_s3::S3Config;
    use tokio::sync::mpsc::Receiver;

    use super::*;

    /// A deletion at this store, and its events, for which there is room.
    async fn start_deletion(
        store: &ObjectStore,
        stop: &CancellationToken,
    ) -> (ObjectDeletion, Receiver<TransferEvent>) {
        let config = S3Config {
            endpoint_url: Some(store.url().parse().unwrap()),
            no_sign_request: true,
            ..S3Config::default()
        };
        let session = StoreSession {
            client: Box::pin(config.connect(ClientConfig::default()))
                .await
                .unwrap(),
            retry: RetryOptions::default(),
            stop: stop.clone(),
        };
        let options = DeletionOptions {
            dry_run: false,
            shares_refusals: true,
        };
        let (events, received) = tokio::sync::mpsc::channel(16);
        (ObjectDeletion::new(session, options, events), received)
    }

    /// A request that fails as a whole does not hide what those beside it have deleted, whether it ends before all keys are sent or after.
    #[tokio::test]
    async fn f28_a_failed_request_does_not_hide_the_results_of_others() {
        for requests in [2, PARALLEL_DELETES + 1] {
            let store = ObjectStore::start_with(|request| {
                (request.number == 0).then_some(StoreFault::Error(403, "AccessDenied"))
            })
            .await;
            let (mut deletion, mut events) =
                start_deletion(&store, &CancellationToken::new()).await;
            let key = |number| format!("key-{number:05}");
            let all: Vec<String> = (0..requests * MAX_DELETED_KEYS).map(key).collect();
            for key in &all {
                store.insert(key, b"");
            }
            let delete_all = async {
                for key in &all {
                    deletion.add("bucket", key.clone()).await?;
                }
                deletion.finish().await
            };
            let error = delete_all.await.unwrap_err().to_string();
            assert!(error.contains("AccessDenied"), "{error}");
            let mut reported = Vec::new();
            while let Some(event) = events.recv().await {
                if let TransferEvent::Deleted(deleted) = event
                    && let DeletedFiles::Objects { keys, .. } = *deleted
                {
                    reported.extend(keys);
                }
            }
            reported.sort_unstable();
            let mut left = store.keys();
            left.extend(reported.iter().cloned());
            left.sort_unstable();
            assert!(reported.len() >= (requests - 2).max(1) * MAX_DELETED_KEYS);
            assert_eq!(left, all);
        }
    }

    /// A signal while requests are under way: they end, what they deleted is counted, and no other begins.
    #[tokio::test]
    async fn f28_deletions_stop_when_they_are_told_to() {
        let stop = CancellationToken::new();
        let stop_at_store = stop.clone();
        let store = ObjectStore::start_with(move |_| {
            stop_at_store.cancel();
            None
        })
        .await;
        let (mut deletion, _events) = start_deletion(&store, &stop).await;
        for number in 0..MAX_DELETED_KEYS {
            let key = format!("key-{number}");
            store.insert(&key, b"");
            deletion.add("bucket", key).await.unwrap();
        }
        // The request is under way, and its signal comes before its response.
        stop.cancelled().await;
        let refused = deletion.add("bucket", "another".to_owned()).await;
        let is_interrupted =
            |error| matches!(error, DeletionError::Store(BucketError::Interrupted));
        assert!(is_interrupted(refused.unwrap_err()));
        assert_eq!(deletion.summary.deleted, MAX_DELETED_KEYS as u64);
        assert!(store.keys().is_empty());
        assert_eq!(
            store.count(|request: &StoreRequest| request.has("delete")),
            1
        );
        assert!(is_interrupted(deletion.finish().await.unwrap_err()));
    }
}

//! Deletes keys of a bucket: a thousand with a request, several requests at a time.

use std::collections::HashSet;

use haul_plan::{RefusalReach, RefusalStep, SharedRefusal};
use haul_s3::{DeleteFailure, MAX_DELETED_KEYS, S3Address};
use haul_transfer::bucket::{BucketError, retrying};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{StoreSession, report};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::report::FileAction;

/// Requests at a time.
const PARALLEL_DELETES: usize = 8;

/// What is said about keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeletionOutput {
    /// Whether nothing is deleted, but for the words.
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

/// Deletes keys and counts them.
#[derive(Debug)]
pub(crate) struct Deletion {
    output: DeletionOutput,
    session: StoreSession,
    /// Keys of one bucket that wait for a request.
    keys: Vec<String>,
    bucket: String,
    requests: JoinSet<DeletedKeys>,
    deleted: u64,
    failed: u64,
    /// Finds out whether one refusal hits every key.
    refusals: SharedRefusal,
    /// Messages that are told if it does not.
    held: Vec<String>,
}

/// What came of one request.
#[derive(Debug)]
struct DeletedKeys {
    bucket: String,
    keys: Vec<String>,
    result: Result<Vec<DeleteFailure>, BucketError>,
}

/// The object of a key.
fn object(bucket: &str, key: &str) -> Map<String, Value> {
    let url = S3Address::new(bucket, key).to_string();
    FileAction::Delete.object(&[("url", &url), ("bucket", bucket), ("key", key)])
}

impl Deletion {
    pub(crate) fn new(session: StoreSession, output: DeletionOutput) -> Self {
        Self {
            output,
            session,
            keys: Vec::new(),
            bucket: String::new(),
            requests: JoinSet::new(),
            deleted: 0,
            failed: 0,
            refusals: SharedRefusal::default(),
            held: Vec::new(),
        }
    }

    /// Adds a key, and sends a request when there are enough.
    ///
    /// # Errors
    /// The store refused a request as a whole, a signal came, or standard output cannot be written; it has been reported.
    pub(crate) async fn add(&mut self, bucket: &str, key: String) -> Result<(), ExitReason> {
        self.check_stop().await?;
        if self.output.dry_run {
            self.deleted += 1;
            return write(self.line(bucket, &key, "would delete"));
        }
        if self.bucket != bucket {
            self.send().await?;
            bucket.clone_into(&mut self.bucket);
        }
        self.keys.push(key);
        self.check_refusals().await?;
        match self.keys.len() >= MAX_DELETED_KEYS {
            true => self.send().await,
            false => Ok(()),
        }
    }

    /// Sends a request for the keys that wait, when there is room for it.
    async fn send(&mut self) -> Result<(), ExitReason> {
        if self.keys.is_empty() {
            return Ok(());
        }
        while self.requests.len() >= PARALLEL_DELETES {
            self.take_result().await?;
        }
        let (session, bucket) = (self.session.clone(), self.bucket.clone());
        let keys = std::mem::take(&mut self.keys);
        self.requests.spawn(async move {
            // Nobody could say what came of a request that is dropped, so it runs to its end; a second signal ends the process.
            let never = CancellationToken::new();
            let result = retrying(&session.retry, &never, || {
                session.client.delete_objects(&bucket, &keys)
            });
            let result = result.await;
            DeletedKeys {
                bucket,
                keys,
                result,
            }
        });
        Ok(())
    }

    /// # Errors
    /// A signal came; it has been reported.
    async fn check_stop(&mut self) -> Result<(), ExitReason> {
        match self.session.stop.is_cancelled() {
            true => Err(self.abandon(&BucketError::Interrupted).await),
            false => Ok(()),
        }
    }

    /// Deletes nothing more: waits for the requests under way, says what they deleted, and reports why.
    pub(crate) async fn abandon(&mut self, error: &BucketError) -> ExitReason {
        while !self.requests.is_empty() {
            if let Err(exit) = self.take_result().await {
                return exit;
            }
        }
        report(error, JsonOutputs::default())
    }

    async fn take_result(&mut self) -> Result<(), ExitReason> {
        let Some(ended) = self.requests.join_next().await else {
            return Ok(());
        };
        let DeletedKeys {
            bucket,
            keys,
            result,
        } = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let failures = result.map_err(|error| report(&error, JsonOutputs::default()))?;
        let failed: HashSet<&str> = failures.iter().map(|failure| &*failure.key).collect();
        let deleted: Vec<&String> = keys
            .iter()
            .filter(|key| !failed.contains(key.as_str()))
            .collect();
        self.deleted += deleted.len() as u64;
        let lines = deleted
            .into_iter()
            .filter_map(|key| self.line(&bucket, key, "deleted"));
        write(lines)?;
        if failures.len() < keys.len() {
            self.refusals.on_accepted();
        }
        failures
            .iter()
            .try_for_each(|failure| self.report_failure(&bucket, failure))?;
        if self.refusals.is_settled() {
            self.held.drain(..).for_each(|text| print_failure(&text));
        }
        Ok(())
    }

    /// Ends if one refusal would hit every key. Keys that no request has named yet are not tried.
    ///
    /// # Errors
    /// It would; it has been reported.
    async fn check_refusals(&mut self) -> Result<(), ExitReason> {
        if !self.refusals.has_ended() {
            return Ok(());
        }
        while !self.requests.is_empty() {
            self.take_result().await?;
        }
        let tried = self.failed;
        let waiting = match self.keys.len() {
            0 => String::new(),
            count => format!(", and {count} of those listed so far were not tried"),
        };
        print_failure(&format!(
            "every other key would be refused in the same way: {tried} were{waiting}"
        ));
        Err(ExitReason::SomeFailed)
    }

    fn report_failure(&mut self, bucket: &str, failure: &DeleteFailure) -> Result<(), ExitReason> {
        self.failed += 1;
        let DeleteFailure { key, code, message } = failure;
        if self.output.json {
            let mut object = object(bucket, key);
            object.insert("error".into(), json!({"code": code, "message": message}));
            return write([Value::from(object)]);
        }
        let text = format!("s3://{bucket}/{key} was not deleted: {code}: {message}");
        // An error in a response of 200 has no status of its own.
        let reach = RefusalReach::of_response(StatusCode::OK, code);
        match self.refusals.on_refused(reach, code) {
            RefusalStep::Tell | RefusalStep::TellAndEnd => print_failure(&text),
            RefusalStep::Hold => self.held.push(text),
            RefusalStep::End => {}
        }
        Ok(())
    }

    /// The line about a key, unless there is none.
    fn line(&self, bucket: &str, key: &str, what: &str) -> Option<String> {
        if self.output.json {
            let mut object = object(bucket, key);
            object.insert("dry_run".into(), self.output.dry_run.into());
            return Some(Value::from(object).to_string());
        }
        let text = || message::sanitize(&format!("{what} s3://{bucket}/{key}"));
        (!self.output.quiet).then(text)
    }

    /// Sends what waits, and returns how many keys were deleted, and how many were not.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub(crate) async fn finish(mut self) -> Result<(u64, u64), ExitReason> {
        self.check_stop().await?;
        self.send().await?;
        while !self.requests.is_empty() {
            self.take_result().await?;
        }
        self.check_refusals().await?;
        if !self.held.is_empty() {
            let count = self.held.len();
            print_failure(&format!("{count} more keys were refused in the same way"));
        }
        Ok((self.deleted, self.failed))
    }
}

fn print_failure(text: &str) {
    message::print_error(&message::sanitize(text), None);
}

fn write<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> Result<(), ExitReason> {
    output::write_stdout_lines(lines).map_err(|error| output::report_write_error(&error))
}

#[cfg(test)]
mod tests {
    use haul_lab::{ObjectStore, StoreRequest};
    use haul_net::ClientConfig;
    use haul_plan::RetryOptions;
    use haul_s3::S3Config;

    use super::*;

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
        let output = DeletionOutput {
            dry_run: false,
            json: false,
            quiet: true,
        };
        let mut deletion = Deletion::new(session, output);
        for number in 0..MAX_DELETED_KEYS {
            let key = format!("key-{number}");
            store.insert(&key, b"");
            deletion.add("bucket", key).await.unwrap();
        }
        // The request is under way, and its signal comes before its response.
        stop.cancelled().await;
        let refused = deletion.add("bucket", "another".to_owned()).await;
        assert_eq!(refused.unwrap_err(), ExitReason::Interrupted);
        assert_eq!(deletion.deleted, MAX_DELETED_KEYS as u64);
        assert!(store.keys().is_empty());
        assert_eq!(
            store.count(|request: &StoreRequest| request.has("delete")),
            1
        );
        assert_eq!(
            deletion.finish().await.unwrap_err(),
            ExitReason::Interrupted
        );
    }
}

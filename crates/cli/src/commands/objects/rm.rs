//! `haul rm`.
//!
//! Keys are collected as the list brings them, and deleted a thousand with a request, several requests at a time. With `--max-delete`
//! all are counted before the first is deleted.

use std::collections::{HashSet, VecDeque};

use haul_plan::KeyPattern;
use haul_s3::{DeleteFailure, MAX_DELETED_KEYS, S3Address};
use haul_transfer::bucket::{BucketError, ObjectLister, retrying};
use serde_json::json;
use tokio::task::JoinSet;

use super::{StoreSession, report};
use crate::args::RmArgs;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;

/// Requests at a time.
const PARALLEL_DELETES: usize = 8;

/// Deletes keys and counts them.
struct Deletion<'a> {
    args: &'a RmArgs,
    session: &'a StoreSession,
    /// Keys of one bucket that wait for a request.
    keys: Vec<String>,
    bucket: String,
    requests: JoinSet<DeletedKeys>,
    deleted: u64,
    failed: u64,
}

/// What came of one request.
struct DeletedKeys {
    bucket: String,
    keys: Vec<String>,
    result: Result<Vec<DeleteFailure>, BucketError>,
}

/// Deletes what the arguments name.
pub(super) async fn delete(args: &RmArgs, session: StoreSession) -> Result<ExitReason, ExitReason> {
    check_addresses(args)?;
    if let Some(max) = args.max_delete {
        check_count(args, &session, max).await?;
    }
    let mut deletion = Deletion {
        args,
        session: &session,
        keys: Vec::new(),
        bucket: String::new(),
        requests: JoinSet::new(),
        deleted: 0,
        failed: 0,
    };
    for address in &args.addresses {
        let mut keys = NamedKeys::new(args, &session, address);
        while let Some(key) = keys.next().await {
            let key = key.map_err(|error| report(&error, JsonOutputs::default()))?;
            deletion.add(&address.bucket, key).await?;
        }
    }
    deletion.finish().await
}

/// The keys that one argument names.
struct NamedKeys<'a> {
    args: &'a RmArgs,
    prefix: &'a str,
    /// `None`: the argument names one key.
    lister: Option<ObjectLister>,
    pattern: Option<KeyPattern>,
    /// Keys of the last page.
    keys: VecDeque<String>,
}

impl<'a> NamedKeys<'a> {
    fn new(args: &'a RmArgs, session: &StoreSession, address: &'a S3Address) -> Self {
        let is_pattern = !args.globoff && !args.recursive && KeyPattern::is_pattern(&address.key);
        let pattern = is_pattern.then(|| KeyPattern::parse(&address.key));
        let listed = match &pattern {
            Some(pattern) => Some(address.with_key(pattern.literal_prefix())),
            None => args.recursive.then(|| address.clone()),
        };
        let start = |prefix: S3Address| {
            let (client, retry) = (session.client.clone(), session.retry.clone());
            ObjectLister::start(client, &prefix, retry, session.stop.clone())
        };
        Self {
            args,
            prefix: &address.key,
            keys: match listed {
                Some(_) => VecDeque::new(),
                None => [address.key.clone()].into(),
            },
            lister: listed.map(start),
            pattern,
        }
    }

    async fn next(&mut self) -> Option<Result<String, BucketError>> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Some(Ok(key));
            }
            match self.lister.as_mut()?.next_page().await? {
                Ok(page) => {
                    let keys = page.into_iter().map(|object| object.key);
                    let (args, prefix, pattern) = (self.args, self.prefix, &self.pattern);
                    self.keys = keys
                        .filter(|key| match pattern {
                            Some(pattern) => pattern.matches(key),
                            None => args
                                .filter
                                .filter
                                .accepts(key.strip_prefix(prefix).unwrap_or(key)),
                        })
                        .collect();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A bucket's objects are all deleted only if the user says so.
fn check_addresses(args: &RmArgs) -> Result<(), ExitReason> {
    let fail = |text: &str, hint| {
        JsonOutputs::default().report_failure(ExitReason::Usage, text, Some(hint))
    };
    for address in &args.addresses {
        if address.key.is_empty() && !args.recursive {
            let text = format!("{address} is a bucket");
            return Err(fail(&text, "-r deletes all of its objects"));
        }
        if address.key.ends_with('/') && !args.recursive && !KeyPattern::is_pattern(&address.key) {
            let text = format!("{} is a folder", message::sanitize(&address.to_string()));
            return Err(fail(&text, "-r deletes everything below it"));
        }
    }
    Ok(())
}

/// Counts what would be deleted (row F28).
async fn check_count(args: &RmArgs, session: &StoreSession, max: u64) -> Result<(), ExitReason> {
    let mut count = 0_u64;
    for address in &args.addresses {
        let mut keys = NamedKeys::new(args, session, address);
        while let Some(key) = keys.next().await {
            key.map_err(|error| report(&error, JsonOutputs::default()))?;
            count += 1;
            if count > max {
                let text = format!(
                    "there are more than {max} objects to delete (--max-delete): none was deleted"
                );
                return Err(JsonOutputs::default().report_failure(ExitReason::Usage, &text, None));
            }
        }
    }
    Ok(())
}

impl Deletion<'_> {
    /// Adds a key, and sends a request when there are enough.
    async fn add(&mut self, bucket: &str, key: String) -> Result<(), ExitReason> {
        if self.args.dry_run {
            self.deleted += 1;
            return write(self.line(bucket, &key, "would delete"));
        }
        if self.bucket != bucket {
            self.send().await?;
            bucket.clone_into(&mut self.bucket);
        }
        self.keys.push(key);
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
            let result = retrying(&session.retry, &session.stop, || {
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
        failures
            .iter()
            .try_for_each(|failure| self.report_failure(&bucket, failure))
    }

    fn report_failure(&mut self, bucket: &str, failure: &DeleteFailure) -> Result<(), ExitReason> {
        self.failed += 1;
        let DeleteFailure { key, code, message } = failure;
        if self.args.json {
            let object =
                json!({"bucket": bucket, "key": key, "error": {"code": code, "message": message}});
            return write([object]);
        }
        let text = format!("s3://{bucket}/{key} was not deleted: {code}: {message}");
        message::print_error(&message::sanitize(&text), None);
        Ok(())
    }

    /// The line about a key, unless there is none.
    fn line(&self, bucket: &str, key: &str, what: &str) -> Option<String> {
        if self.args.json {
            let object = json!({"bucket": bucket, "key": key, "dry_run": self.args.dry_run});
            return Some(object.to_string());
        }
        let text = || message::sanitize(&format!("{what} s3://{bucket}/{key}"));
        (!self.args.quiet).then(text)
    }

    async fn finish(mut self) -> Result<ExitReason, ExitReason> {
        self.send().await?;
        while !self.requests.is_empty() {
            self.take_result().await?;
        }
        if self.failed > 0 {
            return Ok(ExitReason::SomeFailed);
        }
        if self.deleted == 0 {
            let text = "there is nothing to delete";
            return Ok(JsonOutputs::default().report_failure(ExitReason::SomeFailed, text, None));
        }
        Ok(ExitReason::Done)
    }
}

fn write<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> Result<(), ExitReason> {
    output::write_stdout_lines(lines).map_err(|error| output::report_write_error(&error))
}

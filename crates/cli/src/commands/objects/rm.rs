//! `haul rm`.
//!
//! Keys are collected as the list brings them, and deleted a thousand with a request, several requests at a time. With `--max-delete`
//! all are counted before the first is deleted.

use std::collections::VecDeque;

use haul_plan::KeyPattern;
use haul_s3::S3Address;
use haul_transfer::bucket::{BucketError, ObjectLister};

use super::deletion::{Deletion, DeletionOutput};
use super::{StoreSession, report};
use crate::args::RmArgs;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};

/// Deletes what the arguments name.
pub(super) async fn delete(args: &RmArgs, session: StoreSession) -> Result<ExitReason, ExitReason> {
    check_addresses(args)?;
    if let Some(max) = args.max_delete {
        check_count(args, &session, max).await?;
    }
    let output = DeletionOutput {
        dry_run: args.dry_run,
        json: args.json,
        quiet: args.quiet,
    };
    let mut deletion = Deletion::new(session.clone(), output);
    for address in &args.addresses {
        let mut keys = NamedKeys::new(args, &session, address);
        while let Some(key) = keys.next().await {
            let key = match key {
                Ok(key) => key,
                Err(error) => return Err(deletion.abandon(&error).await),
            };
            deletion.add(&address.bucket, key).await?;
        }
    }
    match deletion.finish().await? {
        (0, 0) => {
            let text = "there is nothing to delete";
            Ok(JsonOutputs::default().report_failure(ExitReason::SomeFailed, text, None))
        }
        (_, 0) => Ok(ExitReason::Done),
        _ => Ok(ExitReason::SomeFailed),
    }
}

/// The keys that one argument names.
struct NamedKeys<'a> {
    args: &'a RmArgs,
    /// What every key begins with.
    prefix: String,
    /// `None`: the argument names one key.
    lister: Option<ObjectLister>,
    pattern: Option<KeyPattern>,
    /// Keys whose turn it is.
    keys: VecDeque<String>,
    /// Keys of the last page. Their turn comes with the next one: of a list that does not advance nothing is deleted (row F36).
    last_page: VecDeque<String>,
}

impl<'a> NamedKeys<'a> {
    fn new(args: &'a RmArgs, session: &StoreSession, address: &'a S3Address) -> Self {
        let is_pattern = !args.globoff && !args.recursive && KeyPattern::is_pattern(&address.key);
        let pattern = is_pattern.then(|| KeyPattern::parse(&address.key));
        let listed = match &pattern {
            Some(pattern) => Some(address.with_key(pattern.literal_prefix())),
            None => args.recursive.then(|| address.clone().into_folder()),
        };
        let start = |prefix: S3Address| {
            let (client, retry) = (session.client.clone(), session.retry.clone());
            ObjectLister::start(client, &prefix, retry, session.stop.clone())
        };
        Self {
            args,
            prefix: listed
                .as_ref()
                .map_or_else(String::new, |prefix| prefix.key.clone()),
            keys: match listed {
                Some(_) => VecDeque::new(),
                None => [address.key.clone()].into(),
            },
            last_page: VecDeque::new(),
            lister: listed.map(start),
            pattern,
        }
    }

    async fn next(&mut self) -> Option<Result<String, BucketError>> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Some(Ok(key));
            }
            let next_page = match self.lister.as_mut()?.next_page().await {
                Some(Ok(page)) => page.into_iter().map(|object| object.key),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.lister = None;
                    self.keys = std::mem::take(&mut self.last_page);
                    continue;
                }
            };
            let next_page = next_page.filter(|key| self.is_meant(key)).collect();
            self.keys = std::mem::replace(&mut self.last_page, next_page);
        }
    }

    fn is_meant(&self, key: &str) -> bool {
        let behind = || key.strip_prefix(&self.prefix).unwrap_or(key);
        match &self.pattern {
            Some(pattern) => pattern.matches(key),
            None => self.args.filter.filter.accepts(behind()),
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

//! What `haul rm` and `haul sync --delete` print about deletions: a line or an object for each key or file.

use haul_s3::S3Address;
use haul_transfer::TransferEvent;
use haul_transfer::bucket::{
    DeletedFiles, DeletionError, DeletionFailure, DeletionOptions, DeletionSummary,
};
use serde_json::{Map, Value, json};

use super::report;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::report::FileAction;

/// What is printed about deletions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeletionOutput {
    /// Whether nothing is deleted, but for the words.
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl DeletionOutput {
    pub(crate) fn options(self) -> DeletionOptions {
        DeletionOptions {
            dry_run: self.dry_run,
            // Programs get an object for each key.
            shares_refusals: !self.json,
        }
    }

    /// Prints an event.
    ///
    /// # Errors
    /// Standard output cannot be written; it has been reported.
    pub(crate) fn print(self, event: &TransferEvent) -> Result<(), ExitReason> {
        match event {
            TransferEvent::Deleted(deleted) => match &**deleted {
                DeletedFiles::Objects { bucket, keys } => {
                    let lines = keys.iter().filter_map(|key| {
                        let address = S3Address::new(bucket.as_str(), key.as_str()).to_string();
                        self.line(object(bucket, key), &address)
                    });
                    write(lines)
                }
                DeletedFiles::File(path) => {
                    let path = path.display().to_string();
                    let object = FileAction::Delete.object(&[("path", &path)]);
                    self.line(object, &path)
                        .map_or(Ok(()), |line| write([line]))
                }
            },
            TransferEvent::DeletionFailed(failed) => match &**failed {
                DeletionFailure::Object { bucket, failure } if self.json => {
                    let mut object = object(bucket, &failure.key);
                    let error = json!({"code": failure.code, "message": failure.message});
                    object.insert("error".into(), error);
                    write([Value::from(object)])
                }
                failure => {
                    print_failure(&failure.to_string());
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    /// The line about what was deleted, unless there is none.
    fn line(self, mut object: Map<String, Value>, name: &str) -> Option<String> {
        if self.json {
            object.insert("dry_run".into(), self.dry_run.into());
            return Some(Value::from(object).to_string());
        }
        let verb = if self.dry_run {
            "would delete"
        } else {
            "deleted"
        };
        (!self.quiet).then(|| message::sanitize(&format!("{verb} {name}")))
    }

    /// Reports how a deletion ended.
    ///
    /// # Errors
    /// It ended early.
    pub(crate) fn finish(
        result: Result<DeletionSummary, DeletionError>,
        outputs: JsonOutputs,
    ) -> Result<ExitReason, ExitReason> {
        let error = match result {
            Ok(summary) => {
                if summary.repeated_refusals > 0 {
                    let count = summary.repeated_refusals;
                    print_failure(&format!("{count} more keys were refused in the same way"));
                }
                return Ok(match summary.failed {
                    0 => ExitReason::Done,
                    _ => ExitReason::SomeFailed,
                });
            }
            Err(error) => error,
        };
        let (exit, text) = match error {
            DeletionError::Store(error) => return Err(report(&error, outputs)),
            DeletionError::Refused { .. } => {
                print_failure(&error.to_string());
                return Err(ExitReason::SomeFailed);
            }
            DeletionError::List(_) => (ExitReason::LocalIo, message::chain_text(&error)),
            DeletionError::TooMany { .. } => (
                ExitReason::Usage,
                format!("{error} (--max-delete): haul deleted none"),
            ),
        };
        Err(outputs.report_failure(exit, &text, None))
    }
}

fn object(bucket: &str, key: &str) -> Map<String, Value> {
    let url = S3Address::new(bucket, key).to_string();
    FileAction::Delete.object(&[("url", &url), ("bucket", bucket), ("key", key)])
}

fn print_failure(text: &str) {
    message::print_error(&message::sanitize(text), None);
}

fn write<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> Result<(), ExitReason> {
    output::write_stdout_lines(lines).map_err(|error| output::report_write_error(&error))
}

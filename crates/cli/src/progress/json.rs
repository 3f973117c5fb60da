//! `--progress json`: one object a line on standard error, and nothing else there.

use std::io;
use std::time::Duration;

use haul_net::redacted_url;
use haul_transfer::batch::{BatchSnapshot, BatchSummary};
use haul_transfer::manifest::RowState;
use haul_transfer::{DownloadOutcome, GetError, TransferEvent};
use serde_json::{Value, json};

use super::Renderer;
use super::remaining::RemainingTime;
use crate::exit::ExitReason;
use crate::report::{self, ended_files};
use crate::{message, output};

/// The version of the objects' form.
const SCHEMA: u32 = 1;

/// How often there is an object of a running batch.
const EVERY: Duration = Duration::from_secs(1);

/// One object a line.
#[derive(Debug, Default)]
pub(super) struct JsonRenderer {
    /// Of a running batch: the last look that was told, and what had come by then.
    last: Option<(Duration, BatchSummary)>,
    /// How long the rest of it takes.
    remaining_time: RemainingTime,
    /// Why an object could not be written, the first that could not.
    write_error: Option<io::Error>,
}

impl JsonRenderer {
    fn write(&mut self, object: &Value) {
        if let Err(error) = output::write_stderr_line(object) {
            self.write_error.get_or_insert(error);
        }
    }
}

impl Renderer for JsonRenderer {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        let object = match event {
            TransferEvent::BatchProgress(board) => self.batch_object(now, board),
            event => event_object(now, event),
        };
        if let Some(object) = object {
            self.write(&object);
        }
    }

    fn batch_ended(&mut self, now: Duration, summary: &BatchSummary, _lines: &[String]) {
        self.write(&with_common_fields(
            report::summary_object(summary, now),
            None,
            now,
        ));
    }

    /// Lines for people are not for this reader.
    fn print(&mut self, _line: &str) {}

    fn warn(&mut self, now: Duration, text: &str) {
        self.write(&with_common_fields(
            json!({"event": "warning", "text": text}),
            None,
            now,
        ));
    }

    fn job_failed(&mut self, now: Duration, job: u64, error: &GetError) {
        let told = failure_object(
            ExitReason::from_error(error),
            &message::chain_text(error),
            message::error_hint(error).as_deref(),
        );
        self.write(&with_common_fields(told, Some(job), now));
    }

    fn job_interrupted(&mut self, now: Duration, job: u64, error: &GetError) {
        self.job_failed(now, job, error);
    }

    fn print_digests(
        &mut self,
        now: Duration,
        (job, outcome): (u64, &DownloadOutcome),
        _lines: &[String],
    ) -> io::Result<()> {
        let told = json!({"event": "checksums", "checksums": report::digests_object(outcome)});
        self.write(&with_common_fields(told, Some(job), now));
        Ok(())
    }

    fn take_write_error(&mut self) -> Option<io::Error> {
        self.write_error.take()
    }
}

impl JsonRenderer {
    /// The object of a look at a batch, once a second. Its rates are those since the last one; what is left is by those of some time.
    pub(super) fn batch_object(&mut self, now: Duration, board: &BatchSnapshot) -> Option<Value> {
        self.remaining_time.observe(now, &board.summary);
        let (then, before) = self.last.get_or_insert_default();
        let passed = now.saturating_sub(*then);
        if passed < EVERY {
            return None;
        }
        let summary = &board.summary;
        let per_second = |count: u64| report::per_second(count, passed);
        let files = ended_files(summary).saturating_sub(ended_files(before));
        let mut told = report::counts_object(summary);
        told["event"] = "batch".into();
        told["running"] = board.running.into();
        told["files_per_second"] = per_second(files).into();
        told["bytes_per_second"] = per_second(summary.bytes.saturating_sub(before.bytes)).into();
        told["left_ms"] = self.remaining_time.remaining().map(millis).into();
        told["slowest"] = board.slowest.as_ref().map_or(Value::Null, |slow| {
            json!({"url": redacted_url(&slow.url), "ms": millis(slow.elapsed), "bytes": slow.bytes})
        });
        self.last = Some((now, summary.clone()));
        Some(with_common_fields(told, None, now))
    }
}

/// The object of an event. A failure has none: [`Renderer::job_failed`] knows more of it.
pub(super) fn event_object(now: Duration, event: &TransferEvent) -> Option<Value> {
    let told = match event {
        TransferEvent::Started { url, .. } => json!({"event": "started", "url": redacted_url(url)}),
        TransferEvent::DestinationKnown {
            path,
            length,
            resumed,
            ..
        } => {
            json!({"event": "named", "path": path, "length": length, "resumed": resumed})
        }
        TransferEvent::Progress {
            done,
            length,
            connections,
            ..
        } => {
            json!({"event": "progress", "done": done, "length": length, "connections": connections})
        }
        TransferEvent::SegmentEnded {
            range,
            elapsed,
            worker: connection,
            ..
        } => json!({
            "event": "segment", "start": range.start, "end": range.end, "ms": millis(*elapsed), "connection": connection,
        }),
        TransferEvent::Retry {
            attempt,
            wait,
            reason: why,
            ..
        } => {
            json!({"event": "retry", "attempt": attempt, "wait_ms": millis(*wait), "why": why})
        }
        TransferEvent::Warning { text, .. } => json!({"event": "warning", "text": text}),
        TransferEvent::Verifying { bytes, .. } => json!({"event": "verifying", "bytes": bytes}),
        TransferEvent::Finished { bytes, elapsed, .. } => {
            json!({"event": "finished", "bytes": bytes, "ms": millis(*elapsed)})
        }
        TransferEvent::BatchRow(row) if row.state == RowState::Failed => {
            let mut told = report::row_object(row);
            told["event"] = "row".into();
            told
        }
        _ => return None,
    };
    Some(with_common_fields(told, event.job(), now))
}

/// The object of a failure that comes before any job, and so at the very start.
pub(crate) fn early_failure_object(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    with_common_fields(failure_object(exit, message, hint), None, Duration::ZERO)
}

fn failure_object(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    json!({"event": "failed", "class": exit.name(), "message": message, "hint": hint})
}

/// What every object has: its form's version, which job it is of, and when it was, from the start.
fn with_common_fields(mut object: Value, job: Option<u64>, now: Duration) -> Value {
    object["schema"] = SCHEMA.into();
    object["job"] = job.into();
    object["at_ms"] = millis(now).into();
    object
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

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
use crate::report::{self, ended};
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
    remaining: RemainingTime,
    /// Why an object could not be written, the first that could not.
    lost: Option<io::Error>,
}

impl JsonRenderer {
    fn write(&mut self, object: &Value) {
        if let Err(error) = output::stderr_line(object) {
            self.lost.get_or_insert(error);
        }
    }
}

impl Renderer for JsonRenderer {
    fn event(&mut self, now: Duration, event: &TransferEvent) {
        let object = match event {
            TransferEvent::Board(board) => self.look(now, board),
            event => object(now, event),
        };
        if let Some(object) = object {
            self.write(&object);
        }
    }

    fn over(&mut self, now: Duration, summary: &BatchSummary, _lines: &[String]) {
        self.write(&complete(report::summary_object(summary, now), None, now));
    }

    /// Lines for people are not for this reader.
    fn say(&mut self, _line: &str) {}

    fn warn(&mut self, now: Duration, text: &str) {
        self.write(&complete(
            json!({"event": "warning", "text": text}),
            None,
            now,
        ));
    }

    fn failed(&mut self, now: Duration, job: u64, error: &GetError) {
        let told = failure(
            ExitReason::of(error),
            &message::chain(error),
            message::hint(error).as_deref(),
        );
        self.write(&complete(told, Some(job), now));
    }

    fn stopped(&mut self, now: Duration, job: u64, error: &GetError) {
        self.failed(now, job, error);
    }

    fn digests(
        &mut self,
        now: Duration,
        (job, outcome): (u64, &DownloadOutcome),
        _lines: &[String],
    ) -> io::Result<()> {
        let told = json!({"event": "checksums", "checksums": report::digests(outcome)});
        self.write(&complete(told, Some(job), now));
        Ok(())
    }

    fn lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }
}

impl JsonRenderer {
    /// The object of a look at a batch, once a second. Its rates are those since the last one; what is left is by those of some time.
    pub(super) fn look(&mut self, now: Duration, board: &BatchSnapshot) -> Option<Value> {
        self.remaining.look(now, &board.summary);
        let (then, before) = self.last.get_or_insert_default();
        let passed = now.saturating_sub(*then);
        if passed < EVERY {
            return None;
        }
        let summary = &board.summary;
        let per_second = |count: u64| report::rate(count, passed);
        let files = ended(summary).saturating_sub(ended(before));
        let mut told = report::counts(summary);
        told["event"] = "batch".into();
        told["running"] = board.running.into();
        told["files_per_second"] = per_second(files).into();
        told["bytes_per_second"] = per_second(summary.bytes.saturating_sub(before.bytes)).into();
        told["left_ms"] = self.remaining.left().map(millis).into();
        told["slowest"] = board.slowest.as_ref().map_or(Value::Null, |slow| {
            json!({"url": redacted_url(&slow.url), "ms": millis(slow.elapsed), "bytes": slow.bytes})
        });
        self.last = Some((now, summary.clone()));
        Some(complete(told, None, now))
    }
}

/// The object of an event. A failure has none: [`Renderer::failed`] knows more of it.
pub(super) fn object(now: Duration, event: &TransferEvent) -> Option<Value> {
    let told = match event {
        TransferEvent::Started { url, .. } => json!({"event": "started", "url": redacted_url(url)}),
        TransferEvent::Named {
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
        TransferEvent::Segment {
            range,
            elapsed,
            connection,
            ..
        } => json!({
            "event": "segment", "start": range.start, "end": range.end, "ms": millis(*elapsed), "connection": connection,
        }),
        TransferEvent::Retry {
            attempt, wait, why, ..
        } => {
            json!({"event": "retry", "attempt": attempt, "wait_ms": millis(*wait), "why": why})
        }
        TransferEvent::Warning { text, .. } => json!({"event": "warning", "text": text}),
        TransferEvent::Verifying { bytes, .. } => json!({"event": "verifying", "bytes": bytes}),
        TransferEvent::Finished { bytes, elapsed, .. } => {
            json!({"event": "finished", "bytes": bytes, "ms": millis(*elapsed)})
        }
        TransferEvent::Row(row) if row.state == RowState::Failed => {
            let mut told = report::row(row);
            told["event"] = "row".into();
            told
        }
        _ => return None,
    };
    Some(complete(told, event.job(), now))
}

/// The object of a failure that comes before any job, and so at the very start.
pub(crate) fn failed_early(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    complete(failure(exit, message, hint), None, Duration::ZERO)
}

fn failure(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    json!({"event": "failed", "class": exit.name(), "message": message, "hint": hint})
}

/// What every object has: its form's version, which job it is of, and when it was, from the start.
fn complete(mut object: Value, job: Option<u64>, now: Duration) -> Value {
    object["schema"] = SCHEMA.into();
    object["job"] = job.into();
    object["at_ms"] = millis(now).into();
    object
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

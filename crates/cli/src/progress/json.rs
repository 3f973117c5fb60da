//! `--progress json`: one object a line on standard error, and nothing else there.

use std::io;
use std::time::Duration;

use haul_net::redacted_url;
use haul_transfer::batch::{BatchSnapshot, BatchSummary};
use haul_transfer::manifest::JobRowState;
use haul_transfer::{ConnectionCountLimit, DownloadOutcome, GetError, TransferEvent};
use serde_json::{Value, json};

use super::Renderer;
use super::remaining::RemainingTime;
use crate::exit::ExitReason;
use crate::report::{self, ended_files};
use crate::{message, output};

/// The version of the objects' format.
const SCHEMA: u32 = 1;

/// The interval of objects of a running batch.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct JsonRenderer {
    /// The time and counts of the last object of a batch.
    last: Option<(Duration, BatchSummary)>,
    remaining_time: RemainingTime,
    /// The first error in writing an object.
    write_error: Option<io::Error>,
}

impl JsonRenderer {
    /// The object of a running batch, once a second. Its rates are those since the last one; the remaining time is estimated over more.
    pub(super) fn batch_object(
        &mut self,
        now: Duration,
        snapshot: &BatchSnapshot,
    ) -> Option<Value> {
        self.remaining_time.observe(now, &snapshot.summary);
        let (last_time, last_counts) = self.last.get_or_insert_default();
        let passed = now.saturating_sub(*last_time);
        if passed < EVERY {
            return None;
        }
        let summary = &snapshot.summary;
        let per_second = |count: u64| report::per_second(count, passed);
        let files = ended_files(summary).saturating_sub(ended_files(last_counts));
        let mut object = report::counts_object(summary);
        object["event"] = "batch".into();
        object["running"] = snapshot.running.into();
        object["files_per_second"] = per_second(files).into();
        object["bytes_per_second"] =
            per_second(summary.fetched.saturating_sub(last_counts.fetched)).into();
        object["left_ms"] = self.remaining_time.remaining().map(millis).into();
        object["slowest"] = snapshot.slowest.as_ref().map_or(Value::Null, |slow| {
            json!({"url": redacted_url(&slow.url), "ms": millis(slow.elapsed), "bytes": slow.bytes})
        });
        self.last = Some((now, summary.clone()));
        Some(with_common_fields(object, None, now))
    }

    fn write(&mut self, object: &Value) {
        if let Err(error) = output::write_stderr_line(object) {
            self.write_error.get_or_insert(error);
        }
    }
}

impl Renderer for JsonRenderer {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        let object = match event {
            TransferEvent::BatchProgress(snapshot) => self.batch_object(now, snapshot),
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

    /// Lines for people are left out.
    fn print(&mut self, _line: &str) {}

    fn warn(&mut self, now: Duration, text: &str) {
        self.write(&with_common_fields(
            json!({"event": "warning", "text": text}),
            None,
            now,
        ));
    }

    fn job_failed(&mut self, now: Duration, job: u64, error: &GetError) {
        let object = failure_object(
            ExitReason::from_error(error),
            &message::chain_text(error),
            message::error_hint(error).as_deref(),
        );
        self.write(&with_common_fields(object, Some(job), now));
    }

    fn job_interrupted(&mut self, now: Duration, job: u64, error: &GetError) {
        self.job_failed(now, job, error);
    }

    fn print_digests(
        &mut self,
        now: Duration,
        job: u64,
        outcome: &DownloadOutcome,
        _lines: &[String],
    ) -> io::Result<()> {
        let object = json!({"event": "checksums", "checksums": report::digests_object(outcome)});
        self.write(&with_common_fields(object, Some(job), now));
        Ok(())
    }

    fn take_write_error(&mut self) -> Option<io::Error> {
        self.write_error.take()
    }
}

/// The object of an event. `None` for a failure: [`Renderer::job_failed`] prints more about it.
pub(super) fn event_object(now: Duration, event: &TransferEvent) -> Option<Value> {
    let object = match event {
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
        TransferEvent::Connections {
            connections,
            bytes,
            round_trip,
            limit,
            ..
        } => json!({
            "event": "connections", "connections": connections, "bytes": bytes, "round_trip_ms": round_trip.map(millis),
            "limit": limit_name(*limit),
        }),
        TransferEvent::Retry {
            attempt,
            limit,
            wait,
            reason: why,
            ..
        } => {
            json!({"event": "retry", "attempt": attempt, "of": limit, "wait_ms": millis(*wait), "why": why.to_string()})
        }
        TransferEvent::Warning { warning, url, .. } => {
            json!({"event": "warning", "text": message::transfer_warning_line(warning, url.as_deref())})
        }
        TransferEvent::Verifying { bytes, .. } => json!({"event": "verifying", "bytes": bytes}),
        TransferEvent::Finished { bytes, elapsed, .. } => {
            json!({"event": "finished", "bytes": bytes, "ms": millis(*elapsed)})
        }
        TransferEvent::BatchRow(row) if row.state == JobRowState::Failed => {
            let mut object = report::row_object(row);
            object["event"] = "row".into();
            object
        }
        _ => return None,
    };
    Some(with_common_fields(object, event.job(), now))
}

fn limit_name(limit: ConnectionCountLimit) -> &'static str {
    match limit {
        ConnectionCountLimit::UserNumber => "user",
        ConnectionCountLimit::Refused => "refused",
        ConnectionCountLimit::Maximum => "maximum",
        ConnectionCountLimit::FileSize => "file-size",
        ConnectionCountLimit::SharedRate => "shared-rate",
        ConnectionCountLimit::RateLimit => "rate-limit",
    }
}

/// The object of a failure before any job.
pub(crate) fn early_failure_object(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    with_common_fields(failure_object(exit, message, hint), None, Duration::ZERO)
}

fn failure_object(exit: ExitReason, message: &str, hint: Option<&str>) -> Value {
    json!({"event": "failed", "class": exit.name(), "message": message, "hint": hint})
}

/// Adds the fields of every object: the format's version, the job, the time since the start.
fn with_common_fields(mut object: Value, job: Option<u64>, now: Duration) -> Value {
    object["schema"] = SCHEMA.into();
    object["job"] = job.into();
    object["at_ms"] = millis(now).into();
    object
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

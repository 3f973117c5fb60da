//! `--progress json`: one object a line on standard error, and nothing else there.

use std::io;
use std::time::Duration;

use haul_net::shown;
use haul_transfer::{Event, GetError, Outcome};
use serde_json::{Value, json};

use super::Renderer;
use crate::exit::Exit;
use crate::{message, output, report};

/// The version of the objects' form.
pub(crate) const SCHEMA: u32 = 1;

/// One object a line.
#[derive(Debug, Default)]
pub(super) struct Json {
    /// Why an object could not be written, the first that could not.
    lost: Option<io::Error>,
}

impl Json {
    fn write(&mut self, object: &Value) {
        if let Err(error) = output::stderr_line(object) {
            self.lost.get_or_insert(error);
        }
    }
}

impl Renderer for Json {
    fn event(&mut self, now: Duration, event: &Event) {
        if let Some(object) = object(now, event) {
            self.write(&object);
        }
    }

    /// Lines for people are not for this reader.
    fn say(&mut self, _line: &str) {}

    fn warn(&mut self, text: &str) {
        self.write(&json!({"schema": SCHEMA, "event": "warning", "job": null, "text": text}));
    }

    fn failed(&mut self, job: u64, error: &GetError) {
        self.write(&json!({
            "schema": SCHEMA,
            "event": "failed",
            "job": job,
            "class": Exit::of(error).name(),
            "message": message::chain(error),
            "hint": message::hint(error),
        }));
    }

    fn stopped(&mut self, job: u64, error: &GetError) {
        self.failed(job, error);
    }

    fn digests(&mut self, job: u64, outcome: &Outcome, _lines: &[String]) -> io::Result<()> {
        let digests = report::digests(outcome);
        self.write(
            &json!({"schema": SCHEMA, "event": "checksums", "job": job, "checksums": digests}),
        );
        Ok(())
    }

    fn lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }
}

/// The object of an event. A failure has none: [`Renderer::failed`] knows more of it.
pub(super) fn object(now: Duration, event: &Event) -> Option<Value> {
    let mut object = match event {
        Event::Started { url, .. } => json!({"event": "started", "url": shown(url)}),
        Event::Named {
            path,
            length,
            resumed,
            ..
        } => {
            json!({"event": "named", "path": path, "length": length, "resumed": resumed})
        }
        Event::Progress {
            done,
            length,
            connections,
            ..
        } => {
            json!({"event": "progress", "done": done, "length": length, "connections": connections})
        }
        Event::Segment {
            range,
            elapsed,
            connection,
            ..
        } => json!({
            "event": "segment", "start": range.start, "end": range.end, "ms": millis(*elapsed), "connection": connection,
        }),
        Event::Retry {
            attempt, wait, why, ..
        } => {
            json!({"event": "retry", "attempt": attempt, "wait_ms": millis(*wait), "why": why})
        }
        Event::Warning { text, .. } => json!({"event": "warning", "text": text}),
        Event::Verifying { .. } => json!({"event": "verifying"}),
        Event::Finished { bytes, elapsed, .. } => {
            json!({"event": "finished", "bytes": bytes, "ms": millis(*elapsed)})
        }
        _ => return None,
    };
    object["schema"] = SCHEMA.into();
    object["job"] = event.job().into();
    object["at_ms"] = millis(now).into();
    Some(object)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

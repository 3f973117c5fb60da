//! `--progress json`: one object a line on standard error.

use std::io::Write as _;

use haul_transfer::Event;
use serde_json::{Value, json};

use super::Renderer;

/// The version of the objects' form.
const SCHEMA: u32 = 1;

/// One object a line.
pub(crate) struct Json;

impl Renderer for Json {
    fn event(&mut self, event: &Event) {
        if let Some(object) = object(event) {
            // A standard error that is closed leaves nobody to tell.
            let _ = writeln!(std::io::stderr().lock(), "{object}");
        }
    }
}

fn object(event: &Event) -> Option<Value> {
    let mut object = match event {
        Event::Started { url, .. } => json!({"event": "started", "url": url.as_str()}),
        Event::Named { path, length, resumed, .. } => {
            json!({"event": "named", "path": path, "length": length, "resumed": resumed})
        }
        Event::Progress { done, length, connections, .. } => {
            json!({"event": "progress", "done": done, "length": length, "connections": connections})
        }
        Event::Segment { range, elapsed, connection, .. } => {
            json!({"event": "segment", "start": range.start, "end": range.end, "ms": elapsed.as_millis() as u64, "connection": connection})
        }
        Event::Retry { attempt, wait, why, .. } => {
            json!({"event": "retry", "attempt": attempt, "wait_ms": wait.as_millis() as u64, "why": why})
        }
        Event::Warning { text, .. } => json!({"event": "warning", "text": text}),
        Event::Verifying { .. } => json!({"event": "verifying"}),
        Event::Finished { bytes, elapsed, .. } => {
            json!({"event": "finished", "bytes": bytes, "ms": elapsed.as_millis() as u64})
        }
        Event::Failed { error, .. } => json!({"event": "failed", "error": error}),
        _ => return None,
    };
    object["job"] = event.job().into();
    object["schema"] = SCHEMA.into();
    Some(object)
}

//! Captures the warnings and errors that all servers of this process log.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Captures events from here on.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| tracing::subscriber::set_global_default(EventRecorder).unwrap());
}

/// The captured events that contain a text.
pub(crate) fn events_containing(part: &str) -> Vec<String> {
    EVENTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .filter(|text| text.contains(part))
        .cloned()
        .collect()
}

/// Captures events, and ignores spans.
struct EventRecorder;

impl Subscriber for EventRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = EventText(event.metadata().level().to_string());
        event.record(&mut text);
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event, with the sources of its errors.
struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let _ = write!(self.0, " {field}={value}");
        let mut cause = value.source();
        while let Some(error) = cause {
            let _ = write!(self.0, ": {error}");
            cause = error.source();
        }
    }
}

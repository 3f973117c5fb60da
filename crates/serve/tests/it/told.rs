//! What the server tells its operator: warnings and errors of all servers of this process.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Everything so far.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps what is told from here on.
pub(crate) fn listen() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| tracing::subscriber::set_global_default(EventRecorder).unwrap());
}

/// What was told with this in it.
pub(crate) fn of(part: &str) -> Vec<String> {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.iter().filter(|text| text.contains(part));
    told.cloned().collect()
}

/// Keeps events, and knows nothing of spans.
struct EventRecorder;

impl Subscriber for EventRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = EventText(event.metadata().level().to_string());
        event.record(&mut text);
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event's fields, errors with their causes.
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

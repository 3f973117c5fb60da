//! The access log: a [`LineLog`] whose lines are requests, in one of the formats.
//!
//! The owner of the [`LineLog`] opens, closes and rotates it.

use std::sync::Arc;

use haul_service::observe::LineLog;

use super::{AccessLogFormat, AccessRecord};

/// Writes requests to a log. A clone writes to the same log.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Receives the lines.
    log: Arc<LineLog>,
    /// The format of the lines.
    format: AccessLogFormat,
}

impl AccessLog {
    /// The name of the log, in messages and in the names of metrics.
    pub const NAME: &str = "access log";

    /// Logs requests in this format.
    #[must_use]
    pub fn new(log: Arc<LineLog>, format: AccessLogFormat) -> Self {
        Self { log, format }
    }

    /// Logs a request, or drops its line and counts that. Never waits for the disk.
    pub fn write(&self, record: &AccessRecord) {
        self.log.write(|line| self.format.render(record, line));
    }
}

//! The access log: a [`LineLog`] whose lines are requests, in one of the formats.
//!
//! Opening, closing and beginning anew are the log's, whose owner has it beside this.

use std::sync::Arc;

use haul_service::observe::LineLog;

use super::{AccessLogFormat, AccessRecord};

/// Where requests are logged. A clone logs to the same place.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Takes the lines.
    log: Arc<LineLog>,
    /// What they look like.
    format: AccessLogFormat,
}

impl AccessLog {
    /// What its log is called, in messages and in the names of metrics.
    pub const NAME: &str = "access log";

    /// Requests are logged in this format there.
    #[must_use]
    pub fn new(log: Arc<LineLog>, format: AccessLogFormat) -> Self {
        Self { log, format }
    }

    /// Logs a request, or drops its line and counts that. It never waits for the disk.
    pub fn write(&self, record: &AccessRecord) {
        self.log.write(|line| self.format.render(record, line));
    }
}

//! What happens when a connection, or a request of an HTTP client, is over: it is counted, and written to the log.

use std::sync::Arc;

use haul_service::observe::LineLog;

use crate::active_connections::{ActiveConnection, ActiveConnections};
use crate::log_record::{TunnelLogFormat, TunnelOutcome};
use crate::metrics::TunnelMetrics;

/// Counts and logs what is over.
#[derive(Debug)]
pub(crate) struct ConnectionLog {
    active: Arc<ActiveConnections>,
    metrics: Arc<TunnelMetrics>,
    /// Where lines go, and what they look like.
    lines: Option<(Arc<LineLog>, TunnelLogFormat)>,
}

impl ConnectionLog {
    pub(crate) fn new(
        active: Arc<ActiveConnections>,
        metrics: Arc<TunnelMetrics>,
        lines: Option<(Arc<LineLog>, TunnelLogFormat)>,
    ) -> Self {
        Self {
            active,
            metrics,
            lines,
        }
    }

    /// A connection is over, or a request on it. Bytes are counted in any case; a line is written if the connection wants one.
    pub(crate) fn record(&self, connection: &ActiveConnection, outcome: &TunnelOutcome) {
        // The table is locked meanwhile, so that the metrics see the bytes of a connection either as its own or as counted.
        let (record, is_wanted) = self.active.with_all(|_| {
            let (record, is_wanted) = connection.take_record();
            self.metrics.add_bytes(record.up, record.down);
            (record, is_wanted)
        });
        if !is_wanted {
            return;
        }
        self.metrics.add_record(&record, outcome);
        if let Some((log, format)) = &self.lines {
            log.write(|line| format.render(&record, outcome, line));
        }
    }
}

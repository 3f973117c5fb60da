//! Counters of connections, for the admin endpoint.

use std::sync::Arc;

use haul_service::observe::{
    DurationHistogram, MetricKind, MetricSource, MetricsText, ShardedCounters,
};

use crate::active_connections::ActiveConnections;
use crate::log_record::{TunnelOutcome, TunnelRecord};

/// The counters of bytes, behind those of outcomes. They have the bytes of connections that are over.
const UP: usize = TunnelOutcome::WORDS.len();
const DOWN: usize = UP + 1;

/// The counters of one process.
#[derive(Debug)]
pub(crate) struct TunnelMetrics {
    /// One for each outcome, and two for bytes.
    counters: ShardedCounters<{ DOWN + 1 }>,
    durations: DurationHistogram,
    /// Their bytes are not in the counters yet.
    active: Arc<ActiveConnections>,
}

impl TunnelMetrics {
    pub(crate) fn new(active: Arc<ActiveConnections>) -> Self {
        Self {
            counters: ShardedCounters::new(),
            durations: DurationHistogram::default(),
            active,
        }
    }

    /// Counts the bytes of a connection that is over, or of a request on it.
    pub(crate) fn add_bytes(&self, up: u64, down: u64) {
        self.counters.add(UP, up);
        self.counters.add(DOWN, down);
    }

    /// Counts a connection that is over, or a request on it.
    pub(crate) fn add_record(&self, record: &TunnelRecord, outcome: &TunnelOutcome) {
        let word = outcome.word();
        if let Some(at) = TunnelOutcome::WORDS.iter().position(|known| *known == word) {
            self.counters.add(at, 1);
        }
        self.durations.observe(record.duration);
    }
}

impl MetricSource for TunnelMetrics {
    fn write_metrics(&self, out: &mut MetricsText) {
        let mut ended = out.family(
            "haul_tunnel_connections_total",
            MetricKind::Counter,
            "Connections that are over, and requests of HTTP clients, by how they ended.",
        );
        for (at, word) in TunnelOutcome::WORDS.iter().enumerate() {
            ended.sample(&[("end", word)], self.counters.sum(at));
        }
        out.single(
            "haul_tunnel_connections",
            MetricKind::Gauge,
            "Open connections.",
            self.active.count(),
        );
        // With the table locked, the bytes of a connection that ends meanwhile are in one of the two, and not in both or neither: a counter
        // must not fall.
        let (up, down) = self.active.with_all(|active| {
            let counted = (self.counters.sum(UP), self.counters.sum(DOWN));
            active
                .map(|connection| connection.unrecorded_bytes())
                .fold(counted, |(up, down), unrecorded| {
                    (up + unrecorded.0, down + unrecorded.1)
                })
        });
        let mut bytes = out.family(
            "haul_tunnel_bytes_total",
            MetricKind::Counter,
            "Bytes that were relayed.",
        );
        bytes.sample(&[("to", "target")], up);
        bytes.sample(&[("to", "client")], down);
        self.durations.write_metrics(
            "haul_tunnel_connection_seconds",
            "Duration of connections that are over, and of requests of HTTP clients.",
            out,
        );
    }
}

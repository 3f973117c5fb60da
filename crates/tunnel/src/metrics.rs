//! What is counted of a tunnel's connections.

use std::sync::Arc;

use haul_service::observe::{
    DurationHistogram, MetricKind, MetricSource, MetricsText, ShardedCounters,
};

use crate::active_connections::ActiveConnections;
use crate::log_record::{TunnelOutcome, TunnelRecord};

/// Counters beside those of outcomes: bytes each way, of connections that are over.
const UP: usize = TunnelOutcome::WORDS.len();
const DOWN: usize = UP + 1;

/// The numbers of one process.
#[derive(Debug)]
pub(crate) struct TunnelMetrics {
    /// One for each outcome, and bytes.
    counters: ShardedCounters<{ DOWN + 1 }>,
    /// How long connections lasted.
    lasted: DurationHistogram,
    /// What has not been counted yet.
    active: Arc<ActiveConnections>,
}

impl TunnelMetrics {
    pub(crate) fn new(active: Arc<ActiveConnections>) -> Self {
        Self {
            counters: ShardedCounters::new(),
            lasted: DurationHistogram::default(),
            active,
        }
    }

    /// Bytes of a connection that is over, or of a request on it.
    pub(crate) fn add_bytes(&self, up: u64, down: u64) {
        self.counters.add(UP, up);
        self.counters.add(DOWN, down);
    }

    /// A connection is over, or a request on it, in this way.
    pub(crate) fn add_record(&self, record: &TunnelRecord, outcome: &TunnelOutcome) {
        let word = outcome.word();
        if let Some(at) = TunnelOutcome::WORDS.iter().position(|known| *known == word) {
            self.counters.add(at, 1);
        }
        self.lasted.observe(record.duration);
    }
}

impl MetricSource for TunnelMetrics {
    fn tell(&self, out: &mut MetricsText) {
        let mut ended = out.family(
            "haul_tunnel_connections_total",
            MetricKind::Counter,
            "Connections that are over, by how they ended.",
        );
        for (at, word) in TunnelOutcome::WORDS.iter().enumerate() {
            ended.sample(&[("end", word)], self.counters.sum(at));
        }
        out.single(
            "haul_tunnel_connections",
            MetricKind::Gauge,
            "Connections that there are.",
            self.active.count(),
        );
        // Of a connection that ends meanwhile the bytes are in one of the two, and not in both or neither: a counter only rises.
        let (up, down) = self.active.with_all(|active| {
            let counted = (self.counters.sum(UP), self.counters.sum(DOWN));
            active
                .map(|connection| connection.untold_bytes())
                .fold(counted, |(up, down), untold| {
                    (up + untold.0, down + untold.1)
                })
        });
        let mut bytes = out.family(
            "haul_tunnel_bytes_total",
            MetricKind::Counter,
            "Bytes that were relayed.",
        );
        bytes.sample(&[("to", "target")], up);
        bytes.sample(&[("to", "client")], down);
        self.lasted.tell(
            "haul_tunnel_connection_seconds",
            "How long connections lasted that are over.",
            out,
        );
    }
}

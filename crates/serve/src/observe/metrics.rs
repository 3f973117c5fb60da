//! The metrics of a server: requests, bytes, durations, connections, faults.
//!
//! One request costs three atomic additions ([`ServeMetrics::count_request`]), its bytes one or two
//! more; each is relaxed and on a cache line of the thread. Only `write_metrics` knows names, units and
//! labels. No label has a value that a client could choose: methods and status codes are grouped in
//! classes, so the number of series is fixed.

use std::sync::Arc;
use std::time::Duration;

use haul_service::observe::{
    DurationHistogram, MetricKind, MetricSource, MetricsText, ShardedCounters,
};
use http::{Method, StatusCode};

use super::faults::{BodyRefusal, ConnectionFault};

/// Methods that are counted apart, and all others.
const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "other"];

/// Classes of status codes, and codes in no class.
const CODES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// Indices of the byte counters.
const SENT: usize = 0;
const RECEIVED: usize = 1;

/// Indices of start and end counters. The difference is in progress.
const STARTED: usize = 0;
const ENDED: usize = 1;

/// All metrics of one server. Its threads share it in an `Arc`.
#[derive(Debug, Default)]
pub struct ServeMetrics {
    /// A row of status classes for each method.
    requests: ShardedCounters<{ METHODS.len() * CODES.len() }>,
    /// From a request's head to the last byte of its response.
    durations: DurationHistogram,
    /// Bytes of bodies, without heads and framing.
    bytes: ShardedCounters<2>,
    /// Accepted and closed connections.
    connections: ShardedCounters<2>,
    /// Connections that were dropped because every thread's queue was full.
    refused_connections: ShardedCounters<1>,
    /// Started and ended uploads.
    uploads: ShardedCounters<2>,
    faults: ShardedCounters<{ ConnectionFault::ALL.len() }>,
    refused_bodies: ShardedCounters<{ BodyRefusal::ALL.len() }>,
}

/// A connection or an upload that is in progress until this is dropped.
#[derive(Debug)]
#[must_use = "what it counts ends when it is dropped"]
pub struct GaugeGuard {
    /// Where its end is counted.
    metrics: Arc<ServeMetrics>,
    /// The counters of its kind.
    counters: fn(&ServeMetrics) -> &ShardedCounters<2>,
}

impl ServeMetrics {
    /// Counts a request whose response has ended, complete or not. Its bytes are counted
    /// separately.
    #[inline]
    pub fn count_request(&self, method: &Method, status: StatusCode, duration: Duration) {
        let cell = method_class(method) * CODES.len() + code_class(status);
        self.requests.add(cell, 1);
        self.durations.observe(duration);
    }

    /// Counts bytes of response bodies: chunk by chunk, so that large ones show while they are
    /// sent, or all at the end.
    #[inline]
    pub fn count_sent(&self, bytes: u64) {
        self.bytes.add(SENT, bytes);
    }

    /// Counts bytes of request bodies.
    #[inline]
    pub fn count_received(&self, bytes: u64) {
        self.bytes.add(RECEIVED, bytes);
    }

    /// Counts an accepted connection, open until the guard is dropped.
    pub fn track_connection(self: &Arc<Self>) -> GaugeGuard {
        self.track(|metrics| &metrics.connections)
    }

    /// Counts a connection that was dropped because every thread's queue was full.
    pub fn count_refused_connection(&self) {
        self.refused_connections.add(0, 1);
    }

    /// Counts an upload, in progress until the guard is dropped.
    pub fn track_upload(self: &Arc<Self>) -> GaugeGuard {
        self.track(|metrics| &metrics.uploads)
    }

    /// Counts a fault of a connection or a request.
    pub fn count_fault(&self, fault: ConnectionFault) {
        self.faults.add(fault as usize, 1);
    }

    pub fn count_refused_body(&self, reason: BodyRefusal) {
        self.refused_bodies.add(reason as usize, 1);
    }

    fn track(self: &Arc<Self>, counters: fn(&Self) -> &ShardedCounters<2>) -> GaugeGuard {
        counters(self).add(STARTED, 1);
        GaugeGuard {
            metrics: Arc::clone(self),
            counters,
        }
    }

    fn write_requests(&self, out: &mut MetricsText) {
        let help = "Requests answered, by method and class of status code.";
        let mut family = out.family("haul_http_requests_total", MetricKind::Counter, help);
        for (row, method) in METHODS.into_iter().enumerate() {
            for (column, code) in CODES.into_iter().enumerate() {
                let count = self.requests.sum(row * CODES.len() + column);
                // Samples of zero are left out, except the one that every dashboard shows first.
                if count > 0 || (method, code) == ("GET", "2xx") {
                    family.sample(&[("method", method), ("code", code)], count);
                }
            }
        }
        let help = "Time from a request's head to the end of its response.";
        self.durations
            .write_metrics("haul_http_request_duration_seconds", help, out);
        let bytes = [
            (
                "haul_http_response_body_bytes_total",
                SENT,
                "Bytes of response bodies sent.",
            ),
            (
                "haul_http_request_body_bytes_total",
                RECEIVED,
                "Bytes of request bodies received.",
            ),
        ];
        for (name, counter, help) in bytes {
            out.single(name, MetricKind::Counter, help, self.bytes.sum(counter));
        }
    }

    fn write_connections(&self, out: &mut MetricsText) {
        let (open, accepted) = in_progress_and_total(&self.connections);
        out.single(
            "haul_connections_open",
            MetricKind::Gauge,
            "Connections open now.",
            open,
        );
        let help = "Connections accepted.";
        out.single(
            "haul_connections_accepted_total",
            MetricKind::Counter,
            help,
            accepted,
        );
        let help = "Connections closed at once because every thread was busy.";
        let refused = self.refused_connections.sum(0);
        out.single(
            "haul_connections_refused_total",
            MetricKind::Counter,
            help,
            refused,
        );
        let (uploads, started) = in_progress_and_total(&self.uploads);
        out.single(
            "haul_uploads_in_flight",
            MetricKind::Gauge,
            "Uploads in progress now.",
            uploads,
        );
        out.single(
            "haul_uploads_total",
            MetricKind::Counter,
            "Uploads started.",
            started,
        );
    }

    fn write_faults(&self, out: &mut MetricsText) {
        let help = "Faults of connections and requests, by kind.";
        let mut family = out.family("haul_errors_total", MetricKind::Counter, help);
        for fault in ConnectionFault::ALL {
            family.sample(&[("kind", fault.name())], self.faults.sum(fault as usize));
        }
        let help = "Request bodies refused, by reason.";
        let mut family = out.family("haul_bodies_refused_total", MetricKind::Counter, help);
        for reason in BodyRefusal::ALL {
            family.sample(
                &[("reason", reason.name())],
                self.refused_bodies.sum(reason as usize),
            );
        }
    }
}

impl MetricSource for ServeMetrics {
    fn write_metrics(&self, out: &mut MetricsText) {
        self.write_requests(out);
        self.write_connections(out);
        self.write_faults(out);
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        (self.counters)(&self.metrics).add(ENDED, 1);
    }
}

/// How many are in progress, and how many were ever started. The ends are read first, so that no
/// end is counted without its start.
fn in_progress_and_total(counters: &ShardedCounters<2>) -> (u64, u64) {
    let ended = counters.sum(ENDED);
    let started = counters.sum(STARTED);
    (started.saturating_sub(ended), started)
}

/// Index of a method in [`METHODS`].
fn method_class(method: &Method) -> usize {
    let name = method.as_str();
    let other = METHODS.len() - 1;
    METHODS[..other]
        .iter()
        .position(|known| *known == name)
        .unwrap_or(other)
}

/// Index of a status code in [`CODES`].
fn code_class(status: StatusCode) -> usize {
    match status.as_u16() / 100 {
        class @ 1..=5 => usize::from(class) - 1,
        _ => CODES.len() - 1,
    }
}

#[cfg(test)]
mod tests;

//! The numbers of a server: requests, bytes, times, connections, what went wrong.
//!
//! One request costs three atomic additions ([`ServeMetrics::count_request`]), its bytes one or two more; each is relaxed and on a line that
//! the thread has to itself. Names, units and labels are in `tell` alone. There are no labels that a peer could make up: methods
//! and codes are classes, so the number of series is fixed.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use haul_service::observe::{
    DurationHistogram, MetricKind, MetricSource, MetricsText, ShardedCounters,
};
use http::{Method, StatusCode};

pub use faults::{BodyRefusal, ConnectionFault};

/// The methods that are told apart, and all others.
const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "other"];

/// The classes of status codes, and what is in none.
const CODES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// Counters of bytes.
const SENT: usize = 0;
const RECEIVED: usize = 1;

/// Counters of what lasts: begun and ended. What lies between is under way.
const STARTED: usize = 0;
const ENDED: usize = 1;

/// All numbers of one server. Shared by its threads behind an `Arc`.
#[derive(Debug, Default)]
pub struct ServeMetrics {
    /// A row of codes for each method.
    requests: ShardedCounters<{ METHODS.len() * CODES.len() }>,
    /// From a request's first line to the last byte of its answer.
    durations: DurationHistogram,
    /// Of bodies, without heads and framing.
    bytes: ShardedCounters<2>,
    /// Accepted and closed.
    connections: ShardedCounters<2>,
    /// Closed at once, for there were too many.
    refused_connections: ShardedCounters<1>,
    /// Bodies of requests being taken in.
    uploads: ShardedCounters<2>,
    /// By [`ConnectionFault`].
    faults: ShardedCounters<{ ConnectionFault::ALL.len() }>,
    /// By [`BodyRefusal`].
    refused_bodies: ShardedCounters<{ BodyRefusal::ALL.len() }>,
}

/// A connection or an upload that is under way until this is dropped.
#[derive(Debug)]
#[must_use = "what it counts ends when it is dropped"]
pub struct GaugeGuard {
    /// Where its end is counted.
    metrics: Arc<ServeMetrics>,
    /// Which of them it is.
    counters: fn(&ServeMetrics) -> &ShardedCounters<2>,
}

impl ServeMetrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request whose answer has ended, well or not. Its bytes are counted apart, as they go.
    #[inline]
    pub fn count_request(&self, method: &Method, status: StatusCode, took: Duration) {
        let cell = method_class(method) * CODES.len() + code_class(status);
        self.requests.add(cell, 1);
        self.durations.observe(took);
    }

    /// Counts bytes of answers' bodies: chunk by chunk, so that large ones show while they go, or all at the end.
    #[inline]
    pub fn count_sent(&self, bytes: u64) {
        self.bytes.add(SENT, bytes);
    }

    /// Counts bytes of requests' bodies.
    #[inline]
    pub fn count_received(&self, bytes: u64) {
        self.bytes.add(RECEIVED, bytes);
    }

    /// Counts a connection that was accepted, and is open until what this returns is dropped.
    pub fn track_connection(self: &Arc<Self>) -> GaugeGuard {
        self.track(|metrics| &metrics.connections)
    }

    /// Counts a connection that was closed at once, for there were too many.
    pub fn count_refused_connection(&self) {
        self.refused_connections.add(0, 1);
    }

    /// Counts an upload, which is under way until what this returns is dropped.
    pub fn track_upload(self: &Arc<Self>) -> GaugeGuard {
        self.track(|metrics| &metrics.uploads)
    }

    /// Counts what went wrong with a connection or a request.
    pub fn count_fault(&self, fault: ConnectionFault) {
        self.faults.add(fault as usize, 1);
    }

    /// Counts a request's body that was not taken.
    pub fn count_refused_body(&self, why: BodyRefusal) {
        self.refused_bodies.add(why as usize, 1);
    }

    /// These numbers alone, in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = MetricsText::default();
        self.tell(&mut out);
        out.into_text()
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
                // What never happened is left out, but for the one that every dashboard begins with.
                if count > 0 || (method, code) == ("GET", "2xx") {
                    family.sample(&[("method", method), ("code", code)], count);
                }
            }
        }
        let help = "Time from a request's head to the end of its answer.";
        self.durations
            .tell("haul_http_request_duration_seconds", help, out);
        let bytes = [
            (
                "haul_http_response_body_bytes_total",
                SENT,
                "Bytes of answers' bodies sent.",
            ),
            (
                "haul_http_request_body_bytes_total",
                RECEIVED,
                "Bytes of requests' bodies received.",
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
        let help = "Connections closed at once, for there were too many.";
        let refused = self.refused_connections.sum(0);
        out.single(
            "haul_connections_refused_total",
            MetricKind::Counter,
            help,
            refused,
        );
        let (uploads, begun) = in_progress_and_total(&self.uploads);
        out.single(
            "haul_uploads_in_flight",
            MetricKind::Gauge,
            "Uploads under way now.",
            uploads,
        );
        out.single(
            "haul_uploads_total",
            MetricKind::Counter,
            "Uploads begun.",
            begun,
        );
    }

    fn write_faults(&self, out: &mut MetricsText) {
        let help = "What went wrong with connections and requests, by kind.";
        let mut family = out.family("haul_errors_total", MetricKind::Counter, help);
        for fault in ConnectionFault::ALL {
            family.sample(&[("kind", fault.name())], self.faults.sum(fault as usize));
        }
        let help = "Bodies of requests that were not taken, by reason.";
        let mut family = out.family("haul_bodies_refused_total", MetricKind::Counter, help);
        for why in BodyRefusal::ALL {
            family.sample(
                &[("reason", why.name())],
                self.refused_bodies.sum(why as usize),
            );
        }
    }
}

impl MetricSource for ServeMetrics {
    fn tell(&self, out: &mut MetricsText) {
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

/// How many are under way, and how many ever began. Ends are read first, so that none counts whose beginning does not.
fn in_progress_and_total(counters: &ShardedCounters<2>) -> (u64, u64) {
    let ended = counters.sum(ENDED);
    let begun = counters.sum(STARTED);
    (begun.saturating_sub(ended), begun)
}

/// The place of a method in [`METHODS`].
fn method_class(method: &Method) -> usize {
    let name = method.as_str();
    let other = METHODS.len() - 1;
    METHODS[..other]
        .iter()
        .position(|known| *known == name)
        .unwrap_or(other)
}

/// The place of a code in [`CODES`].
fn code_class(status: StatusCode) -> usize {
    match status.as_u16() / 100 {
        class @ 1..=5 => usize::from(class) - 1,
        _ => CODES.len() - 1,
    }
}

#[cfg(test)]
mod tests;

//! Counts what a worker's requests came to. The tallies of all workers are merged into the measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::outcome::{LoadFailure, RequestTimes};
use crate::Measurement;
use crate::measurement::{LatencyQuantiles, PhaseTimes};

/// The counts of one worker, or of all.
#[derive(Debug)]
pub(super) struct LoadTally {
    successes: u64,
    bytes: u64,
    connections: u64,
    /// Those of them whose TLS resumed a session.
    resumed: u64,
    errors: BTreeMap<LoadFailure, u64>,
    /// Latencies in nanoseconds, to three digits. It grows with the longest.
    latencies: Histogram<u32>,
    /// Sums of the phases: DNS, connect, TLS, first byte, body.
    phases: [Duration; 5],
    /// When the last request ended, since the start of the load.
    last_end: Duration,
}

impl LoadTally {
    pub(super) fn new() -> Self {
        Self {
            successes: 0,
            bytes: 0,
            connections: 0,
            resumed: 0,
            errors: BTreeMap::new(),
            latencies: Histogram::new(3).expect("three digits are in its range"),
            phases: [Duration::ZERO; 5],
            last_end: Duration::ZERO,
        }
    }

    pub(super) fn add_connection(&mut self, is_resumed: bool) {
        self.connections += 1;
        self.resumed += u64::from(is_resumed);
    }

    pub(super) fn add_success(&mut self, end: Duration, bytes: u64, times: &RequestTimes) {
        self.successes += 1;
        self.bytes += bytes;
        self.last_end = self.last_end.max(end);
        let connecting = times.connecting;
        let phases = [
            connecting.dns,
            connecting.connect,
            connecting.tls,
            times.first_byte,
            times.body,
        ];
        for (sum, phase) in self.phases.iter_mut().zip(phases) {
            *sum += phase;
        }
        let latency = u64::try_from(times.latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies
            .record(latency)
            .expect("it grows without limit");
    }

    pub(super) fn add_failure(&mut self, end: Duration, kind: LoadFailure) {
        self.last_end = self.last_end.max(end);
        *self.errors.entry(kind).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.successes += other.successes;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.last_end = self.last_end.max(other.last_end);
        for (kind, count) in &other.errors {
            *self.errors.entry(*kind).or_default() += count;
        }
        for (sum, phase) in self.phases.iter_mut().zip(other.phases) {
            *sum += phase;
        }
        self.latencies
            .add(&other.latencies)
            .expect("both grow without limit");
    }

    /// The measurement.
    pub(super) fn into_measurement(self) -> Measurement {
        let mut measurement = Measurement {
            wall_s: self.last_end.as_secs_f64(),
            successes: self.successes,
            bytes: self.bytes,
            connections: Some(self.connections),
            resumed: Some(self.resumed).filter(|resumed| *resumed > 0),
            ..Measurement::default()
        };
        for (kind, count) in &self.errors {
            measurement.add_errors(kind.to_string(), *count);
        }
        if self.successes > 0 {
            measurement.latency = Some(self.quantiles());
            measurement.phases = Some(self.mean_phases());
        }
        measurement
    }

    fn quantiles(&self) -> LatencyQuantiles {
        let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
        let quantile = |quantile| seconds(self.latencies.value_at_quantile(quantile));
        LatencyQuantiles {
            p50_s: quantile(0.5),
            p90_s: quantile(0.9),
            p99_s: quantile(0.99),
            p999_s: quantile(0.999),
            max_s: seconds(self.latencies.max()),
        }
    }

    fn mean_phases(&self) -> PhaseTimes {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a number of requests is far below 2^52"
        )]
        let successes = self.successes as f64;
        let [dns_s, connect_s, tls_s, first_byte_s, body_s] =
            self.phases.map(|sum| sum.as_secs_f64() / successes);
        PhaseTimes {
            dns_s,
            connect_s,
            tls_s,
            first_byte_s,
            body_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_are_merged() {
        let times = |ms| RequestTimes {
            connecting: crate::load::outcome::ConnectTimes {
                connect: Duration::from_millis(2),
                ..Default::default()
            },
            first_byte: Duration::from_millis(ms),
            body: Duration::ZERO,
            latency: Duration::from_millis(ms),
        };
        let (mut one, mut other) = (LoadTally::new(), LoadTally::new());
        one.add_success(Duration::from_secs(1), 5, &times(10));
        other.add_success(Duration::from_secs(2), 7, &times(30));
        other.add_failure(Duration::from_secs(3), LoadFailure::Status(503));
        other.add_connection(true);
        one.merge(&other);
        let measurement = one.into_measurement();
        assert_eq!((measurement.successes, measurement.bytes), (2, 12));
        assert_eq!(measurement.errors.get("status 503"), Some(&1));
        assert_eq!(measurement.connections, Some(1));
        assert!((measurement.wall_s - 3.0).abs() < 1e-9);
        let phases = measurement.phases.unwrap();
        assert!((phases.connect_s - 0.002).abs() < 1e-9);
        assert!((phases.first_byte_s - 0.020).abs() < 1e-9);
        let latency = measurement.latency.unwrap();
        assert!((latency.p50_s - 0.010).abs() < 1e-4);
        assert!((latency.max_s - 0.030).abs() < 1e-4);
    }

    #[test]
    fn without_successes_there_are_no_times() {
        let mut tally = LoadTally::new();
        tally.add_failure(Duration::ZERO, LoadFailure::Timeout);
        let measurement = tally.into_measurement();
        assert_eq!((measurement.latency, measurement.phases), (None, None));
        assert_eq!(measurement.errors.get("timeout"), Some(&1));
    }
}

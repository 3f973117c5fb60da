//! Counts what a worker's requests came to. The tallies of all workers are merged into the measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::outcome::LoadFailure;
use super::target::TargetList;
use crate::Measurement;
use crate::measurement::{LatencyQuantiles, PhaseTimes};

/// The most failures that are told apart by URLs and redirects.
const MAX_DETAILED: usize = 50;

/// The counts of one worker, or of all.
#[derive(Debug)]
pub(super) struct LoadTally {
    successes: u64,
    bytes: u64,
    connections: u64,
    /// Those of them whose TLS resumed a session.
    resumed: u64,
    /// By kind, and by the index of the URL.
    errors: BTreeMap<(LoadFailure, Option<usize>), u64>,
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

    /// Counts a success; the phases are DNS, connect, TLS, first byte, body.
    pub(super) fn add_success(
        &mut self,
        end: Duration,
        bytes: u64,
        phases: [Duration; 5],
        latency: Duration,
    ) {
        self.successes += 1;
        self.bytes += bytes;
        self.last_end = self.last_end.max(end);
        for (sum, phase) in self.phases.iter_mut().zip(phases) {
            *sum += phase;
        }
        let latency = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies
            .record(latency)
            .expect("it grows without limit");
    }

    /// Counts a failure of the URL with this index.
    pub(super) fn add_failure(&mut self, end: Duration, kind: LoadFailure, target: usize) {
        self.last_end = self.last_end.max(end);
        self.add_errors((kind, Some(target)), 1);
    }

    fn add_errors(&mut self, mut key: (LoadFailure, Option<usize>), count: u64) {
        if self.errors.len() >= MAX_DETAILED && !self.errors.contains_key(&key) {
            if let LoadFailure::Status(_, location) = &mut key.0 {
                *location = None;
            }
            key.1 = None;
        }
        *self.errors.entry(key).or_default() += count;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.successes += other.successes;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.last_end = self.last_end.max(other.last_end);
        for (key, count) in other.errors {
            self.add_errors(key, count);
        }
        for (sum, phase) in self.phases.iter_mut().zip(other.phases) {
            *sum += phase;
        }
        self.latencies
            .add(&other.latencies)
            .expect("both grow without limit");
    }

    /// The measurement. Failures name their URLs where there are several.
    pub(super) fn into_measurement(self, targets: &TargetList) -> Measurement {
        let mut measurement = Measurement {
            wall_s: self.last_end.as_secs_f64(),
            successes: self.successes,
            bytes: self.bytes,
            connections: Some(self.connections),
            resumed: Some(self.resumed).filter(|resumed| *resumed > 0),
            ..Measurement::default()
        };
        for ((kind, target), count) in &self.errors {
            let text = match target.and_then(|index| targets.name(index)) {
                Some(name) => format!("{kind} at {name}"),
                None => kind.to_string(),
            };
            measurement.add_errors(text, *count);
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
    use crate::load::tests::plan;

    fn targets(urls: usize) -> TargetList {
        let mut plan = plan("http://me:secret@h/");
        let urls = (0..urls).map(|number| format!("http://me:secret@h/{number}?token=t"));
        plan.urls = urls.map(|url| url.parse().unwrap()).collect();
        TargetList::new(&plan).unwrap()
    }

    #[test]
    fn tallies_are_merged() {
        let milliseconds = Duration::from_millis;
        let phases = |first_byte| {
            let (connect, none) = (milliseconds(2), Duration::ZERO);
            [none, connect, none, milliseconds(first_byte), none]
        };
        let (mut one, mut other) = (LoadTally::new(), LoadTally::new());
        one.add_success(Duration::from_secs(1), 5, phases(10), milliseconds(10));
        other.add_success(Duration::from_secs(2), 7, phases(30), milliseconds(30));
        other.add_failure(Duration::from_secs(3), LoadFailure::Status(503, None), 0);
        other.add_connection(true);
        one.merge(other);
        let measurement = one.into_measurement(&targets(1));
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
        tally.add_failure(Duration::ZERO, LoadFailure::Timeout, 0);
        let measurement = tally.into_measurement(&targets(1));
        assert_eq!((measurement.latency, measurement.phases), (None, None));
        assert_eq!(measurement.errors.get("timeout"), Some(&1));
    }

    #[test]
    fn failures_name_one_of_several_urls_and_are_not_told_apart_without_limit() {
        let (mut one, mut other) = (LoadTally::new(), LoadTally::new());
        let moved = |number: usize| LoadFailure::Status(302, Some(format!("/{number}")));
        for number in 0..100 {
            one.add_failure(Duration::ZERO, moved(number), number);
            other.add_failure(Duration::ZERO, moved(99 - number), number);
        }
        one.merge(other);
        let errors = one.into_measurement(&targets(100)).errors;
        assert_eq!(errors["status 302 (Location: /7) at http://h/7"], 1);
        assert_eq!((errors.len(), errors.values().sum()), (51, 200_u64));
        assert_eq!(errors["status 302"], 150);
    }
}

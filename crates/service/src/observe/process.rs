//! Metrics of the process: the `process_*` families that Prometheus clients have in common.
//!
//! They are read from the kernel on request; those that it does not have are left out.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{MetricKind, MetricSource, MetricsText};

const STATUS_FILE: &str = "/proc/self/status";
const DESCRIPTOR_FOLDER: &str = "/proc/self/fd";

#[derive(Debug, Clone)]
pub struct ProcessMetrics {
    started: SystemTime,
    version: &'static str,
}

impl ProcessMetrics {
    #[must_use]
    pub fn new(started: SystemTime, version: &'static str) -> Self {
        Self { started, version }
    }
}

impl MetricSource for ProcessMetrics {
    fn write_metrics(&self, out: &mut MetricsText) {
        use MetricKind::{Counter, Gauge};
        let help = "What is running.";
        let mut family = out.family("haul_build_info", Gauge, help);
        family.sample(&[("version", self.version)], 1);
        let since = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let help = "Start of the process since the epoch.";
        out.single(
            "process_start_time_seconds",
            Gauge,
            help,
            since.as_secs_f64(),
        );
        let help = "Processor time used, of user and system.";
        let used = processor_time().as_secs_f64();
        out.single("process_cpu_seconds_total", Counter, help, used);
        if let Some(count) = open_descriptors() {
            out.single("process_open_fds", Gauge, "Descriptors open.", count);
        }
        if let Some(limit) = getrlimit(Resource::Nofile).current {
            out.single("process_max_fds", Gauge, "Most descriptors.", limit);
        }
        let status = fs::read_to_string(STATUS_FILE).unwrap_or_default();
        for (name, field, help) in [
            ("process_resident_memory_bytes", "VmRSS:", "Memory in use."),
            ("process_virtual_memory_bytes", "VmSize:", "Memory mapped."),
        ] {
            if let Some(bytes) = kibibytes(&status, field) {
                out.single(name, Gauge, help, bytes);
            }
        }
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// The number of open descriptors: the length of the folder since Linux 6.2; before that the number of its entries, less the
/// one of the folder itself.
fn open_descriptors() -> Option<u64> {
    let length = fs::metadata(DESCRIPTOR_FOLDER).ok()?.len();
    if length > 0 {
        return Some(length);
    }
    let entries = fs::read_dir(DESCRIPTOR_FOLDER).ok()?.count();
    u64::try_from(entries).ok()?.checked_sub(1)
}

/// A field of the status file, which is in kibibytes, in bytes.
fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_this_process_are_written() {
        let mut out = MetricsText::default();
        let started = UNIX_EPOCH + Duration::from_millis(1_500);
        ProcessMetrics::new(started, "1.2.3").write_metrics(&mut out);
        let text = out.into_text();
        assert!(text.contains("\nhaul_build_info{version=\"1.2.3\"} 1\n"));
        assert!(text.contains("\nprocess_start_time_seconds 1.5\n"));
        for name in [
            "process_open_fds",
            "process_max_fds",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value: u64 = line.and_then(|line| line.trim().parse().ok()).unwrap();
            assert!(value > 0, "{name}");
        }
    }

    #[test]
    fn descriptors_are_counted() {
        // Other tests open and close descriptors at the same time, so only a lower bound is certain.
        let files: Vec<_> = (0..200).map(|_| fs::File::open("/").unwrap()).collect();
        assert!(open_descriptors().unwrap() >= files.len() as u64);
    }

    #[test]
    fn fields_of_the_status_are_bytes() {
        let status = "Name:\thaul\nVmRSS:\t    1234 kB\nVmSize:\tmuch\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(kibibytes(status, "VmSize:"), None);
        assert_eq!(kibibytes(status, "VmPeak:"), None);
    }
}

//! What one measurement of a cell has found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a workload has measured, once. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// From the first request to the last response.
    pub wall_s: f64,
    /// Requests or files that were successful.
    pub successes: u64,
    /// Bytes of bodies, of the successful ones.
    pub bytes: u64,
    /// Failures by their kind, such as `status 503`, `connection refused`, `timeout`. They are in no time but `wall_s`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Connections that were made, or that a transfer used at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Those of them whose TLS resumed a session; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<u64>,
    /// Latencies of the successful requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyQuantiles>,
    /// The mean times of the phases of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseTimes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu: Option<CpuTime>,
    /// CPU time of the server, where it is haul's or its process is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<CpuTime>,
    /// Threads of the server that were busy for at least half of the time, and the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_threads: Option<ThreadCounts>,
    /// Peaks of resident memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_memory: Option<u64>,
    /// The same of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_memory: Option<u64>,
}

/// Quantiles of latencies, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyQuantiles {
    /// The median.
    pub p50_s: f64,
    /// 90 of a hundred are not longer.
    pub p90_s: f64,
    /// 99 of a hundred.
    pub p99_s: f64,
    /// 999 of a thousand.
    pub p999_s: f64,
    pub max_s: f64,
}

/// Mean times of the phases of a request, in seconds. Those of connections are shared by all requests, be they on one of them or not.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// The lookup of the name.
    pub dns_s: f64,
    /// TCP's handshake.
    pub connect_s: f64,
    /// TLS's handshake.
    pub tls_s: f64,
    /// From the request to the first byte of the response.
    pub first_byte_s: f64,
    /// The rest of the response.
    pub body_s: f64,
}

/// CPU time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuTime {
    /// In the program.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

/// How many threads had something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadCounts {
    /// Busy for at least half of the time.
    pub busy: u32,
    /// The others.
    pub idle: u32,
}

impl Measurement {
    /// How many failures there were.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Counts failures of a kind.
    pub fn add_errors(&mut self, kind: impl Into<String>, count: u64) {
        if count > 0 {
            *self.errors.entry(kind.into()).or_default() += count;
        }
    }
}

impl CpuTime {
    /// Both together.
    #[must_use]
    pub fn total_s(self) -> f64 {
        self.user_s + self.system_s
    }
}

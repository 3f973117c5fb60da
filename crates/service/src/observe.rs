//! Metrics, a log of lines, and the admin endpoint.
//!
//! Counters and the log are on the path of every request, on several threads at once. So they cost a few uncontended atomic operations,
//! take no lock that another thread may hold for long, never wait for a disk, and hold a bounded amount of memory:
//!
//! - [`ShardedCounters`] has a shard for each thread; reading sums the shards. A [`DurationHistogram`] is made of them.
//! - [`LineLog`] puts lines into bounded buffers; a thread of its own writes them. When the disk does not keep up, lines are
//!   dropped and counted.
//! - [`serve_admin`] serves `/healthz`, `/metrics` from any number of [`MetricSource`]s, and the [`AdminPage`]s that a server adds.
//!
//! Nothing here knows what is served, and there is no global registry: each server gives its own [`MetricSource`]s to the
//! [`AdminEndpoint`]; all have [`ProcessMetrics`].

mod admin;
mod exposition;
mod failure_reports;
mod histogram;
mod log;
mod process;
mod sharded;
mod timestamp;

pub use admin::{AdminEndpoint, AdminPage, serve_admin};
pub use exposition::{MetricFamily, MetricKind, MetricSource, MetricsText, render};
pub use failure_reports::FailureReports;
pub use histogram::DurationHistogram;
pub use log::{LineLog, LogError, LogNotice, LogOptions, LogSink, LogTarget};
pub use process::ProcessMetrics;
pub use sharded::ShardedCounters;
pub use timestamp::{UtcTimestamp, write_number};

//! What is told of what a server does: numbers, lines, and an address to ask at.
//!
//! All of it is called on the path of every request, from several threads at once, and so costs a few uncontended atomic
//! operations, takes no lock that another thread may hold for long, waits for no disk, and keeps a stated amount at most:
//!
//! - [`ShardedCounters`] counts in shards, of which each thread has its own; they are summed when somebody asks. A [`DurationHistogram`] is made of them.
//! - [`LineLog`] takes lines into a bounded buffer; a thread of its own writes the buffers out. When the disk does not keep up, lines are
//!   dropped and counted.
//! - [`serve_admin`] answers `/healthz` and `/metrics`, the latter from any number of [`MetricSource`]s, and what [`AdminPage`]s its owner adds.
//!
//! Nothing here knows what is served, and there is no global registry: whoever has something to tell implements [`MetricSource`] and is put
//! in the list that [`AdminEndpoint`] is made of. Each command brings sources of its own; [`ProcessMetrics`] is everybody's.

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

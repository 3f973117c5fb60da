//! Metrics and the access log.
//!
//! Both are on the path of every request, built from the cheap primitives of
//! [`haul_service::observe`]:
//!
//! - [`ServeMetrics`] counts requests, bytes, connections and faults, each thread in cache lines of
//!   its own.
//! - [`AccessLog`] renders an [`AccessRecord`] in an [`AccessLogFormat`] into a
//!   [`LineLog`](haul_service::observe::LineLog).
//!
//! Nothing here knows the store or the HTTP service.

mod access_log;
mod faults;
mod metrics;

pub use access_log::{AccessLog, AccessLogFormat, AccessRecord};
pub use faults::{BodyRefusal, ConnectionFault};
pub use metrics::{GaugeGuard, ServeMetrics};

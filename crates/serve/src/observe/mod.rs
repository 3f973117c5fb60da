//! What is told of what the server does: numbers, and a line for each request.
//!
//! Both are made on the path of every request, of what [`haul_service::observe`] has for it, and cost as little as that says:
//!
//! - [`ServeMetrics`] counts requests, bytes, connections and what goes wrong, each thread in lines of its own.
//! - [`AccessLog`] renders a [`AccessRecord`] as a [`AccessLogFormat`] into a [`LineLog`](haul_service::observe::LineLog).
//!
//! Nothing here knows the store or HTTP's service.

mod access_log;
mod format;
mod metrics;
mod record;

pub use access_log::AccessLog;
pub use format::{AccessLogFormat, AccessLogFormatError};
pub use metrics::{BodyRefusal, ConnectionFault, GaugeGuard, ServeMetrics};
pub use record::AccessRecord;

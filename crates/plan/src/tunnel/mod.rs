//! What a tunnel decides: which way to a target is tried next, by which road bytes go on, and how many connections stand ready.
//!
//! [`UpstreamRoutes`] knows the upstream proxies by their numbers and orders them for each connection. [`BulkDetector`] says of one direction of a relay
//! when moving bytes within the kernel is worth its two further calls. [`WarmPoolPlan`] keeps connections open in advance. What connects,
//! reads and writes is the tunnel's own crate.

mod bulk_detector;
mod routes;
mod warm_pool;

pub use bulk_detector::{BulkDetector, CopyMethod};
pub use routes::{RouteFailure, UpstreamRoute, UpstreamRoutes, attempt_timeout};
pub use warm_pool::{WarmPoolOptions, WarmPoolPlan};

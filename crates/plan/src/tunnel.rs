//! What a tunnel decides: which route to a target is tried next, how bytes are copied, and how many
//! connections are kept warm.
//!
//! [`UpstreamRoutes`] knows the upstream proxies by their numbers and orders them for each connection.
//! [`BulkDetector`] says of one direction of a relay when moving bytes within the kernel is worth its two
//! further calls. [`WarmPoolPlan`] opens connections in advance. The tunnel's own crate connects, reads and
//! writes.

mod bulk_detector;
mod routes;
mod warm_pool;

pub use bulk_detector::{BulkDetector, CopyMethod};
pub use routes::{RouteFailure, UpstreamRoute, UpstreamRoutes, attempt_timeout};
pub use warm_pool::{WarmPoolOptions, WarmPoolPlan};

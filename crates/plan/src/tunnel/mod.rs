//! What a tunnel decides: which way to a target is tried next, by which road bytes go on, and how many connections stand ready.
//!
//! [`UpstreamRoutes`] knows the upstream proxies by their numbers and orders them for each connection. [`BulkDetector`] says of one direction of a relay
//! when moving bytes within the kernel is worth its two further calls. [`WarmPoolPlan`] keeps connections open in advance. What connects,
//! reads and writes is the tunnel's own crate.

mod bulk;
mod reserve;
mod ways;

pub use bulk::{BulkDetector, CopyMethod};
pub use reserve::{WarmPoolOptions, WarmPoolPlan};
pub use ways::{RouteFailure, UpstreamRoute, UpstreamRoutes, share};

//! Any TCP protocol through upstream proxies.
//!
//! ```text
//! listener -> local (what does the client want?) -> upstream (by which way?) -> net::connector -> relay
//! ```
//!
//! [`TunnelEngine`] accepts, keeps the table of what is live, and ends; [`TunnelConfig`] is what one listener does. A connection's whole life is one
//! task, in `session`: what its client says first ([`ListenerKind`]), the way to the target ([`Upstream`], or [`WarmPool`], which has gone
//! it before), and the [`relay`]. What is decided - which way is tried first, when a pipe is worth it, how many connections stand
//! ready - is in [`haul_plan::tunnel`]; how a proxy is spoken to is in `haul_net`, where all of the program's CONNECTs are.
//!
//! What is told of it goes three ways: a line of the log for each connection, metrics, and the [`TunnelStatus`] of what is live.

mod active_connections;
mod config;
mod connection_log;
mod engine;
mod http_listener;
mod log_record;
mod metrics;

pub mod relay;
mod session;
mod socks_listener;
mod spec;
mod status;
mod upstream;
mod warm_pool;

pub use config::{ClientAddress, ListenerKind, TunnelConfig, TunnelTimeouts};
pub use engine::{TunnelEngine, TunnelEngineOptions, TunnelListener};
pub use haul_plan::tunnel::WarmPoolOptions;
pub use log_record::{TunnelLogFormat, TunnelLogFormatError};
pub use session::relay_to_target;
pub use spec::{TunnelSpec, TunnelSpecError};
pub use status::{ConnectionStatus, ListenerStatus, TunnelStatus};
pub use upstream::{
    StreamPurpose, Upstream, UpstreamConfigError, UpstreamConnectError, UpstreamConnection,
    UpstreamOptions,
};
pub use warm_pool::WarmPool;

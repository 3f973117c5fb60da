//! Forwards any TCP protocol through upstream proxies.
//!
//! ```text
//! engine (accept) -> session -> socks_listener, http_listener (which target?) -> upstream (by which route?) -> net::connector -> relay
//! ```
//!
//! [`TunnelEngine`] accepts connections, owns them and shuts them down. [`TunnelConfig`] says what one listener does with its clients. One
//! task serves a connection for its whole life (`session`): the client names its target ([`ListenerKind`]), the [`Upstream`] connects to
//! it, or a [`WarmPool`] has done so before, and the [`relay`] joins the two. Clients of an HTTP listener may send many requests instead,
//! which hyper serves (`http_listener`). Pure modules decide which route is tried first, when a pipe is worth it, and how many
//! warm connections there are. [`TunnelListenerSet`] opens and closes listeners as settings say. How to speak with a proxy is `haul_net`'s affair.
//!
//! A connection that is over has a line in the log (`log_record`) and is counted (`metrics`); one that is open is shown by [`TunnelStatus`].

mod active_connections;
mod config;
mod connection_log;
mod engine;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http_listener;
mod listener_set;
mod log_record;
mod metrics;
pub mod relay;
mod session;
mod socks_listener;
mod spec;
mod status;
mod stdio;
mod upstream;
mod warm_pool;

pub use config::{ClientAddress, ListenerKind, TunnelConfig, TunnelTimeouts};
pub use engine::{TunnelEngine, TunnelEngineOptions, TunnelListener};
pub use listener_set::{
    AddressHolder, ListenerChanges, ListenerSetError, ListenerSettings, TunnelListenerSet,
};
pub use log_record::TunnelLogFormat;
pub use spec::{TunnelSpec, TunnelSpecError};
pub use status::{ConnectionStatus, ListenerStatus, TunnelStatus};
pub use stdio::{StdioOutcome, relay_stdio};
pub use upstream::{
    StreamPurpose, Upstream, UpstreamConfigError, UpstreamConnectError, UpstreamConnection,
    UpstreamOptions,
};
pub use warm_pool::{WarmPool, WarmPoolOptions};

//! Any TCP protocol through upstream proxies.
//!
//! ```text
//! listener -> local (what does the client want?) -> upstream (by which way?) -> net::connector -> relay
//! ```
//!
//! [`Engine`] accepts, keeps the table of what is live, and ends; [`Tunnel`] is what one listener does. A connection's whole life is one
//! task, in `session`: what its client says first ([`Local`]), the way to the target ([`Upstream`], or [`Warm`], which has gone
//! it before), and the [`relay`]. What is decided - which way is tried first, when a pipe is worth it, how many connections stand
//! ready - is in [`haul_plan::tunnel`]; how a proxy is spoken to is in `haul_net`, where all of the program's CONNECTs are.
//!
//! What is told of it goes three ways: a [`Record`] of each connection for the log, [`Metrics`], and the [`Status`] of what is live.

#[cfg(target_os = "linux")]
mod diag;
mod engine;
mod live;
mod local;
mod metrics;
mod record;
pub mod relay;
mod request;
mod reserve;
mod session;
mod spec;
mod status;
mod upstream;
mod waiting;

pub use engine::{Door, Engine, EngineOptions};
pub use haul_plan::tunnel::ReserveOptions;
pub use local::Local;
pub use metrics::Metrics;
pub use record::{LogFormat, LogFormatError, Outcome, Record};
pub use reserve::Warm;
pub use session::{Peer, Tunnel, TunnelOptions, join};
pub use spec::{Spec, SpecError};
pub use status::{LiveConnection, LiveTunnel, Status};
pub use upstream::{Errand, Found, Unreached, Upstream, UpstreamError, UpstreamOptions};

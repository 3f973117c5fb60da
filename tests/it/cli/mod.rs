//! `haul` against scripted origins: flags, messages, exit codes, progress, signals.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot go on without fails it, in its helpers too"
)]

mod batch;
mod batch_kept;
mod batch_results;
mod credentials;
mod demo;
mod errors;
mod files;
pub(crate) mod harness;
mod help;
mod kill;
#[cfg(target_os = "linux")]
mod limits;
mod messages;
mod mirrors;
mod network;
mod output;
mod proxies;
mod refusals;
mod results;
#[cfg(unix)]
mod serve;
#[cfg(target_os = "linux")]
pub(crate) mod served;
mod signals;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod tunnel;

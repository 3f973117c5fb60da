//! `haul` against scripted origins: flags, messages, exit codes, progress, signals.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot go on without fails it, in its helpers too"
)]

mod batch;
mod batch_manifests;
mod batch_results;
#[cfg(target_os = "linux")]
mod bench;
mod credentials;
mod demo;
mod drawn_sync;
mod drips;
mod echoed_secrets;
mod errors;
mod files;
mod folding_folders;
pub(crate) mod harness;
mod help;
mod json_objects;
mod kill;
#[cfg(target_os = "linux")]
mod link_local;
mod lost_results;
mod messages;
mod mirrors;
mod network;
#[cfg(target_os = "linux")]
mod open_files;
mod output;
#[cfg(target_os = "linux")]
mod password_prompts;
mod proxies;
mod proxy_refusals;
mod put_expectations;
mod s3;
mod s3_clocks;
mod s3_lists;
mod s3_names;
mod s3_second_runs;
#[cfg(unix)]
mod serve;
mod shared_refusals;
mod signals;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
pub(crate) mod soak_server;
#[cfg(unix)]
mod tunnel;
mod upload_faults;
mod upload_folders;
mod upload_kills;

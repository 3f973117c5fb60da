//! The commands. They connect the crates and return an exit code; the work is in the crates. What servers share is in [`service`].

mod batch;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod objects;
pub(crate) mod put;
mod run_loop;
pub(crate) mod serve;
mod service;
pub(crate) mod sign;
mod single_downloads;
pub(crate) mod sync;
pub(crate) mod tunnel;
mod uploads;

//! The commands, a file each. They put the pieces together and return an exit code; none does any work of its own. What those that
//! serve have in common is in [`service`].

mod batch;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod get;
mod jobs;
mod outputs;
mod result_writer;
mod run_loop;
pub(crate) mod serve;
mod service;
pub(crate) mod sign;
pub(crate) mod tunnel;

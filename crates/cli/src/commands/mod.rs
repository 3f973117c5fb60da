//! The commands, a file each.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod get;
mod run;

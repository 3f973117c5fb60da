//! `haul` against scripted origins: flags, messages, exit codes, progress, signals.

mod credentials;
mod demo;
mod errors;
mod files;
mod harness;
mod help;
mod kill;
mod network;
mod output;
mod signals;

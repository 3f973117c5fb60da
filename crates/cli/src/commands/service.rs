//! What every command has that serves until it is asked to end, whatever it serves.
//!
//! A command of that kind puts these around what is its own: [`log`] before it begins and after it ended, [`places`] and [`taken`] where it
//! listens, [`endpoint`] for whoever watches, [`manager`] for whoever started it, [`trouble`] when it cannot begin, and [`telling`] for what it
//! tells once it runs. Signals are in
//! [`signals`](crate::signals).

pub(crate) mod address_conflicts;
pub(crate) mod addresses;
pub(crate) mod admin;
pub(crate) mod background_print;
pub(crate) mod command_error;
pub(crate) mod heap_trim;
pub(crate) mod log;
pub(crate) mod service_manager;

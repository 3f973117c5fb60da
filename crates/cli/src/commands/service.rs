//! What every command has that serves until it is asked to end, whatever it serves.
//!
//! A command of that kind puts these around what is its own: [`log`] before it begins and after it ended, [`places`] and [`taken`] where it
//! listens, [`endpoint`] for whoever watches, [`manager`] for whoever started it, [`trouble`] when it cannot begin, and [`telling`] for what it
//! tells once it runs. Signals are in
//! [`signals`](crate::signals).

pub(crate) mod ebb;
pub(crate) mod endpoint;
pub(crate) mod log;
pub(crate) mod manager;
pub(crate) mod places;
pub(crate) mod taken;
pub(crate) mod telling;
pub(crate) mod trouble;

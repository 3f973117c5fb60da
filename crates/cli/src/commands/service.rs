//! What all servers share.
//!
//! A server command uses [`log`] before it starts and after it has ended, [`addresses`] and [`address_conflicts`] where it listens,
//! [`admin`] for its admin endpoint, [`service_manager`] to notify systemd, [`command_error`] when it cannot start, and
//! [`background_print`] for messages while it runs. Signals are in [`signals`](crate::signals).

pub(crate) mod address_conflicts;
pub(crate) mod addresses;
pub(crate) mod admin;
pub(crate) mod background_print;
pub(crate) mod command_error;
pub(crate) mod heap_trim;
pub(crate) mod log;
pub(crate) mod service_manager;

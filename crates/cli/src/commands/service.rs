//! What all servers share.
//!
//! [`lifecycle`] runs a server from its start to its end, and opens its [`log`]; [`banner`] prints the start message, [`addresses`] is about
//! where it listens, [`admin`] serves its admin endpoint, and a [`command_error`] is why it cannot start.

pub(crate) mod addresses;
pub(crate) mod admin;
pub(crate) mod banner;
pub(crate) mod command_error;
pub(crate) mod lifecycle;
pub(crate) mod log;

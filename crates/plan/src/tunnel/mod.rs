//! What a tunnel decides: which way to a target is tried next, by which road bytes go on, and how many connections stand ready.
//!
//! [`Ways`] knows the upstream proxies by their numbers and orders them for each connection. [`Bulk`] says of one direction of a relay
//! when moving bytes within the kernel is worth its two further calls. [`Reserve`] keeps connections open in advance. What connects,
//! reads and writes is the tunnel's own crate.

mod bulk;
mod reserve;
mod ways;

pub use bulk::{Bulk, Road};
pub use reserve::{Reserve, ReserveOptions};
pub use ways::{Setback, Way, Ways, share};

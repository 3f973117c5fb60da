//! What any server needs that runs for long, whatever it serves: where it listens, and what it tells of itself.
//!
//! - [`listen`]: addresses become listening sockets, also those that a service manager hands over; the manager is told how we are.
//! - [`observe`]: numbers, lines that a thread of its own writes, and an endpoint for whoever watches.
//! - [`ServerNames`]: the names that a server goes by where nothing else keeps the pages of strangers out.
//!
//! Nothing here accepts the server's own connections, knows what they carry, or reads certificates: `haul serve` and `haul tunnel` do
//! that each in a way of its own, and put what is here beneath it.

mod hosts;
pub mod listen;
pub mod observe;

pub use hosts::ServerNames;

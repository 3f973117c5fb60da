//! The runtime of a server, whatever it serves: where it listens, how it accepts, and how it reports what it does.
//!
//! - [`listen`]: addresses become listening sockets, among them those that a service manager hands over; the manager is notified of the state.
//! - [`accept`]: connections are accepted, with one answer to each error of accept(2).
//! - [`observe`]: metrics, a log that a thread of its own writes, and the admin endpoint.
//! - [`ServerLifecycle`]: the life of a server between its start and the signals that stop it, with reloads and [chores](Chore).
//! - [`reachable_addresses`]: the addresses of this machine that other machines can connect to.
//! - [`ServerNames`]: the host names that a server accepts, against DNS rebinding; [`request_host`] says which one a request names.
//!
//! Nothing here knows what the connections carry, or reads certificates: `haul serve` and `haul tunnel` do.

pub mod accept;
mod chores;
mod hosts;
mod lifecycle;
pub mod listen;
mod local_addresses;
pub mod observe;
mod signals;

pub use chores::Chore;
pub use hosts::{ServerNames, request_host};
pub use lifecycle::{Server, ServerLifecycle, ServerShutdown};
pub use local_addresses::reachable_addresses;
pub use signals::{ServerSignal, ServerSignals, is_hang_up_handled};

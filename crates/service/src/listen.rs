//! Where connections come from.
//!
//! A [`ListenAddress`] is what a user writes; [`bind()`] makes it into nonblocking listening sockets. Sockets that systemd opened for this
//! process come from [`InheritedSockets`]. [`ServiceManagerNotifier`] notifies the service manager of this process's state. The
//! [`Acceptor`](crate::accept::Acceptor) accepts.

mod address;
mod bind;
mod conflicts;
mod error;
mod listener;
mod notify;
mod socket_file;
mod systemd;
mod tcp;
mod unix;

pub use address::{ListenAddress, ListenAddressError, ListenHost};
pub use bind::bind;
pub use conflicts::{bound_addresses, is_taken_by_this_process};
pub use error::ListenError;
pub use listener::{BindOptions, BoundAddress, BoundListener, Listener};
pub use notify::ServiceManagerNotifier;
pub use socket_file::SocketFile;
pub use systemd::{InheritedSockets, InheritedSocketsError};

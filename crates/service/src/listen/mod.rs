//! Where connections come from.
//!
//! An [`ListenAddress`] is what a user writes; [`bind()`] makes it into sockets of the standard library that listen and do not block,
//! ready for a reactor. Sockets that were opened before us (systemd) come from [`InheritedSockets`]. [`ServiceManagerNotifier`] tells the service manager how
//! we are.
//!
//! Nothing here accepts. Whoever does so makes a tokio listener of a [`Listener`] on the runtime that is to own it:
//!
//! ```no_run
//! # use haul_service::listen::{bind, BindOptions, Handed, Listener};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for bound in bind(&"127.0.0.1:0".parse()?, &BindOptions::default(), &mut Handed::none())? {
//!     for listener in bound.listeners {
//!         match listener {
//!             // On Linux what it accepts has TCP_NODELAY already.
//!             Listener::Tcp(listener) => drop(tokio::net::TcpListener::from_std(listener)?),
//!             Listener::Unix(listener) => drop(tokio::net::UnixListener::from_std(listener)?),
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
mod address;
mod bind;
mod error;
mod notify;
mod sys;
mod systemd;
mod tcp;
mod unix;

pub use address::{ListenAddress, ListenAddressError, ListenHost};
pub use bind::{BindOptions, BoundAddress, BoundListener, Listener, bind};
pub use error::ListenError;
pub use notify::ServiceManagerNotifier;
pub use systemd::{InheritedSockets, InheritedSocketsError};
pub use unix::SocketFile;

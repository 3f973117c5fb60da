//! Registers a listening socket without registering the sockets that it accepts.
#![expect(
    unsafe_code,
    reason = "tokio's own listeners register what they accept with their runtime; a server that hands connections to other threads would pay two system calls each to undo that"
)]

use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::listen::Listener;

/// Registers a listening socket with the current runtime.
pub(super) fn register(listener: Listener) -> io::Result<AsyncFd<Listener>> {
    // SAFETY: a listener's descriptor is that of the socket it owns: it stays the same and open
    // until the listener is dropped, which nothing can do while it is registered.
    let registered = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    Ok(registered?)
}

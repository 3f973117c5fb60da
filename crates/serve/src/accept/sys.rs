//! Registers a listening socket without registering the sockets that it accepts.
#![expect(
    unsafe_code,
    reason = "tokio's own listeners tie what they accept to their runtime; untying and tying it again costs a connection two system calls"
)]

use std::io;

use haul_service::listen::Listener;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a listening socket with the current runtime.
pub(super) fn watch(listener: Listener) -> io::Result<AsyncFd<Listener>> {
    // SAFETY: a listener's descriptor is that of the socket it owns: it stays the same and open
    // until the listener is dropped, which nothing can do while it is registered.
    let watched = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    Ok(watched?)
}

//! The one call of the load generator that the compiler cannot check.
#![expect(
    unsafe_code,
    reason = "`AsyncFd::register` trusts its caller with the descriptor"
)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor that becomes readable with the current runtime.
pub(super) fn register_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: An `OwnedFd` names the same open file until it is dropped, which only the `AsyncFd` that owns it does.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(registered?)
}

//! Asks the system how much of a socket's data the peer has not acknowledged.
#![expect(
    unsafe_code,
    reason = "nobody wraps this call; without it a slow reader behind a large buffer looks like one that has stopped"
)]

use std::os::fd::{AsFd, AsRawFd as _};

/// Bytes that were given to a socket and that its peer has not acknowledged (`SIOCOUTQ`). Zero if
/// that is unknown.
pub(super) fn unsent(socket: impl AsFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, since it is borrowed; the call writes one integer into
    // `bytes`.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        u64::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

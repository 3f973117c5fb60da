//! The one question to a socket that no safe wrapper offers: `SIOCOUTQ`.
#![expect(
    unsafe_code,
    reason = "ioctl(2) with an integer; nothing else tells when a peer has all that was sent to it"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes that were written to a TCP socket and that its peer's system has not acknowledged (tcp(7)).
///
/// # Errors
/// What the system says.
pub(super) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed and so open; the pointer leads to an integer that lives until the call returns, and this
    // request writes one integer.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    match done {
        0 => Ok(u32::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

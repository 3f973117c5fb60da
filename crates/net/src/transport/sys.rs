//! `SO_RCVLOWAT`, `SO_BUF_LOCK`, `TCP_INFO` and `SIOCOUTQ`, which no safe wrapper offers.
#![expect(
    unsafe_code,
    reason = "setsockopt(2) and ioctl(2) with an integer: they save a wake-up for each packet, let a connection grow fast again after a rate limit, and tell a slow peer from one that has stopped. getsockopt(2) with a struct: it tells a long path from a busy machine"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Sets how many bytes must have arrived before a reader of the socket is woken (socket(7)). The end of the stream and errors wake
/// it at any time. A lower mark wakes it at once if that many bytes have arrived already.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    // The kernel takes a C int; half of its range is far more than any socket buffer.
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SO_RCVLOWAT, bytes)
}

/// Lets the system find the sizes of a socket's buffers again, after one was set (Linux 5.13).
///
/// # Errors
/// The error of setsockopt(2).
pub(super) fn unlock_buffer_sizes(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_BUF_LOCK, 0)
}

fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "four")]
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open. The pointer leads to an integer of this length, which the kernel copies
    // before the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How long TCP's handshake took by the system's clock, for a socket that was just connected (tcp(7), `TCP_INFO`). `None` if that is unknown.
#[must_use]
pub(crate) fn handshake_round_trip(socket: BorrowedFd<'_>) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    #[expect(clippy::cast_possible_truncation, reason = "a few hundred bytes")]
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open. The kernel writes at most `length` bytes into `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: all fields are integers, for which zeros are valid. An older kernel writes fewer of them.
    let info = unsafe { info.assume_init() };
    Some(Duration::from_micros(info.tcpi_rtt.into())).filter(|time| !time.is_zero())
}

/// Bytes that were given to a socket and that its peer has not acknowledged (tcp(7), `SIOCOUTQ`). Zero if that is unknown.
#[must_use]
pub fn bytes_unacknowledged(socket: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed and so open. The call writes one integer into `bytes`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        u64::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

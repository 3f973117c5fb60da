//! Waits for the writeback of a file.
#![expect(
    unsafe_code,
    reason = "nobody wraps this call; the one that is wrapped flushes the disk once more for each file, which is what is to be saved"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Waits until all bytes of a file that are being written have arrived on the disk. Starts no
/// writes.
///
/// # Errors
/// The file's own error, if writing any of it back has failed.
pub(super) fn wait_for_writeback(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, since it is borrowed; the other arguments are numbers: the
    // whole file, and to wait for what is being written.
    let result =
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

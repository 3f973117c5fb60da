//! No descriptor left: a failure of this machine's, which neither the link nor the peer has a part in.

use std::error::Error as StdError;
use std::io;

use crate::error::Error;

/// Whether the process, or the system, has as many files open as it may.
#[must_use]
pub fn is_descriptor_limit(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    cfg!(unix) && matches!(errno, Some(libc::EMFILE | libc::ENFILE))
}

impl Error {
    /// Whether that is why there was no connection, or no address.
    #[must_use]
    pub fn is_descriptor_limit(&self) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(is_descriptor_limit) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

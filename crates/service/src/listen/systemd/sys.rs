//! Takes ownership of the descriptors that the service manager left open (`sd_listen_fds(3)`).
#![expect(
    unsafe_code,
    reason = "a number becomes an owned descriptor on the word of the environment"
)]

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{InheritedSocketsError, inherited_names};

/// The number of the first descriptor (`SD_LISTEN_FDS_START`).
const FIRST_DESCRIPTOR: RawFd = 3;

/// Whether they were taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the descriptors, with their names; none if the environment announces none for this process.
///
/// The environment is read here and not passed in: these numbers belong to this process because it was set before the process began.
///
/// # Errors
/// When the environment does not make sense, a descriptor is not open, or they were taken before.
pub(super) fn take() -> Result<Vec<(String, OwnedFd)>, InheritedSocketsError> {
    let variable = |name: &str| std::env::var_os(name);
    let Some(names) = inherited_names(variable, std::process::id())? else {
        return Ok(Vec::new());
    };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(InheritedSocketsError::AlreadyTaken);
    }
    for (number, name) in (FIRST_DESCRIPTOR..).zip(&names) {
        // SAFETY: this call takes any number; for one that is not an open descriptor it returns an error.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            return Err(InheritedSocketsError::NotOpen { number });
        }
        // The announcement is wrong: this process opened the descriptor itself, so it has an owner already.
        if !is_listening(number) {
            return Err(InheritedSocketsError::NotListening { name: name.clone() });
        }
    }
    let own = |(number, name)| {
        // SAFETY: it is open and listens, as was just checked, and nothing of this process listens yet. Nothing else in this process owns it: the
        // environment says that it was open when the process began, so nothing opened since has its number, and `TAKEN` lets one caller pass.
        (name, unsafe { OwnedFd::from_raw_fd(number) })
    };
    Ok((FIRST_DESCRIPTOR..).zip(names).map(own).collect())
}

/// Whether a descriptor is a listening socket.
fn is_listening(number: RawFd) -> bool {
    let mut listens: libc::c_int = 0;
    let mut len: libc::socklen_t = size_of::<libc::c_int>().try_into().unwrap_or(0);
    let value = (&raw mut listens).cast::<libc::c_void>();
    // SAFETY: the call takes any number; it writes at most `len` bytes, the size of `listens`.
    let result = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            value,
            &raw mut len,
        )
    };
    result == 0 && listens != 0
}

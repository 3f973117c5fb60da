//! The descriptors that whoever started us has left open (`sd_listen_fds(3)`): bare numbers, which become owned here.
#![expect(
    unsafe_code,
    reason = "a number becomes an owned descriptor, which only a promise from outside the process makes true"
)]

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::systemd::{InheritedSocketsError, inherited_names};

/// The number of the first of them (`SD_LISTEN_FDS_START`).
const FIRST_DESCRIPTOR: RawFd = 3;

/// Whether somebody owns them.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes what was handed over, with its names; nothing when nothing was promised to this process.
///
/// The environment is read here and not passed in: what makes these numbers ours is that it was set before we began.
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
        // SAFETY: this call takes any number; of one that is no open descriptor it says that, and does nothing.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            return Err(InheritedSocketsError::NotOpen { number });
        }
        // A promise that was not kept: what has the number is of our own making by now, and must not be owned twice.
        if !is_listening(number) {
            return Err(InheritedSocketsError::NotListening { name: name.clone() });
        }
    }
    let own = |(number, name)| {
        // SAFETY: it is open and listens, as was just seen, and nothing of this process listens yet. Nobody else in this process owns it: the environment says that it was open
        // when the process began, so that nothing opened since has got its number, and `TAKEN` lets one caller come here.
        (name, unsafe { OwnedFd::from_raw_fd(number) })
    };
    Ok((FIRST_DESCRIPTOR..).zip(names).map(own).collect())
}

/// Whether a number is that of a socket that listens.
fn is_listening(number: RawFd) -> bool {
    let mut listens: libc::c_int = 0;
    let mut len: libc::socklen_t = size_of::<libc::c_int>().try_into().unwrap_or(0);
    let place = (&raw mut listens).cast::<libc::c_void>();
    // SAFETY: the call takes any number; it writes at most `len` bytes, to where there are as many.
    let result = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            place,
            &raw mut len,
        )
    };
    result == 0 && listens != 0
}

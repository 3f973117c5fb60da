//! What only a look before `main` can tell: which of the standard streams were open at all.
//!
//! The standard library opens `/dev/null` in place of a standard stream that is closed (`>&-`), before `main` begins. That
//! keeps the next file from getting its number, but a result would then vanish without an error, and a list would name nothing.
//! So a constructor, which the system calls before all that, looks once. Nothing else is done there.

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod before_main {
    #![expect(
        unsafe_code,
        reason = "a function is called before main by being named in a section of its own"
    )]

    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether each was closed: standard input, output and error.
    pub(super) static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

    // SAFETY: the section holds addresses of functions without arguments, as this one is.
    #[used]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    static LOOK: extern "C" fn() = look_at_standard_streams;

    extern "C" fn look_at_standard_streams() {
        for (number, closed) in (0..).zip(&CLOSED) {
            // SAFETY: this call takes any number; of one that is no open descriptor it says that, and does nothing.
            if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
                closed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether one of them was closed.
    pub(super) fn closed(which: usize) -> bool {
        CLOSED[which].load(Ordering::Relaxed)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod before_main {
    /// Not known here.
    pub(super) fn closed(_which: usize) -> bool {
        false
    }
}

/// Whether the program was started without a standard input.
pub(crate) fn stdin_closed() -> bool {
    before_main::closed(0)
}

/// Whether the program was started without a standard output.
pub(crate) fn stdout_closed() -> bool {
    before_main::closed(1)
}

/// Whether the program was started without a standard error.
pub(crate) fn stderr_closed() -> bool {
    before_main::closed(2)
}

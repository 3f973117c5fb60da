//! What needs the system before anything else runs: which standard streams were open at the start, and a signal that must not kill.
//!
//! The standard library opens `/dev/null` in place of a closed standard stream (`>&-`) before `main` runs. That keeps the next file from
//! getting its number, but a result would then vanish without an error, and a list would be empty. So a constructor, which the system calls
//! before that, looks once. It does nothing else.

mod before_main {
    #![expect(
        unsafe_code,
        reason = "a function is called before main by being named in a section of its own"
    )]

    use std::sync::atomic::{AtomicBool, Ordering};

    /// Standard input, output and error.
    pub(super) static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

    // SAFETY: the section contains addresses of functions without arguments, such as this one.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look_at_standard_streams;

    extern "C" fn look_at_standard_streams() {
        for (number, closed) in (0..).zip(&CLOSED) {
            // SAFETY: fcntl takes any number; for one that is not an open descriptor it returns an error and does nothing.
            if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
                closed.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn closed(which: usize) -> bool {
        CLOSED[which].load(Ordering::Relaxed)
    }
}

pub(crate) fn stdin_closed() -> bool {
    before_main::closed(0)
}

pub(crate) fn stdout_closed() -> bool {
    before_main::closed(1)
}

pub(crate) fn stderr_closed() -> bool {
    before_main::closed(2)
}

/// Turns the death of this process at the limit of `ulimit -f` into an error of the write (EFBIG).
#[expect(unsafe_code, reason = "the disposition of a signal is the process's")]
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is not a handler, so nothing of this program runs in a signal's context.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

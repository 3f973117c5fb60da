//! The one call of the servers that the compiler cannot check: what a child process does before it runs its program.
#![expect(
    unsafe_code,
    reason = "`pre_exec` trusts its caller to do nothing there that needs another thread"
)]

use std::io;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// Has the kernel kill the process of `command` when the thread that starts it ends. Nobody else would, once this process was killed.
pub(super) fn end_with_this_thread(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before the call.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotConnected.into())
        }
    };
    // SAFETY: Between fork and exec it makes two system calls. It takes no lock and allocates nothing: the error has no text.
    unsafe {
        command.pre_exec(prepare);
    }
}

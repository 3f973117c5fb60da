//! SIGINT, SIGTERM and SIGHUP of downloads: the first stops the jobs and keeps their state, the second ends the program at once.
//!
//! A hang-up does not count as a second signal: when a terminal closes, the kernel and the shell may both send one. A SIGHUP that was
//! ignored at the start, as under nohup(1), stays ignored.

mod server;

use std::io;

use crate::exit::ExitReason;
pub(crate) use server::{ServerSignal, ServerSignals};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT or SIGTERM.
    End,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

/// Receives signals from its creation on: none gets lost between two waits.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None`: SIGHUP is ignored.
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl StopSignals {
    /// Installs the handlers.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: is_hang_up_handled()
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> StopSignal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::End,
            _ = self.terminate.recv() => StopSignal::End,
            _ = hang_up => StopSignal::HangUp,
        }
    }
}

/// Whether SIGHUP is not ignored; a handler would undo that. Where it cannot be known SIGHUP is left alone: its default ends the process,
/// which journals survive as they survive a kill.
fn is_hang_up_handled() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status).is_some_and(|ignored| ignored & 1 == 0)
}

/// The mask of ignored signals in `/proc/self/status` (proc(5)). SIGHUP, the first signal, is its lowest bit.
fn ignored_signals(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Ends the program without returning to `main`: after a second signal nothing is waited for.
#[expect(
    clippy::exit,
    reason = "the second signal does not wait; journals survive it as they survive a kill"
)]
pub(crate) fn exit_at_once() -> ! {
    std::process::exit(ExitReason::Interrupted as i32);
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read_from_proc() {
        assert_eq!(
            ignored_signals("Name:\thaul\nSigIgn:\t0000000000001001\n"),
            Some(0x1001)
        );
        assert_eq!(ignored_signals("Name:\thaul\n"), None);
    }
}

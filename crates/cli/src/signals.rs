//! SIGINT, SIGTERM and SIGHUP of downloads: the first stops the jobs and keeps their state, the second ends the program at once.
//!
//! A hang-up does not count as a second signal: when a terminal closes, the kernel and the shell may both send one. A SIGHUP that was
//! ignored at the start, as under nohup(1), stays ignored.

use std::io;

use haul_service::is_hang_up_handled;

use crate::exit::ExitReason;

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

/// Ends the program without returning to `main`: after a second signal haul waits for nothing.
#[expect(
    clippy::exit,
    reason = "the second signal does not wait; journals survive it as they survive a kill"
)]
pub(crate) fn exit_at_once() -> ! {
    std::process::exit(ExitReason::Interrupted as i32);
}

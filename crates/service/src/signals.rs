//! Signals of servers: SIGINT and SIGTERM stop, SIGHUP reloads.
//!
//! SIGHUP has two meanings. An administrator sends it to reload certificates and logs; the system sends it when a terminal closes, which
//! must stop a server that was started there by hand, or it would run on unseen. The two are told apart by whether the terminal of the
//! start still exists. Under nohup(1), which ignores SIGHUP, a terminal may close.

use std::fs::File;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks a server to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSignal {
    /// Stop. The second time, at once.
    Stop,
    /// Stop: the terminal has closed. The kernel and the shell may each send a signal, so a second one means nothing.
    TerminalClosed,
    /// Reload files.
    Reload,
}

/// Receives signals from its creation on: none gets lost between two waits.
#[derive(Debug)]
pub struct ServerSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Whether the server stops when its terminal closes.
    ends_with_terminal: bool,
}

impl ServerSignals {
    /// Installs the handlers. Needs a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn listen() -> io::Result<Self> {
        // Before the handler is installed, which hides that SIGHUP was ignored.
        let is_tied = is_hang_up_handled() && has_terminal();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            ends_with_terminal: is_tied,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn next(&mut self) -> ServerSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ServerSignal::Stop,
            _ = self.terminate.recv() => ServerSignal::Stop,
            _ = self.hang_up.recv() => if self.ends_with_terminal && !has_terminal() { ServerSignal::TerminalClosed } else { ServerSignal::Reload },
        }
    }
}

/// Whether this process has a terminal: otherwise `/dev/tty` cannot be opened (tty(4)).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether SIGHUP is not ignored, as under nohup(1); a handler would undo that. Where it cannot be known SIGHUP is left alone: its default ends the process,
/// which journals survive as they survive a kill.
#[must_use]
pub fn is_hang_up_handled() -> bool {
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

#[cfg(test)]
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

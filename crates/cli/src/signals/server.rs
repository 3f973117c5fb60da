//! Signals of servers: SIGINT and SIGTERM stop, SIGHUP reloads.
//!
//! SIGHUP has two meanings. An administrator sends it to reload certificates and logs; the system sends it when a terminal closes, which
//! must stop a server that was started there by hand, or it would run on unseen. The two are told apart by whether the terminal of the
//! start still exists. Under nohup(1), which ignores SIGHUP, a terminal may close.

use std::fs::File;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::is_hang_up_handled;

/// What a signal asks a server to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSignal {
    /// Stop. The second time, at once.
    Stop,
    /// Stop: the terminal has closed. The kernel and the shell may each send a signal, so a second one means nothing.
    TerminalClosed,
    /// Reload files.
    Reload,
}

/// Receives signals from its creation on: none gets lost between two waits.
#[derive(Debug)]
pub(crate) struct ServerSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Whether the server stops when its terminal closes.
    ends_with_terminal: bool,
}

impl ServerSignals {
    /// Installs the handlers. Needs a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
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
    pub(crate) async fn next(&mut self) -> ServerSignal {
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

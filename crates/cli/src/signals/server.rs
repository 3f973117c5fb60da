//! Signals as servers take them: SIGINT and SIGTERM end, SIGHUP has files read again.
//!
//! SIGHUP has two meanings. An administrator sends it for certificates and logs; the system sends it when a terminal goes away,
//! which has to end a server that was started there by hand, or it would go on unseen. They are told apart by looking whether the
//! terminal that there was at the start is there still. Under nohup(1), which has SIGHUP ignored, a terminal may go.

use std::fs::File;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::is_hang_up_handled;

/// What a server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSignal {
    /// To end.
    End,
    /// To read again what may have changed.
    Reload,
}

/// Listens for signals from when it is made: none gets lost between two waits.
#[derive(Debug)]
pub(crate) struct ServerSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Whether the end of the terminal is the server's.
    ends_with_terminal: bool,
}

impl ServerSignals {
    /// Takes the signals over. To be called on a runtime.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        // Before the handler is there, which would hide that it was ignored.
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
            _ = self.interrupt.recv() => ServerSignal::End,
            _ = self.terminate.recv() => ServerSignal::End,
            _ = self.hang_up.recv() => match self.ends_with_terminal && !has_terminal() {
                true => ServerSignal::End,
                false => ServerSignal::Reload,
            },
        }
    }
}

/// Whether this process has a terminal: without one there is no opening `/dev/tty` (tty(4)).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

//! SIGINT and SIGTERM: the first asks the jobs to stop and keep their state, the second does not wait for them.

use std::io;

use crate::exit::Exit;

/// Listens for signals from when it is made: none gets lost between two waits.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes over both signals.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Takes over Ctrl-C.
    ///
    /// # Errors
    /// None here.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal. Cancel safe.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for the next Ctrl-C. Cancel safe.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The one way out that does not go through `main`: asked for twice, nothing is waited for.
#[expect(
    clippy::exit,
    reason = "the second signal does not wait; journals survive it as they survive a kill"
)]
pub(crate) fn abort() -> ! {
    std::process::exit(Exit::Interrupted as i32);
}
